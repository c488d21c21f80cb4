"""Memberships: every event becomes one row of the log, with the yearly cost of the plan.

With a window its days are overwritten from the table. Without one the rows are new, and are inserted unless the target
already carries the stamp of this capture. They are inserted on a branch of this attempt, and the table is then moved to
that branch, which fails if another writer has moved it since the branch was created. So one of two overlapping attempts
fails. Spark must find the package: `pip install --no-deps`, without Airflow.
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
    )  # no retries: the second of two moves of the table must fail
    rows = f"SELECT event_id, event_date, account_id, action, 12 * cents_per_month FROM {source}"
    if since is not None:
        spark.sql(f"INSERT OVERWRITE {target} {rows} WHERE event_date >= DATE '{since}'")
    else:
        insert_once(spark, target, rows)


def insert_once(spark: SparkSession, target: str, rows: str) -> None:
    """Insert on a branch of this attempt unless the target has the capture; only one attempt can move main to it."""
    catalog, branch = target.partition(".")[0], f"attempt_{uuid4().hex}"
    # Created before the check: if another attempt succeeds after the check, main can no longer move to this branch.
    spark.sql(f"ALTER TABLE {target} CREATE BRANCH {branch} RETAIN 1 DAYS")
    if is_stamped(spark, target):
        print(f"{target} already has this capture: an earlier attempt inserted it")
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
