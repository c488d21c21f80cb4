"""Write: every event becomes one row, on a branch of the target that readers do not see.

The branch starts from what is published, whatever an earlier attempt has left on it. So an attempt that died half-way
does no harm, and a plain insert is enough for captured rows. With a window its days are overwritten there, from the
table. Spark must find the package: `pip install --no-deps`, without Airflow.
"""

import argparse

from pyspark.sql import SparkSession

from airflow_provider_ips.stamps import is_stamped


def main(source: str, target: str, branch: str, since: str | None = None) -> None:
    spark = SparkSession.builder.config("spark.sql.sources.partitionOverwriteMode", "dynamic").getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_id BIGINT, event_date DATE, account_id INT, title_id INT, watched_minutes DOUBLE)
            USING iceberg PARTITIONED BY (event_date)"""
    )
    if since is None and is_stamped(spark, target):
        print(f"{target} already has this capture: its branch is published")
        return
    # After a failed audit the branch stays for inspection, until the table's snapshots are next expired.
    # Dropped first: CREATE OR REPLACE fails on a table in which nothing has been published yet.
    spark.sql(f"ALTER TABLE {target} DROP BRANCH IF EXISTS {branch}")
    spark.sql(f"ALTER TABLE {target} CREATE BRANCH {branch} RETAIN 7 DAYS")
    rows = f"SELECT event_id, event_date, account_id, title_id, watched_seconds / 60.0 FROM {source}"
    if since is None:
        spark.sql(f"INSERT INTO {target}.branch_{branch} {rows}")
    else:
        spark.sql(f"INSERT OVERWRITE {target}.branch_{branch} {rows} WHERE event_date >= DATE '{since}'")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--branch", required=True)
    parser.add_argument("--since", help="first day of the lookback window, if there is one")
    main(**vars(parser.parse_args()))
