"""The daily playback job: one row per event, the last version of it that was received, with the quality it was seen in.

What a player reports is wide: of each event this parses the segments that were loaded, and measures bit rates, changes
between them, frames that were dropped, and how much of the line was used. The plain and the incremental DAG run this
same file. It does not know whether its source is the table or an ICDC table.
event_date, event_id and received_at are NOT NULL.
"""

import argparse

from pyspark.sql import SparkSession

PAYLOAD = (
    "view_id STRING, client STRUCT<app: STRING, os: STRING, locale: STRING, agent: STRING>, "
    "network STRUCT<type: STRING, rtt_ms: INT, kbps: INT>, "
    "segments ARRAY<STRUCT<kbps: INT, ms: INT, dropped: INT, codec: STRING>>"
)


def main(source: str, target: str, since: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {target}
            (event_id BIGINT, event_date DATE, account_id INT, title_id INT, watched_seconds INT, received_at TIMESTAMP,
             device STRING, network STRING, loaded_ms BIGINT, kilobits BIGINT, median_kbps INT, low_kbps INT,
             switches INT, dropped INT, slow_segments INT)
            USING iceberg PARTITIONED BY (event_date) TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"""
    )
    spark.sql(
        f"""WITH parsed AS (
              SELECT *, from_json(payload, '{PAYLOAD}') AS p FROM {source} WHERE event_date >= DATE '{since}'
            ), loaded AS (
              SELECT *, p.segments AS segments, array_sort(p.segments.kbps) AS rates FROM parsed
            ), measured AS (
              SELECT event_id, event_date, account_id, title_id, watched_seconds, received_at, device,
                     p.network.type AS network,
                     aggregate(segments, 0L, (sum, s) -> sum + s.ms) AS loaded_ms,
                     aggregate(segments, 0L, (sum, s) -> sum + CAST(s.kbps AS BIGINT) * s.ms DIV 1000) AS kilobits,
                     rates[size(rates) DIV 2] AS median_kbps, rates[size(rates) DIV 20] AS low_kbps,
                     size(filter(sequence(1, size(segments) - 1),
                                 i -> segments[i].kbps <> segments[i - 1].kbps)) AS switches,
                     aggregate(segments, 0, (sum, s) -> sum + s.dropped) AS dropped,
                     size(filter(segments, s -> s.kbps > p.network.kbps)) AS slow_segments
              FROM loaded
            )
            MERGE INTO {target} AS t
            USING (SELECT latest.*
                   FROM (SELECT max_by(struct(*), received_at) AS latest FROM measured
                         GROUP BY event_date, event_id)) AS s
            ON t.event_date = s.event_date AND t.event_id = s.event_id
            WHEN MATCHED AND s.received_at > t.received_at THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *"""
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--since", default="0001-01-01", help="first day of the lookback window, if there is one")
    main(**vars(parser.parse_args()))
