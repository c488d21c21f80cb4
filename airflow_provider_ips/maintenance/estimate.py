"""The command estimate: what a lookback reads of a table, and what a capture would."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.maintenance.console import ConnectionOptions, Console, Row
from airflow_provider_ips.runs.environment import open_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.core.advice.estimate import DayEstimate, Estimate, RowsBetween
    from airflow_provider_ips.core.record import Volume


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(ConnectionOptions):
    """The table, the days that a job reads again by a column, and how many days back to look."""

    table: str
    lookback: str = "14d"
    column: str | None = None
    runs: str = "30d"
    branch: str = "main"


def estimate(console: Console, options: EstimateOptions) -> None:
    """Print a row per day, or the whole estimate where a program reads it. Nothing is written."""
    from airflow_provider_ips.iceberg.estimation import estimate as estimated

    found = estimated(
        open_catalog(options.conn_id),
        options.table,
        lookback=options.lookback,
        column=options.column,
        runs=options.runs,
        branch=options.branch,
    )
    found = replace(found, iceberg_conn_id=options.conn_id)
    if console.shows_documents:
        console.show_document(found.to_json())
        return
    console.show([*(_row(day) for day in found.days), _total(found)])
    for line in lines(found):
        console.say(line)


def lines(found: Estimate) -> Iterator[str]:
    """What follows from the figures, in words."""
    by = f"{found.column} ({found.column_known_by})"
    yield f"By {by}, {found.lookback_days} days in every daily run: {found.verdict}."
    late, missed, records = found.totals.late, found.totals.missed, found.totals.capture.records
    if late is not None and missed is not None and records:
        older = f"{_share(missed, records)} are older than the lookback, so that it never reads them"
        yield f"Late rows: {_share(late, records)} of the appended rows; {older}."
    else:
        yield "Late rows: unknown."
    seen = ", ".join(f"{count} {name}" for name, count in sorted(found.operations.items())) or "none"
    yield f"Snapshots seen: {seen}. Pattern: {found.pattern}."
    remedy = f" ({found.retention.remedy})" if found.retention.remedy else ""
    yield f"Retention, for daily runs: {found.retention.status.value}: {found.retention.finding}{remedy}."
    yield from (f"Note: {note}." for note in found.notes)
    yield f"To start with: {found.code}"


def _row(day: DayEstimate) -> Row:
    return {
        "day": day.day,
        **_figures(day.lookback, day.capture),
        "saved": "unknown" if day.saving is None else f"{day.saving:.1%}",
        "late_rows": _shown_rows(day.late),
        "missed_rows": _shown_rows(day.missed),
        "snapshots": ", ".join(f"{count} {name}" for name, count in sorted(day.operations.items())),
        "note": day.note,
    }


def _total(found: Estimate) -> Row:
    totals = found.totals
    return {
        "day": f"{totals.days} days",
        **_figures(totals.lookback if totals.days else None, totals.capture if totals.days else None),
        "saved": "unknown" if totals.saving is None else f"{totals.saving:.1%}",
        "late_rows": _shown_rows(totals.late),
        "missed_rows": _shown_rows(totals.missed),
        "snapshots": "",
        "note": "",
    }


def _figures(lookback: Volume | None, capture: Volume | None) -> Row:
    sides = {"lookback": lookback, "capture": capture}
    return {
        f"{side}_{name}": "unknown" if volume is None else _shown(name, number)
        for side, volume in sides.items()
        for name, number in ({} if volume is None else volume.to_json()).items() or _UNKNOWN
    }


_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_UNKNOWN = (("files", None), ("records", None), ("bytes", None))


def _shown(name: str, number: int | None) -> str:
    if number is None:
        return "unknown"
    return _size(number) if name == "bytes" else f"{number:,}"


def _size(number: int) -> str:
    power = min(max((len(str(abs(number))) - 1) // 3, 0), len(_UNITS) - 1)
    return f"{number / 1000**power:.{1 if power else 0}f} {_UNITS[power]}"


def _shown_rows(rows: RowsBetween | None) -> str:
    if rows is None:
        return "unknown"
    return f"{rows.least:,}" if rows.least == rows.most else f"{rows.least:,} to {rows.most:,}"


def _share(rows: RowsBetween, records: int) -> str:
    least, most = rows.least / records, rows.most / records
    return f"{least:.1%}" if rows.least == rows.most else f"{least:.1%} to {most:.1%}"
