"""The business logic: the same SQL for every contender, whatever rows it is handed.

Stage 1 makes one row per day, account and title of raw events. Its sessions are cut within a *view*, one press of the
play button: the player numbers its views, keeps the events of one until it can send them, and sends them together. So a
late view comes whole, sessions of different views do not touch, and every measure of the daily row is a sum, a
smallest or a largest over views. That makes new rows mergeable without the old ones. (Sessions cut across views would
need all events of a touched key: the row-filter pattern.)

Stage 2 makes one row per account of the daily rows. Streaks of days and distinct titles are no sums: it needs all rows
of an account whenever one of them has changed.
"""

from __future__ import annotations

from typing import Final

PAYLOAD: Final = (
    "view_id STRING, seq INT, kind STRING, "
    "client STRUCT<app: STRING, os: STRING, locale: STRING, agent: STRING>, "
    "network STRUCT<type: STRING, rtt_ms: INT, kbps: INT>, "
    "buffer STRUCT<ms: INT, underruns: INT>, "
    "segments ARRAY<STRUCT<kbps: INT, ms: INT, dropped: INT, codec: STRING>>, "
    "experiments ARRAY<STRING>, trace STRING"
)
"""What the JSON string of an event holds."""

PAUSE_SECONDS: Final = 30 * 60
"""A longer one ends a session."""

DAILY_KEY: Final = ("event_date", "account_id", "title_id")
MERGED: Final = {
    "views": "t.{0} + s.{0}",
    "sessions": "t.{0} + s.{0}",
    "events": "t.{0} + s.{0}",
    "watched_ms": "t.{0} + s.{0}",
    "tv_ms": "t.{0} + s.{0}",
    "kilobits": "t.{0} + s.{0}",
    "dropped": "t.{0} + s.{0}",
    "underruns": "t.{0} + s.{0}",
    "slow_segments": "t.{0} + s.{0}",
    "top_kbps": "greatest(t.{0}, s.{0})",
    "worst_rtt_ms": "greatest(t.{0}, s.{0})",
    "first_at": "least(t.{0}, s.{0})",
    "last_at": "greatest(t.{0}, s.{0})",
}
"""The daily measures, and how new ones (s) are added to those that are there (t)."""

AGGREGATED: Final = (
    "days", "titles", "sessions", "watched_ms", "tv_ms", "longest_streak", "favourite_title", "top_kbps", "last_at",
)  # fmt: skip


def daily(events: str, devices: str) -> str:
    """Stage 1's query over rows of the raw table."""
    return f"""
    WITH parsed AS (
      SELECT event_date, account_id, title_id, device_id, event_at, from_json(payload, '{PAYLOAD}') AS p FROM {events}
    ), enriched AS (
      SELECT event_date, account_id, title_id, event_at, family, p.view_id, p.seq,
             p.network.rtt_ms, p.buffer.underruns,
             aggregate(p.segments, 0L, (sum, s) -> sum + s.ms) AS watched_ms,
             aggregate(p.segments, 0L, (sum, s) -> sum + CAST(s.kbps AS BIGINT) * s.ms DIV 1000) AS kilobits,
             aggregate(p.segments, 0L, (sum, s) -> sum + s.dropped) AS dropped,
             size(filter(p.segments, s -> s.kbps < p.network.kbps DIV 2)) AS slow_segments,
             array_max(transform(p.segments, s -> s.kbps)) AS top_kbps
      FROM parsed JOIN {devices} USING (device_id)
    ), cut AS (
      SELECT *, lag(view_id) OVER played AS view_before, lag(event_at) OVER played AS before_at FROM enriched
      WINDOW played AS (PARTITION BY event_date, account_id, title_id ORDER BY view_id, seq)
    ), begun AS (
      SELECT *, view_before IS NULL OR view_before <> view_id AS begins_view, event_at - before_at AS paused FROM cut
    )
    SELECT event_date, account_id, title_id,
           sum(CASE WHEN begins_view THEN 1L ELSE 0L END) AS views,
           sum(CASE WHEN begins_view OR paused > {PAUSE_SECONDS} THEN 1L ELSE 0L END) AS sessions,
           count(*) AS events, sum(watched_ms) AS watched_ms,
           sum(CASE WHEN family = 'tv' THEN watched_ms ELSE 0L END) AS tv_ms, sum(kilobits) AS kilobits,
           sum(dropped) AS dropped, sum(CAST(underruns AS BIGINT)) AS underruns,
           sum(CAST(slow_segments AS BIGINT)) AS slow_segments, max(top_kbps) AS top_kbps, max(rtt_ms) AS worst_rtt_ms,
           min(event_at) AS first_at, max(event_at) AS last_at
    FROM begun GROUP BY event_date, account_id, title_id"""


