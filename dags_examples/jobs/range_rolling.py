"""A rolling week: hours watched per title in the seven days that end with each day, where days in a range gained rows.

A row counts in the week of its own day and in those of the six days after it. So the weeks that end between the first
day and six days after the last are recomputed, and for that, six days before the first are read.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, target: str, first: str, last: str) -> None:
    spark = SparkSession.builder.config("spark.sql.sources.partitionOverwriteMode", "dynamic").getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target} (event_date DATE, title_id INT, seconds_in_week BIGINT)
            USING iceberg PARTITIONED BY (event_date)"""
    )
    spark.sql(
        f"""INSERT OVERWRITE {target}
            SELECT event_date, title_id, seconds_in_week
            FROM (SELECT event_date, title_id, sum(sum(watched_seconds)) OVER (
                         PARTITION BY title_id ORDER BY event_date
                         RANGE BETWEEN INTERVAL '6' DAY PRECEDING AND CURRENT ROW) AS seconds_in_week
                  FROM {source}
                  WHERE event_date BETWEEN DATE '{first}' - 6 AND DATE '{last}' + 6
                  GROUP BY event_date, title_id)
            WHERE event_date >= DATE '{first}'"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--first", required=True, help="first day that gained rows")
    parser.add_argument("--last", required=True, help="last day that gained rows")
    main(**vars(parser.parse_args()))
