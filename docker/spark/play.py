"""Add a day of invented playback events to lake.db.playback, the source of the example DAGs: play.py [YYYY-MM-DD].

A tenth of them are late, by up to 13 days. The same day again adds the same events again, as a re-delivery would.
"""

import sys
from datetime import UTC, datetime

from pyspark.sql import SparkSession

TABLE = "lake.db.playback"
EVENTS_A_DAY = 1000


def main(day: str) -> None:
    spark = SparkSession.builder.appName(f"play {day}").getOrCreate()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql(
        f"""CREATE TABLE IF NOT EXISTS {TABLE}
            (event_id BIGINT NOT NULL, event_date DATE NOT NULL, event_time TIMESTAMP NOT NULL,
             account_id INT NOT NULL, title_id INT NOT NULL, watched_seconds INT NOT NULL,
             received_at TIMESTAMP NOT NULL, device STRING NOT NULL)
            USING iceberg PARTITIONED BY (event_date)"""
    )
    spark.sql(
        f"""INSERT INTO {TABLE}
            SELECT event_id, event_date, timestamp_seconds(unix_seconds(timestamp(event_date)) + hash % 86400),
                   int(hash % 5000), int(hash % 400), int(30 + hash % 7170), timestamp(DATE '{day}') + INTERVAL 1 DAY,
                   element_at(array('tv', 'phone', 'tablet', 'browser', 'console'), int(1 + hash % 5))
            FROM (SELECT unix_date(DATE '{day}') * 10000000L + id AS event_id,
                         abs(xxhash64(id, '{day}') % 1000000007) AS hash,
                         date_sub(DATE '{day}', if(id % 10 = 0, int(1 + id / 10 % 13), 0)) AS event_date
                  FROM range({EVENTS_A_DAY}))
            ORDER BY event_date"""
    )
    print(f"{EVENTS_A_DAY} events of {day} added to {TABLE}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else datetime.now(UTC).date().isoformat())
