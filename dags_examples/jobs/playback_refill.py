"""Bring some days of the daily playback table in line with the source, and leave correct rows alone.

The job of a backfill: the days come from the captured rows, and their rows from the source as it is now. A live run may
have merged late rows of such a day since the capture, and the target has to keep them. If two jobs write the same day
at the same time, one of them fails: give the task retries.

It deletes all other rows of these days from the target. Days in between that were not requested are not touched, and
neither are days without rows in the source, because no capture has them. A downstream stage sees only real changes.
"""

import argparse

from pyspark.sql import SparkSession


def main(captured: str, source: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    found = spark.sql(f"SELECT DISTINCT event_date FROM {captured} ORDER BY event_date").collect()
    if not found:
        return
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target} USING iceberg PARTITIONED BY (event_date)
            TBLPROPERTIES ('write.merge.mode' = 'merge-on-read') AS SELECT * FROM {source} WHERE false"""
    )
    # As values, in the ON clause: so Iceberg reads only these days of the target, and writes to other days do not
    # conflict. WHEN NOT MATCHED BY SOURCE would read the whole target, and conflict with every write.
    days = ", ".join(f"DATE '{row.event_date}'" for row in found)
    columns = spark.table(target).columns
    differs = " OR ".join(f"NOT t.{column} <=> s.{column}" for column in columns)
    spark.sql(
        f"""SELECT latest.* FROM (SELECT max_by(struct({", ".join(columns)}), received_at) AS latest FROM {source}
                                  WHERE event_date IN ({days}) GROUP BY event_date, event_id)"""
    ).createOrReplaceTempView("wanted")
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT *, false AS is_gone FROM wanted
                   UNION ALL
                   SELECT *, true AS is_gone FROM {target} AS there WHERE event_date IN ({days}) AND NOT EXISTS
                       (SELECT 1 FROM wanted WHERE event_date = there.event_date AND event_id = there.event_id)) AS s
            ON t.event_date = s.event_date AND t.event_id = s.event_id AND t.event_date IN ({days})
            WHEN MATCHED AND s.is_gone THEN DELETE
            WHEN MATCHED AND ({differs}) THEN UPDATE SET *
            WHEN NOT MATCHED AND NOT s.is_gone THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captured", required=True, help="names the days")
    parser.add_argument("--source", required=True, help="has their rows")
    parser.add_argument("--target", required=True)
    main(**vars(parser.parse_args()))
