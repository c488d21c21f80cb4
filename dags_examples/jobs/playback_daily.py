"""The daily playback job: one row per event, the last version of it that was received.

The plain and the incremental DAG run this same file. It does not know whether its source is the table or an ICDC table.
event_date, event_id and received_at are NOT NULL.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, target: str, since: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_id BIGINT, event_date DATE, event_time TIMESTAMP, account_id INT, title_id INT,
             watched_seconds INT, received_at TIMESTAMP, device STRING)
            USING iceberg PARTITIONED BY (event_date) TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT latest.*
                   FROM (SELECT max_by(struct(*), received_at) AS latest FROM {source}
                         WHERE event_date >= DATE '{since}' GROUP BY event_date, event_id)) AS s
            ON t.event_date = s.event_date AND t.event_id = s.event_id
            WHEN MATCHED AND s.received_at > t.received_at THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--since", default="0001-01-01", help="first day of the lookback window, if there is one")
    main(**vars(parser.parse_args()))