def per_account(days: str) -> str:
    """Stage 2's query over rows of the daily table: all of an account's, or none."""
    return f"""
    WITH placed AS (
      SELECT *, date_sub(event_date, dense_rank() OVER (PARTITION BY account_id ORDER BY event_date)) AS streak,
             sum(watched_ms) OVER (PARTITION BY account_id, title_id) AS of_title,
             row_number() OVER (PARTITION BY account_id, title_id ORDER BY event_date) AS nth_day_of_title
      FROM {days}
    ), streaks AS (
      SELECT account_id, streak, count(DISTINCT event_date) AS days,
             sum(CASE WHEN nth_day_of_title = 1 THEN 1L ELSE 0L END) AS titles, sum(sessions) AS sessions,
             sum(watched_ms) AS watched_ms, sum(tv_ms) AS tv_ms, max(struct(of_title, title_id)) AS favourite,
             max(top_kbps) AS top_kbps, max(last_at) AS last_at
      FROM placed GROUP BY account_id, streak
    )
    SELECT account_id, sum(days) AS days, sum(titles) AS titles, sum(sessions) AS sessions,
           sum(watched_ms) AS watched_ms, sum(tv_ms) AS tv_ms, max(days) AS longest_streak,
           max(favourite).title_id AS favourite_title, max(top_kbps) AS top_kbps, max(last_at) AS last_at
    FROM streaks GROUP BY account_id"""


def merge_daily(target: str, rows: str) -> str:
    """Add what stage 1 made of new events to what is there. Twice would be wrong: it must be run once per event."""
    added = ", ".join(f"t.{column} = {how.format(column)}" for column, how in MERGED.items())
    return f"""
    MERGE INTO {target} AS t USING ({rows}) AS s
    ON {" AND ".join(f"t.{column} = s.{column}" for column in DAILY_KEY)}
    WHEN MATCHED THEN UPDATE SET {added}
    WHEN NOT MATCHED THEN INSERT *"""


def merge_accounts(target: str, daily_table: str, touched: str) -> str:
    """Aggregate the touched accounts anew, and delete those that have no row any more."""
    rows = per_account(
        f"(SELECT d.* FROM {daily_table} AS d LEFT SEMI JOIN {touched} AS k ON d.account_id = k.account_id)"
    )
    columns = ", ".join(AGGREGATED)
    return f"""
    MERGE INTO {target} AS t
    USING (SELECT k.account_id, {columns} FROM {touched} AS k
           LEFT JOIN ({rows}) AS a ON k.account_id = a.account_id) AS s
    ON t.account_id = s.account_id
    WHEN MATCHED AND s.days IS NULL THEN DELETE
    WHEN MATCHED THEN UPDATE SET {", ".join(f"t.{column} = s.{column}" for column in AGGREGATED)}
    WHEN NOT MATCHED AND s.days IS NOT NULL THEN INSERT (account_id, {columns})
      VALUES (s.account_id, {", ".join(f"s.{column}" for column in AGGREGATED)})"""


def overwrite(target: str, rows: str) -> str:
    """Replace the partitions that the rows are in."""
    return f"INSERT OVERWRITE {target} {rows}"
