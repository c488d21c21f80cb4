"""Makes the daily playback table of some days what the source says of them, and leaves alone what is right already.

The job of a backfill: it is handed all rows of these days. A stage behind sees only what it has really changed.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, target: str, first: str, last: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    columns = [column for column in spark.table(target).columns if column not in ("event_date", "event_id")]
    differs = " OR ".join(f"NOT t.{column} <=> s.{column}" for column in columns)
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT latest.*
                   FROM (SELECT max_by(struct(*), received_at) AS latest FROM {source}
                         GROUP BY event_date, event_id)) AS s
            ON t.event_date = s.event_date AND t.event_id = s.event_id
               AND t.event_date BETWEEN DATE '{first}' AND DATE '{last}'
            WHEN MATCHED AND ({differs}) THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *
            WHEN NOT MATCHED BY SOURCE AND t.event_date BETWEEN DATE '{first}' AND DATE '{last}' THEN DELETE"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--first", required=True, help="the first day of the rows handed over")
    parser.add_argument("--last", required=True, help="the last one")
    main(**vars(parser.parse_args()))
