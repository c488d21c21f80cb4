"""Recovery: events the job cannot take go by name into a table, where people see them and the job passes over them.

A failure for which there is no such event is none that this can repair. It fails then, and so does the run.
"""

import argparse
import sys

from pyspark.sql import SparkSession

MOST_SECONDS = 86_400


def main(source: str, quarantine: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    bad = f"watched_seconds > {MOST_SECONDS}"
    found = spark.table(source).where(bad).count()
    if not found:
        sys.exit(f"{source} has no event that would have to go into quarantine: the job failed for another reason")
    spark.sql(
        f"""MERGE INTO {quarantine} AS t
            USING (SELECT DISTINCT event_id, event_date, received_at,
                          'lasts for ' || watched_seconds || ' seconds' AS why
                   FROM {source} WHERE {bad}) AS s
            ON t.event_id = s.event_id AND t.received_at = s.received_at
            WHEN NOT MATCHED THEN INSERT *"""
    )
    print(f"{quarantine} names {found} events of {source}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--quarantine", required=True)
    main(**vars(parser.parse_args()))
