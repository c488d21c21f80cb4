"""Playback, checked and cleaned day by day: one row per event, its last version. Stops at an impossible event.

Each day is a separate commit, so a run that stops has written the days before. The next one may write them again: the
merge changes nothing if the target already has the event. Events in quarantine are skipped.
event_date, event_id and received_at are NOT NULL.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, target: str, quarantine: str, impossible: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_id BIGINT, event_date DATE, account_id INT, title_id INT, watched_seconds INT,
             received_at TIMESTAMP)
            USING iceberg PARTITIONED BY (event_date) TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {quarantine} (event_id BIGINT, event_date DATE, received_at TIMESTAMP, why STRING)"
        " USING iceberg"
    )
    days = spark.sql(f"SELECT DISTINCT event_date FROM {source} ORDER BY event_date").collect()
    for day in days:
        merge_day(spark, source, target, quarantine, impossible, day["event_date"].isoformat())


def merge_day(spark: SparkSession, source: str, target: str, quarantine: str, impossible: str, day: str) -> None:
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT latest.*
                   FROM (SELECT max_by(struct(event_id, event_date, account_id, title_id,
                                              CASE WHEN {impossible}
                                                   THEN raise_error('event ' || event_id || ' cannot be: {impossible}')
                                                   ELSE watched_seconds END AS watched_seconds,
                                              received_at), received_at) AS latest
                         FROM {source} AS e
                         LEFT ANTI JOIN {quarantine} AS q
                         ON e.event_id = q.event_id AND e.received_at = q.received_at
                         WHERE e.event_date = DATE '{day}' GROUP BY event_id)) AS s
            ON t.event_date = DATE '{day}' AND t.event_id = s.event_id
            WHEN MATCHED AND s.received_at > t.received_at THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--quarantine", required=True)
    parser.add_argument("--impossible", required=True, help="a condition that is true of impossible events")
    main(**vars(parser.parse_args()))
