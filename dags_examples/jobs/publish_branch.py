"""Publish: main is moved to the head of the branch, in one commit, and the branch goes.

Only forward: if main was written to since the branch began, this fails, and the writing has to be done again.
"""

import argparse

from pyspark.sql import SparkSession


def main(target: str, branch: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    if not spark.table(f"{target}.refs").where(f"name = '{branch}'").isEmpty():
        catalog, _, _ = target.partition(".")
        spark.sql(f"CALL {catalog}.system.fast_forward('{target}', 'main', '{branch}')")
        spark.sql(f"ALTER TABLE {target} DROP BRANCH {branch}")
    # No branch: an attempt before this one got as far. Whether main holds the rows is what the commit asks the target.


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--branch", required=True)
    main(**vars(parser.parse_args()))
