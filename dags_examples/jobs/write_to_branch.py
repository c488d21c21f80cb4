"""Write: every captured event becomes one row, on a branch of the target that nobody reads.

The branch starts from what is published, whatever an attempt before this one has left on it. So an attempt that died
half-way costs nothing, and a plain insert will do. Spark must find the package: `pip install --no-deps`, without
Airflow.
"""

import argparse

from pyspark.sql import SparkSession

from airflow_provider_ips.stamps import is_stamped


def main(source: str, target: str, branch: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_id BIGINT, event_date DATE, account_id INT, title_id INT, watched_minutes DOUBLE)
            USING iceberg PARTITIONED BY (event_date)"""
    )
    if is_stamped(spark, target):
        print(f"{target} holds this capture already: its branch was published before")
        return
    # Of an audit that failed the branch stays to be looked at, until the table's snapshots are next expired.
    spark.sql(f"ALTER TABLE {target} CREATE OR REPLACE BRANCH {branch} RETAIN 7 DAYS")
    spark.sql(
        f"""INSERT INTO {target}.branch_{branch}
            SELECT event_id, event_date, account_id, title_id, watched_seconds / 60.0 FROM {source}"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--branch", required=True)
    main(**vars(parser.parse_args()))
