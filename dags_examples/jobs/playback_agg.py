"""The second stage of playback: one row per account and day, re-aggregated where rows were added, changed or removed.

The keys come from two tables: one with the present rows, and one with the earlier ones. In the incremental DAG these
are the captured tables; with a lookback, the source and the target themselves. All rows of a key come from the source,
and a key without rows is deleted. The key and event_id are NOT NULL.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, target: str, changes: str, before: str, since: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_date DATE, account_id INT, events BIGINT, titles BIGINT, watched_seconds BIGINT)
            USING iceberg PARTITIONED BY (event_date) TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT k.event_date, k.account_id, count(d.event_id) AS events,
                          count(DISTINCT d.title_id) AS titles, sum(d.watched_seconds) AS watched_seconds
                   FROM (SELECT event_date, account_id FROM {changes} WHERE event_date >= DATE '{since}'
                         UNION
                         SELECT event_date, account_id FROM {before} WHERE event_date >= DATE '{since}') AS k
                   LEFT JOIN {source} AS d ON d.event_date = k.event_date AND d.account_id = k.account_id
                   GROUP BY k.event_date, k.account_id) AS s
            ON t.event_date = s.event_date AND t.account_id = s.account_id
            WHEN MATCHED AND s.events = 0 THEN DELETE
            WHEN MATCHED THEN UPDATE SET *
            WHEN NOT MATCHED AND s.events > 0 THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--changes", required=True, help="names the keys that have rows now")
    parser.add_argument("--before", required=True, help="names the keys that had rows before")
    parser.add_argument("--since", default="0001-01-01", help="first day of the lookback window, if there is one")
    main(**vars(parser.parse_args()))
