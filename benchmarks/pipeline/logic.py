"""The business logic: the same SQL for every contender, whatever rows it is handed.

Stage 1 makes one row per day, account and title of raw events. Its sessions are cut within a *view*, one press of the
play button: the player numbers its views, keeps the events of one until it can send them, and sends them together. So a
late view comes whole, sessions of different views do not touch, and every measure of the daily row is a sum, a
smallest or a largest over views. That makes new rows mergeable without the old ones. (Sessions cut across views would
need all events of a touched key: the row-filter pattern.)

Stage 2 makes one row per account and day on which it watched, of its daily rows in the two weeks that end on that day:
totals over these days and over fewer, distinct titles, streaks, the same of each title, and the favourite. Streaks and
distincts are no sums: it needs all rows of those days whenever one of them has changed. A daily row is in the rows of
its account on that day and on the thirteen after it, and in no others: only these are made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

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

WINDOW_DAYS: Final = 14
"""Stage 2's rows look back as far, the day itself counted."""
SHORTER_DAYS: Final = (1, 3, 7)
"""Its totals are taken over these last days, too."""

FAMILIES: Final = ("tv", "phone", "tablet", "web", "console")
SUMMED_BY_FAMILY: Final = ("watched_ms", "kilobits", "dropped", "underruns", "slow_segments")

DAILY_KEY: Final = ("event_date", "account_id", "title_id")
SUMMED: Final = (
    "views", "sessions", "events", *SUMMED_BY_FAMILY,
    *(f"{measure}_{family}" for measure in SUMMED_BY_FAMILY for family in FAMILIES),
)  # fmt: skip
MERGED: Final = {
    **dict.fromkeys(SUMMED, "t.{0} + s.{0}"),
    "top_kbps": "greatest(t.{0}, s.{0})",
    "worst_rtt_ms": "greatest(t.{0}, s.{0})",
    "first_at": "least(t.{0}, s.{0})",
    "last_at": "greatest(t.{0}, s.{0})",
}
"""The daily measures, and how new ones (s) are added to those that are there (t)."""

WINDOW_KEY: Final = ("day", "account_id")
TOTALS: Final = (*SUMMED, *(f"{measure}_{days}d" for days in SHORTER_DAYS for measure in SUMMED))
WINDOWED: Final = (
    "days", "longest_streak", "titles", "favourite_title", "top_kbps", "worst_rtt_ms", "first_at", "last_at",
    *TOTALS, "by_title",
)  # fmt: skip


def daily(events: str, devices: str) -> str:
    """Stage 1's query over rows of the raw table."""
    return f"""
    WITH parsed AS (
      SELECT event_date, account_id, title_id, device_id, event_at, from_json(payload, '{PAYLOAD}') AS p FROM {events}
    ), enriched AS (
      SELECT event_date, account_id, title_id, event_at, family, p.view_id, p.seq,
             p.network.rtt_ms, CAST(p.buffer.underruns AS BIGINT) AS underruns,
             aggregate(p.segments, 0L, (sum, s) -> sum + s.ms) AS watched_ms,
             aggregate(p.segments, 0L, (sum, s) -> sum + CAST(s.kbps AS BIGINT) * s.ms DIV 1000) AS kilobits,
             aggregate(p.segments, 0L, (sum, s) -> sum + s.dropped) AS dropped,
             CAST(size(filter(p.segments, s -> s.kbps < p.network.kbps DIV 2)) AS BIGINT) AS slow_segments,
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
           count(*) AS events, {", ".join(_sums_by_family())},
           max(top_kbps) AS top_kbps, max(rtt_ms) AS worst_rtt_ms,
           min(event_at) AS first_at, max(event_at) AS last_at
    FROM begun GROUP BY event_date, account_id, title_id"""


def _sums_by_family() -> Iterator[str]:
    for measure in SUMMED_BY_FAMILY:
        yield f"sum({measure}) AS {measure}"
        for family in FAMILIES:
            yield f"sum(CASE WHEN family = '{family}' THEN {measure} ELSE 0L END) AS {measure}_{family}"


def active(days: str, since: date) -> str:
    """The keys of stage 2's rows from a day on: who watched when."""
    return f"SELECT DISTINCT event_date AS day, account_id FROM {days} WHERE event_date >= DATE'{since}'"


def touched(days: str, changed: str) -> str:
    """The keys of stage 2's rows that are not what they were: of changed daily rows, and those whose windows hold them.

    An account that has no row left on a day is among them: its row of that day is to be deleted.
    """
    return f"""
    SELECT event_date AS day, account_id FROM {changed}
    UNION
    SELECT /*+ BROADCAST(c) */ d.event_date AS day, d.account_id FROM {days} AS d JOIN {changed} AS c
    ON d.account_id = c.account_id AND d.event_date > c.event_date
    AND d.event_date <= date_add(c.event_date, {WINDOW_DAYS - 1})"""


