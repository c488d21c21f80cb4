"""Makes the daily playback table of some days what the source says of them, and leaves alone what is right already.

The job of a backfill: what was captured names the days, and their rows come from the source as it is now. A live run
may have merged late rows of such a day since the capture, and the target has to keep them. Of two that write the same
day at the same time, one fails: give the task retries.

It deletes whatever else the target has of these days. Days in between that were not asked for are not touched, nor are
days of which the source has no row left: no capture names them. A stage behind sees only what it has really changed.
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
    # As values, and among the conditions of ON: so Iceberg opens these days of the target only, and does not mind what
    # is written to others meanwhile. WHEN NOT MATCHED BY SOURCE would open, and lock, the whole target.
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
