"""One row per title of some days: these days are re-aggregated and overwritten, and no others.

event_date is NOT NULL: rows without a day would be in a partition that no day selects.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, target: str, days: list[str]) -> None:
    spark = SparkSession.builder.config("spark.sql.sources.partitionOverwriteMode", "dynamic").getOrCreate()
    # Several of these jobs commit at the same time. The second one refreshes the table and commits then.
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_date DATE, title_id INT, events BIGINT, accounts BIGINT, watched_seconds BIGINT)
            USING iceberg PARTITIONED BY (event_date) TBLPROPERTIES ('commit.retry.num-retries' = '20')"""
    )
    listed = ", ".join(f"DATE '{day}'" for day in days)
    spark.sql(
        f"""INSERT OVERWRITE {target}
            SELECT event_date, title_id, count(*), count(DISTINCT account_id), sum(watched_seconds)
            FROM {source} WHERE event_date IN ({listed}) GROUP BY event_date, title_id"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--days", required=True, nargs="+")
    main(**vars(parser.parse_args()))
