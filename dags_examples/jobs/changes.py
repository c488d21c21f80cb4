"""Changes: one row per title, re-aggregated where rows were added, changed or removed.

The groups come from both captured tables: the new rows, and the earlier ones. The rows come from the source; a group
without rows is deleted. title_id and account_id are NOT NULL.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, changes: str, before: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target} (title_id INT, accounts BIGINT, watched_seconds BIGINT)
            USING iceberg TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT k.title_id, count(w.account_id) AS accounts, sum(w.watched_seconds) AS watched_seconds
                   FROM (SELECT title_id FROM {changes} UNION SELECT title_id FROM {before}) AS k
                   LEFT JOIN {source} AS w ON w.title_id = k.title_id
                   GROUP BY k.title_id) AS s
            ON t.title_id = s.title_id
            WHEN MATCHED AND s.accounts = 0 THEN DELETE
            WHEN MATCHED THEN UPDATE SET *
            WHEN NOT MATCHED AND s.accounts > 0 THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--changes", required=True)
    parser.add_argument("--before", required=True)
    parser.add_argument("--target", required=True)
    main(**vars(parser.parse_args()))
