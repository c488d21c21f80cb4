"""Audit: check what a branch has and main does not, before readers see it.

What was published before is not checked again: somebody may have published it on purpose. With a window all of its days
are checked, because all were rewritten. Spark must find the package: `pip install --no-deps`, without Airflow.
"""

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ips.stamps import is_stamped


def main(source: str, target: str, branch: str, most_minutes: float, since: str | None = None) -> None:
    spark = SparkSession.builder.getOrCreate()
    if since is None and is_stamped(spark, target):
        print(f"{target} already has this capture: its branch is published")
        return
    if since is None:
        written, read = gained(spark, target, branch), spark.table(source)
    else:
        in_window = f"event_date >= DATE '{since}'"
        written, read = on_branch(spark, target, branch).where(in_window), spark.table(source).where(in_window)
    possible = f"coalesce(watched_minutes BETWEEN 0 AND {most_minutes}, false)"
    faults = {
        "extra or missing rows": written.count() - read.count(),
        "events with an impossible length or without one": written.where(f"NOT {possible}").count(),
        "events without a title": written.where("title_id IS NULL").count(),
    }
    found = {fault: count for fault, count in faults.items() if count}
    if found:
        sys.exit(f"branch {branch} of {target} is not published: {found}")
    print(f"branch {branch} of {target} may be published")


def gained(spark: SparkSession, target: str, branch: str) -> DataFrame:
    """Read what was inserted after main's head. Fails if the branch does not start there, as publishing would."""
    heads = {row["name"]: row["snapshot_id"] for row in spark.table(f"{target}.refs").collect()}
    if "main" not in heads:
        return on_branch(spark, target, branch)
    since, until = heads["main"], heads[branch]
    return spark.read.option("start-snapshot-id", since).option("end-snapshot-id", until).table(target)


def on_branch(spark: SparkSession, target: str, branch: str) -> DataFrame:
    """Read the target as it would be if the branch were published."""
    return spark.sql(f"SELECT * FROM {target} VERSION AS OF '{branch}'")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--branch", required=True)
    parser.add_argument("--since", help="first day of the lookback window, if there is one")
    parser.add_argument("--most-minutes", required=True, type=float)
    main(**vars(parser.parse_args()))
