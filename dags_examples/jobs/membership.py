"""Memberships: every event becomes one row of the log, with what the plan costs a year.

With a window the days in it are overwritten, from the table. Without one the rows read are new, and are inserted
unless the target carries the stamp of this capture already. They are inserted on a branch that only this attempt
knows, and the table is moved to it, which fails if it was moved by somebody else since the branch began. So of two
attempts that overlap one fails. Spark must find the package: `pip install --no-deps`, without Airflow.
"""

import argparse
from uuid import uuid4

from pyspark.sql import SparkSession

from airflow_provider_ips.stamps import is_stamped


def main(source: str, target: str, since: str | None) -> None:
    spark = SparkSession.builder.config("spark.sql.sources.partitionOverwriteMode", "dynamic").getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_id BIGINT, event_date DATE, account_id INT, action STRING, cents_per_year BIGINT)
            USING iceberg PARTITIONED BY (event_date) TBLPROPERTIES ('commit.retry.num-retries' = '0')"""
    )  # without retries: a move of the table that comes second is to fail
    rows = f"SELECT event_id, event_date, account_id, action, 12 * cents_per_month FROM {source}"
    if since is not None:
        spark.sql(f"INSERT OVERWRITE {target} {rows} WHERE event_date >= DATE '{since}'")
    else:
        insert_once(spark, target, rows)


def insert_once(spark: SparkSession, target: str, rows: str) -> None:
    """Insert unless the target holds the capture, on a branch of this attempt's own: one of two can move main to it."""
    catalog, branch = target.partition(".")[0], f"attempt_{uuid4().hex}"
    # Before the question: if another attempt gets through after the answer, main has left this branch behind.
    spark.sql(f"ALTER TABLE {target} CREATE BRANCH {branch} RETAIN 1 DAYS")
    if is_stamped(spark, target):
        print(f"{target} holds this capture already: an attempt before this one got as far as the insert")
    else:
        spark.sql(f"INSERT INTO {target}.branch_{branch} {rows}")
        spark.sql(f"CALL {catalog}.system.fast_forward('{target}', 'main', '{branch}')")
    spark.sql(f"ALTER TABLE {target} DROP BRANCH {branch}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--since", help="first day of the lookback window, if there is one")
    main(**vars(parser.parse_args()))
