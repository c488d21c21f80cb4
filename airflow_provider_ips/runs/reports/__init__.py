"""What a capture and a commit report: the XComs of a capture, and what was done, in words for the task's log.

The UI shows some ninety characters of a line and does not wrap it, so each line has one fact, with its name in the
first column. What is long, such as a verdict for each snapshot, is folded in a group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.identifiers import XCOM_KEY_PATTERN, CapturedRange
from airflow_provider_ips.core.positions import Position, format_time
from airflow_provider_ips.core.record import Decision, Kind, Verdict, Volume
from airflow_provider_ips.core.results.capture_record import CaptureRecord, SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.runs.commit import CommitReport

if TYPE_CHECKING:
    from airflow.sdk import Asset


_BINARY_STEP: Final = 1024
_NAME_WIDTH: Final = 10

_KINDS: Final = {
    Kind.RANGE: "captured what was added",
    Kind.FULL: "captured all live files",
    Kind.RESYNC: "captured the live files that are newer than the checkpoint",
    Kind.EMPTY: "gained nothing",
}
_OUTCOMES: Final = {
    "advanced": (
        "The checkpoint moved to the end of the captured range.",
        "nothing to do. The next run captures what comes after it.",
    ),
    "already_done": ("This capture was committed before; nothing moved.", "nothing to do."),
    "superseded": (
        "A later capture covers this range and the checkpoint is past it; nothing moved.",
        'look at the later run: link "Superseded by run".',
    ),
    "replayed": (
        "A range that was committed before was processed again; nothing moved.",
        "nothing to do. The checkpoint is where it was.",
    ),
    "settled": (
        "There was nothing to process, and the capture moved the checkpoint itself.",
        "nothing to do.",
    ),
    "detached": (
        "Detached run: it did not start at the checkpoint and did not move it.",
        "nothing to do. The next usual run starts at the checkpoint.",
    ),
}


def capture_lines(record: CaptureRecord, *, is_committed: bool) -> Iterator[str]:
    """Say what a capture did, source by source, and what comes next."""
    context = record.context
    yield f"Capture {record.capture_id} for consumer {record.consumer}"
    for source in record.sources:
        yield from source_lines(source, engine_name(source.icdc_table, context.engine_catalog))
    for first in context.first_runs:
        yield f"First run over {first.source}: it starts by initial={first.initial!r}."
    if context.replayed:
        yield "This run has committed before: its range was captured again, and its commit will move nothing."
    if context.is_detached:
        yield f"Detached run: it does not start at the checkpoint and will not move it. Requested: {context.request}."
    if context.settled:
        yield "Nothing to process. The checkpoint is at the head of every source."
    yield next_line(record, is_committed=is_committed)


def source_lines(record: SourceRecord, table: str | None) -> Iterator[str]:
    """Say of one source the range, what was captured, what it saves, and the verdict on each snapshot."""
    label = record.source.label
    yield f"{label}: {_KINDS[record.kind]}"
    if record.from_exclusive is not None:
        yield fact("after", record.from_exclusive)
    yield fact("up to", record.to_inclusive)
    if record.kind is not Kind.EMPTY or record.icdc_table is not None:
        yield from _amounts(record)
    if record.icdc_table is not None:
        yield fact("read it as", table)
    if record.captured_branch is not None:
        yield fact("held until", f"{format_time(record.captured_branch.held_until_ms)}, unless it is dropped earlier")
    if record.before is not None:
        yield fact("before", f"{volume(record.before)}: what changed rows were at the start of the range")
    if record.before_table is not None:
        yield fact("read it as", record.before_table)
    if record.superset:
        exact = f"row-exact where {record.predicate}" if record.predicate else f"no predicate: {record.no_predicate}"
        yield fact("superset", f"it holds unchanged rows too ({exact})")
    for bound in (*record.ranges, *record.partitions):
        yield fact(bound.column, bound.shown if bound.known else f"unknown ({bound.reason})")
    for warning in record.warnings:
        yield fact("warning", warning)
    yield from _verdicts(label, record.verdicts)


def next_line(record: CaptureRecord, *, is_committed: bool) -> str:
    """Say what happens next."""
    if record.context.request.dry_run:
        return "Next: nothing was made or moved. Trigger the DAG without the dry run to process this."
    if record.is_empty:
        return "Next: nothing to do. The next run looks again."
    if record.context.is_detached or record.context.replayed:
        return "Next: downstream tasks read it; the checkpoint stays where it is."
    if not is_committed:
        return "Next: downstream tasks read it; the checkpoint will not move on its own."
    return "Next: downstream tasks read it; then the commit moves the checkpoint."


def commit_lines(report: CommitReport) -> Iterator[str]:
    """Say what a commit did, and what comes next."""
    what, next_step = _OUTCOMES[report.outcome]
    record = report.record
    yield what
    yield fact("consumer", record.consumer)
    yield fact("capture", record.capture_id)
    for source in record.sources:
        yield fact("up to", f"{source.to_inclusive} of {source.source.label}")
    for table in report.dropped:
        yield fact("dropped", table)
    yield f"Next: {next_step}"


def event_lines(report: CommitReport, targets: Sequence[Asset]) -> Iterator[str]:
    """Say which target assets get an event."""
    if report.events:
        yield f"Target assets get an event: {', '.join(report.events)}."
    elif targets:
        yield f"Nothing was processed, so target assets get no event: {', '.join(target.name for target in targets)}."


def volume(amount: Volume | Verdict) -> str:
    """Write files, rows and bytes in words, also those that are unknown."""
    return ", ".join(_columns(amount))


def size(size_bytes: int | None) -> str:
    """Write a number of bytes in the unit that fits it."""
    if size_bytes is None:
        return "an unknown number of bytes"
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < _BINARY_STEP:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _BINARY_STEP
    return f"{amount:.1f} PiB"


def fact(name: str, value: object) -> str:
    """Write one fact as a line, with its name in the first column."""
    return f"  {name:<{_NAME_WIDTH}} {value}"


def _amounts(record: SourceRecord) -> Iterator[str]:
    """Write what was captured and the whole table below each other, to be compared at a glance."""
    rows = [_columns(record.captured), _columns(record.table)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for name, row in zip(("captured", "of"), rows, strict=True):
        yield fact(name, "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    avoided, whole = record.bytes_avoided, record.table.size_bytes
    if avoided is not None and whole:
        yield fact("not read", f"{size(avoided)} ({100 * avoided / whole:.1f} %)")


def _columns(amount: Volume | Verdict) -> tuple[str, str, str]:
    return _count(amount.files, "file"), _count(amount.records, "row"), size(amount.size_bytes)


def _verdicts(label: str, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Write one line for each snapshot of the range. There may be thousands, so they are folded."""
    if not verdicts:
        return
    counts = ((decision, sum(v.decision is decision for v in verdicts)) for decision in Decision)
    yield f"::group::Snapshots of {label}: " + ", ".join(f"{n:,} {decision.value}" for decision, n in counts if n)
    for verdict in verdicts:
        counted = f" ({volume(verdict)})" if verdict.decision is Decision.CAPTURED else ""
        yield f"{verdict.snapshot_id} {verdict.operation}: {verdict.decision.value}, {verdict.reason}{counted}"
    yield "::endgroup::"


