"""Merge: where each account stopped in each title. The latest event wins, in whatever order events arrive.

account_id, title_id, event_time, event_id and received_at are NOT NULL.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (account_id INT, title_id INT, event_time TIMESTAMP, event_id BIGINT, watched_seconds INT,
             received_at TIMESTAMP)
            USING iceberg TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT account_id, title_id, max_by(struct(event_time, event_id, watched_seconds, received_at),
                                                       struct(event_time, event_id, received_at)) AS latest
                   FROM {source} GROUP BY account_id, title_id) AS s
            ON t.account_id = s.account_id AND t.title_id = s.title_id
            WHEN MATCHED AND struct(s.latest.event_time, s.latest.event_id, s.latest.received_at)
                             > struct(t.event_time, t.event_id, t.received_at) THEN UPDATE SET
                event_time = s.latest.event_time, event_id = s.latest.event_id,
                watched_seconds = s.latest.watched_seconds, received_at = s.latest.received_at
            WHEN NOT MATCHED THEN INSERT (account_id, title_id, event_time, event_id, watched_seconds, received_at)
                VALUES (s.account_id, s.title_id, s.latest.event_time, s.latest.event_id,
                        s.latest.watched_seconds, s.latest.received_at)"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    main(**vars(parser.parse_args()))
