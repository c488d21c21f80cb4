"""Range: the old query, which overwrites whole days, over exactly the days that gained an event.

Days are in UTC, in the source as here. In another time zone the last hours of a range could fall on another day.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, target: str, start: str, end: str) -> None:
    utc = SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    spark = utc.config("spark.sql.sources.partitionOverwriteMode", "dynamic").getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target} (event_date DATE, events BIGINT, hours_watched DOUBLE)
            USING iceberg PARTITIONED BY (event_date)"""
    )
    spark.sql(
        f"""INSERT OVERWRITE {target}
            SELECT event_date, count(*), sum(watched_seconds) / 3600.0 FROM {source}
            WHERE event_date BETWEEN DATE(TIMESTAMP '{start}') AND DATE(TIMESTAMP '{end}')
            GROUP BY event_date"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--start", required=True, help="time of the earliest event to consider")
    parser.add_argument("--end", required=True, help="time of the latest event to consider")
    main(**vars(parser.parse_args()))
