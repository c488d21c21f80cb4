"""Recovery: put the ids of events that the job cannot process into a table, where people see them; the job skips them.

If there is no such event, this cannot repair the failure. It fails then, and so does the run.
"""

import argparse
import sys

from pyspark.sql import SparkSession


def main(source: str, quarantine: str, impossible: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    found = spark.table(source).where(impossible).count()
    if not found:
        sys.exit(f"{source} has no event for the quarantine: the job failed for another reason")
    spark.sql(
        f"""MERGE INTO {quarantine} AS t
            USING (SELECT event_id, min(event_date) AS event_date, received_at,
                          'lasts for ' || coalesce(CAST(max(watched_seconds) AS STRING), 'unknown') || ' seconds' AS why
                   FROM {source} WHERE {impossible} GROUP BY event_id, received_at) AS s
            ON t.event_id = s.event_id AND t.received_at = s.received_at
            WHEN NOT MATCHED THEN INSERT *"""
    )
    print(f"{quarantine} lists {found} events of {source}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--quarantine", required=True)
    parser.add_argument("--impossible", required=True, help="what is true of an event that cannot be")
    main(**vars(parser.parse_args()))
