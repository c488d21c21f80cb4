"""Publish: main is moved to the head of the branch, in one commit, and the branch goes.

Only forward: if main was written to since the branch began, this fails, and the writing has to be done again. Where
main holds the capture already, an attempt before this one got as far, and what main gained since is left alone. What
can be written again at will has no capture to look for. Spark must find the package: `pip install --no-deps`, without
Airflow.
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