def windows(days: str, keys: str, since: date) -> str:
    """Stage 2's query: the rows of these keys, none of which is before a day, from the daily table."""
    return f"""
    WITH seen AS (
      SELECT k.day, d.* FROM {keys} AS k JOIN {days} AS d
      ON d.account_id = k.account_id AND d.event_date BETWEEN date_sub(k.day, {WINDOW_DAYS - 1}) AND k.day
      WHERE d.event_date >= date_sub(DATE'{since}', {WINDOW_DAYS - 1})
    ), of_title AS (
      SELECT day, account_id, title_id, sort_array(collect_list(event_date)) AS dates,
             max(top_kbps) AS top_kbps, max(worst_rtt_ms) AS worst_rtt_ms,
             min(first_at) AS first_at, max(last_at) AS last_at,
             {", ".join(_totals())}
      FROM seen GROUP BY day, account_id, title_id
    ), of_account AS (
      SELECT day, account_id, array_sort(array_distinct(flatten(collect_list(dates)))) AS dates,
             count(*) AS titles, max(struct(watched_ms, title_id)).title_id AS favourite_title,
             max(top_kbps) AS top_kbps, max(worst_rtt_ms) AS worst_rtt_ms,
             min(first_at) AS first_at, max(last_at) AS last_at,
             {", ".join(f"sum({total}) AS {total}" for total in TOTALS)},
             sort_array(collect_list(struct(title_id, size(dates) AS days, {_longest_streak("dates")} AS longest_streak,
               views, sessions, watched_ms, views_7d, sessions_7d, watched_ms_7d, last_at))) AS by_title
      FROM of_title GROUP BY day, account_id
    )
    SELECT day, account_id, size(dates) AS days, {_longest_streak("dates")} AS longest_streak,
           {", ".join(WINDOWED[2:])}
    FROM of_account WHERE array_contains(dates, day)"""


def _totals() -> Iterator[str]:
    for measure in SUMMED:
        yield f"sum({measure}) AS {measure}"
        for days in SHORTER_DAYS:
            yield f"sum(CASE WHEN event_date > date_sub(day, {days}) THEN {measure} ELSE 0L END) AS {measure}_{days}d"


def _longest_streak(dates: str) -> str:
    """Of days in their order."""
    return (
        f"aggregate({dates}, struct(DATE'1970-01-01' AS at, 0 AS run, 0 AS longest), (s, d) -> named_struct('at', d, "
        "'run', if(date_diff(d, s.at) = 1, s.run + 1, 1), "
        "'longest', greatest(s.longest, if(date_diff(d, s.at) = 1, s.run + 1, 1))), s -> s.longest)"
    )


def merge_daily(target: str, rows: str, since: date) -> str:
    """Add what stage 1 made of new events to what is there. Twice would be wrong: it must be run once per event.

    No row is before a day. A merge reads what its condition does not exclude, of tables of years as well.
    """
    added = ", ".join(f"t.{column} = {how.format(column)}" for column, how in MERGED.items())
    return f"""
    MERGE INTO {target} AS t USING ({rows}) AS s
    ON {" AND ".join(f"t.{column} = s.{column}" for column in DAILY_KEY)} AND t.event_date >= DATE'{since}'
    WHEN MATCHED THEN UPDATE SET {added}
    WHEN NOT MATCHED THEN INSERT *"""


def merge_accounts(target: str, days: str, keys: str, since: date) -> str:
    """Make the rows of these keys again, and delete those whose account has no daily row of the day any more."""
    columns, few = ", ".join(WINDOWED), f"(SELECT /*+ BROADCAST({keys}) */ * FROM {keys})"
    return f"""
    MERGE INTO {target} AS t
    USING (SELECT k.day, k.account_id, {columns} FROM {keys} AS k
           LEFT JOIN ({windows(days, few, since)}) AS w ON k.day = w.day AND k.account_id = w.account_id) AS s
    ON t.day = s.day AND t.account_id = s.account_id AND t.day >= DATE'{since}'
    WHEN MATCHED AND s.days IS NULL THEN DELETE
    WHEN MATCHED THEN UPDATE SET {", ".join(f"t.{column} = s.{column}" for column in WINDOWED)}
    WHEN NOT MATCHED AND s.days IS NOT NULL THEN INSERT (day, account_id, {columns})
      VALUES (s.day, s.account_id, {", ".join(f"s.{column}" for column in WINDOWED)})"""


def overwrite(target: str, rows: str) -> str:
    """Replace the partitions that the rows are in."""
    return f"INSERT OVERWRITE {target} {rows}"