def _count(number: int | None, noun: str) -> str:
    if number is None:
        return f"an unknown number of {noun}s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


SIDES = ("lower", "upper")


def xcoms_of(
    record: CaptureRecord, sources: Iterable[tuple[SourceTable, CaptureSettings]]
) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values that a capture pushes, source by source.

    A table or bound that the settings of a source ask for has its key even if nothing was captured.
    """
    for source, (_, settings) in zip(record.sources, sources, strict=True):
        yield source.key, engine_name(source.icdc_table, record.context.engine_catalog)
        if record.mode == "RANGE":
            # Not None, which a task cannot be given, and not {}, by which an engine would read the whole table.
            options = source.read_options or False
            yield from ((f"{source.key}.options", options), (f"{source.key}.options_json", json.dumps(options)))
        if settings.captures_changes:
            yield f"{source.key}.before", engine_name(source.before_table, record.context.engine_catalog)
        yield from positions_of(source)
        bounds = {f"{source.key}.{side}.{column}": None for column in settings.range_columns for side in SIDES}
        yield from {**bounds, **dict(_bounds(source))}.items()
    # Airflow's UI turns strings of digits into numbers and rounds them, and folds lists. Other strings stay.
    found = (position for source in record.sources for position in positions_of(source))
    yield "positions", ", ".join(f"{key} = {snapshot or 'none'}" for key, snapshot in found)
    yield "capture_id", record.capture_id
    yield "capture", record.to_json()


def positions_of(source: SourceRecord) -> Iterator[tuple[str, str]]:
    """Yield the snapshots between which the captured rows came, as strings for a job's arguments; none is empty.

    Rows as of ``from`` and the captured rows are the rows as of ``to``. So a capture of all live rows starts at none,
    wherever the checkpoint is, and one that captured nothing without a checkpoint starts where it ends.
    """
    start = source.from_exclusive or (source.to_inclusive if source.kind is Kind.EMPTY else None)
    yield f"{source.key}.from", _snapshot(None if source.kind is Kind.FULL else start)
    yield f"{source.key}.to", _snapshot(source.to_inclusive)


def _snapshot(position: Position | None) -> str:
    return (position and position.snapshot_text) or ""


def engine_name(icdc_table: str | None, engine_catalog: str | None) -> str | None:
    """Put the name of the engine's catalog before the name of an ICDC table; write a range as a subquery."""
    captured = None if icdc_table is None else CapturedRange.parse(icdc_table)
    if captured is not None:
        return captured.as_sql(engine_catalog)
    return f"{engine_catalog}.{icdc_table}" if engine_catalog and icdc_table else icdc_table


def _bounds(source: SourceRecord) -> Iterator[tuple[str, Any]]:
    """Yield bounds of range columns and partitions. A partition column whose name cannot be a key has none."""
    named = {bound.column for bound in source.ranges}
    for bound in (*source.ranges, *(p for p in source.partitions if p.column not in named)):
        for side, value in zip(SIDES, (bound.lower, bound.upper), strict=True):
            key = f"{source.key}.{side}.{bound.column}"
            if XCOM_KEY_PATTERN.fullmatch(key):
                yield key, value
