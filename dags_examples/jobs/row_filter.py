"""Row filter: one row per day and title, re-aggregated only where something changed.

An aggregate needs all rows of its group, so the changes alone are not enough: they identify the groups, and the rows
come from the source. The source may already have more rows than were captured; the next capture includes those, and
their groups are recomputed again. The group columns are NOT NULL.
"""

import argparse

from pyspark.sql import SparkSession


def main(source: str, changes: str, target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_date DATE, title_id INT, events BIGINT, accounts BIGINT)
            USING iceberg PARTITIONED BY (event_date) TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT e.event_date, e.title_id, count(*) AS events, count(DISTINCT e.account_id) AS accounts
                   FROM {source} AS e
                   LEFT SEMI JOIN (SELECT DISTINCT event_date, title_id FROM {changes}) AS k
                   ON e.event_date = k.event_date AND e.title_id = k.title_id
                   GROUP BY e.event_date, e.title_id) AS s
            ON t.event_date = s.event_date AND t.title_id = s.title_id
            WHEN MATCHED THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--changes", required=True)
    parser.add_argument("--target", required=True)
    main(**vars(parser.parse_args()))
