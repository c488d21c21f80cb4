"""Audit: what a branch holds that main does not is looked at before anybody reads it."""

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession


def main(source: str, target: str, branch: str, most_minutes: float) -> None:
    spark = SparkSession.builder.getOrCreate()
    if branch not in branches(spark, target):
        print(f"{target} has no branch {branch}: it was published before")
        return
    written, published = on_branch(spark, target, branch), spark.table(target)
    captured = spark.table(source)
    faults = {
        "rows too many or too few": written.count() - published.count() - captured.count(),
        "events of impossible length": written.where(f"watched_minutes NOT BETWEEN 0 AND {most_minutes}").count(),
        "events without a title": written.where("title_id IS NULL").count(),
    }
    found = {fault: count for fault, count in faults.items() if count}
    if found:
        sys.exit(f"branch {branch} of {target} is not published: {found}")
    print(f"branch {branch} of {target} may be published")


def branches(spark: SparkSession, target: str) -> set[str]:
    return {row["name"] for row in spark.table(f"{target}.refs").where("type = 'BRANCH'").collect()}


def on_branch(spark: SparkSession, target: str, branch: str) -> DataFrame:
    return spark.sql(f"SELECT * FROM {target} VERSION AS OF '{branch}'")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--branch", required=True)
    parser.add_argument("--most-minutes", required=True, type=float)
    main(**vars(parser.parse_args()))
