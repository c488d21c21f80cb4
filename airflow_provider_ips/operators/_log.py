"""What a capture and a commit did, in words for the task's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.record import Decision, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.core.record import SourceRecord, Verdict, Volume

_BINARY_STEP = 1024

_KINDS = {
    Kind.RANGE: "what was added after {start}, up to {end}",
    Kind.FULL: "all live files at {end}",
    Kind.RESYNC: "the live files newer than {start}, up to {end}",
    Kind.EMPTY: "nothing: the table gained nothing between {start} and {end}",
}


def source_lines(record: SourceRecord, engine_name: str | None) -> Iterator[str]:
    """Tell one source's part of a capture: the range, each snapshot's verdict, what was captured and what it saves."""
    start = "the beginning" if record.from_exclusive is None else str(record.from_exclusive)
    label = record.source if record.branch == "main" else f"{record.source} (branch {record.branch})"
    yield f"{label}: captured " + _KINDS[record.kind].format(start=start, end=record.to_inclusive)
    for verdict in record.verdicts:
        yield "  " + _verdict(verdict)
    if record.icdc_table is not None:
        yield f"  {volume(record.captured)} of {volume(record.table)}{_avoided(record)}"
        yield f"  read it as {engine_name}"
    if record.before is not None:
        yield f"  changed rows came from {volume(record.before)}, as they were at {start}: {record.before_table}"
    if record.superset:
        exact = f"row-exact where {record.predicate}" if record.predicate else f"no predicate: {record.no_predicate}"
        yield f"  it holds unchanged rows too ({exact})"
    for bound in (*record.ranges, *record.partitions):
        shown = f"{bound.lower} to {bound.upper}" if bound.known else f"unknown ({bound.reason})"
        yield f"  {bound.column}: {shown}"
    for warning in record.warnings:
        yield f"  warning: {warning}"


def volume(amount: Volume) -> str:
    """Files, rows and bytes; what is unknown is said to be."""
    return f"{_count(amount.files, 'file')}, {_count(amount.records, 'row')}, {size(amount.size_bytes)}"


def size(size_bytes: int | None) -> str:
    """Bytes as people read them."""
    if size_bytes is None:
        return "an unknown number of bytes"
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < _BINARY_STEP:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _BINARY_STEP
    return f"{amount:.1f} PiB"


def _verdict(verdict: Verdict) -> str:
    counted = ""
    if verdict.decision is Decision.CAPTURED:
        counted = f" ({_count(verdict.files, 'file')}, {_count(verdict.records, 'row')}, {size(verdict.size_bytes)})"
    return f"snapshot {verdict.snapshot_id} {verdict.operation}: {verdict.decision.value}, {verdict.reason}{counted}"


def _count(number: int | None, noun: str) -> str:
    if number is None:
        return f"an unknown number of {noun}s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _avoided(record: SourceRecord) -> str:
    avoided, whole = record.bytes_avoided, record.table.size_bytes
    if avoided is None or not whole:
        return ""
    return f": {size(avoided)} need not be read ({100 * avoided / whole:.1f} %)"
