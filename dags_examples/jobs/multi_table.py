"""Multi-table: merge events of several sources into one target, the last version of each event.

event_date, event_id and received_at are NOT NULL.
"""

import argparse

from pyspark.sql import SparkSession

COLUMNS = "event_id, event_date, account_id, title_id, watched_seconds, received_at"


def main(sources: list[str], target: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_id BIGINT, event_date DATE, account_id INT, title_id INT, watched_seconds INT,
             received_at TIMESTAMP)
            USING iceberg PARTITIONED BY (event_date) TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    everything = " UNION ALL ".join(f"SELECT {COLUMNS} FROM {source}" for source in sources)
    spark.sql(
        f"""MERGE INTO {target} AS t
            USING (SELECT latest.*
                   FROM (SELECT max_by(struct(*), received_at) AS latest FROM ({everything})
                         GROUP BY event_date, event_id)) AS s
            ON t.event_date = s.event_date AND t.event_id = s.event_id
            WHEN MATCHED AND s.received_at > t.received_at THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, action="append", dest="sources")
    parser.add_argument("--target", required=True)
    arguments = parser.parse_args()
    main(arguments.sources, arguments.target)
