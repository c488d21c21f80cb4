"""Publish: move main to the head of the branch, in one commit, and drop the branch.

Only forward: if main was written to since the branch was created, this fails, and the write has to be repeated. If main
already has the capture, an earlier attempt published it, and later changes of main are left alone. A job that
overwrites a window can be repeated at will, and has no capture to look for. Spark must find the package:
`pip install --no-deps`, without Airflow.
"""

import argparse

from pyspark.sql import SparkSession

from airflow_provider_ips.stamps import is_stamped


def main(target: str, branch: str, *, repeatable: bool = False) -> None:
    spark = SparkSession.builder.getOrCreate()
    if repeatable or not is_stamped(spark, target):
        catalog, _, _ = target.partition(".")
        spark.sql(f"CALL {catalog}.system.fast_forward('{target}', 'main', '{branch}')")
    spark.sql(f"ALTER TABLE {target} DROP BRANCH IF EXISTS {branch}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--branch", required=True)
    parser.add_argument("--repeatable", action="store_true", help="the branch has been written for no capture")
    main(**vars(parser.parse_args()))
