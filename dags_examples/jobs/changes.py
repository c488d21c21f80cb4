"""Changes: one row per title, re-aggregated where rows were added, changed or removed.

The groups come from both captured tables: the new rows, and the earlier ones. The rows come from the source; a group
without rows is deleted. airflow_provider_ips.apply is one file that needs nothing but PySpark.
"""

import argparse

from pyspark.sql import SparkSession

from airflow_provider_ips.apply import reaggregate


def main(source: str, changes: str, before: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target} (title_id INT, accounts BIGINT, watched_seconds BIGINT)
            USING iceberg TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    reaggregate(
        spark,
        changes,
        before,
        source,
        target,
        keys=["title_id"],
        aggregates={"accounts": "count(account_id)", "watched_seconds": "sum(watched_seconds)"},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--changes", required=True)
    parser.add_argument("--before", required=True)
    parser.add_argument("--target", required=True)
    main(**vars(parser.parse_args()))
