"""Append: every event read becomes one row of the target."""

import argparse

from pyspark.sql import SparkSession

STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_id BIGINT, event_date DATE, account_id INT, title_id INT, watched_minutes DOUBLE)
            USING iceberg PARTITIONED BY (event_date)"""
    )
    if already_holds(spark, target, spark.conf.get(STAMP, None)):
        print(f"{target} already has this capture: an earlier attempt inserted it")
        return
    spark.sql(
        f"""INSERT INTO {target}
            SELECT event_id, event_date, account_id, title_id, watched_seconds / 60.0 FROM {source}"""
    )


def already_holds(spark: SparkSession, target: str, capture_id: str | None) -> bool:
    """Recognise a second attempt: an insert can succeed in a task that then dies."""
    if capture_id is None:
        return False
    main = spark.table(f"{target}.refs").where("name = 'main'").first()
    commits = {row.snapshot_id: row for row in spark.table(f"{target}.snapshots").collect()}
    commit = commits.get(main.snapshot_id) if main else None
    while commit and commit.summary.get("ips-capture-id") != capture_id:
        commit = commits.get(commit.parent_id)
    return commit is not None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    main(**vars(parser.parse_args()))
