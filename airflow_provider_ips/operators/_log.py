"""What a capture and a commit did, in words for the task's log.

Read at a glance in the UI, which neither wraps lines nor shows more than some ninety characters of them: so one fact a
line, its name in a column of its own. What is long (a verdict for each snapshot) is folded away in a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Decision, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_provider_ips.core.record import CaptureRecord, SourceRecord, Verdict, Volume

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
        "nothing to do. The next run takes what comes after it.",
    ),
    "already_done": ("This capture was committed before; nothing moved.", "nothing to do."),
    "superseded": (
        "A later capture covers this range and the checkpoint is past it; nothing moved.",
        'look at the later run: link "Superseded by run".',
    ),
    "replayed": (
        "A range that was committed before was processed again; nothing moved.",
        "nothing to do. The checkpoint stands where it stood.",
    ),
    "settled": (
        "There was nothing to process, and the capture moved the checkpoint itself.",
        "nothing to do.",
    ),
    "detached": (
        "This run was asked for something of its own, detached from the checkpoint; nothing moved.",
        "nothing to do. The next usual run goes on from the checkpoint.",
    ),
}


def skip_lines(captures: Sequence[str]) -> Iterator[str]:
    """Tell that what follows is skipped, and that captures among it, of further stages, do not come to look.

    :param captures: the ids of the captures that are skipped.
    """
    yield "Skipping downstream tasks."
    if captures:
        yield f"Captures among them may have rows to process, of runs that failed: {', '.join(captures)}."
        yield "To let them look: ignore_downstream_trigger_rules=False here, trigger_rule='none_failed' there."


def source_lines(record: SourceRecord, engine_name: str | None) -> Iterator[str]:
    """Tell one source's part of a capture: the range, what was captured, what it saves, each snapshot's verdict."""
    label = record.source if record.branch == "main" else f"{record.source} (branch {record.branch})"
    yield f"{label}: {_KINDS[record.kind]}"
    if record.from_exclusive is not None:
        yield fact("after", record.from_exclusive)
    yield fact("up to", record.to_inclusive)
    if record.kind is not Kind.EMPTY or record.icdc_table is not None:
        yield from _amounts(record)
    if record.icdc_table is not None:
        yield fact("read it as", engine_name)
    if record.before is not None:
        yield fact("before", f"{volume(record.before)}: what changed rows were at the start of the range")
    if record.before_table is not None:
        yield fact("read it as", record.before_table)
    if record.superset:
        exact = f"row-exact where {record.predicate}" if record.predicate else f"no predicate: {record.no_predicate}"
        yield fact("superset", f"it holds unchanged rows too ({exact})")
    for bound in (*record.ranges, *record.partitions):
        shown = f"{bound.lower} to {bound.upper}" if bound.known else f"unknown ({bound.reason})"
        yield fact(bound.column, shown)
    for warning in record.warnings:
        yield fact("warning", warning)
    yield from _verdicts(label, record.verdicts)


def next_line(record: CaptureRecord, *, is_dry: bool, is_committed: bool) -> str:
    """Say what happens now, to somebody who looks for what to do."""
    if is_dry:
        return "Next: nothing was made or moved. Trigger the DAG without the dry run to process this."
    if record.is_empty:
        return "Next: nothing to do. The next run looks again."
    if record.requested.get("detached") or record.requested["replayed"]:
        return "Next: the tasks behind read what was captured; the checkpoint stays where it is."
    if not is_committed:
        return "Next: the tasks behind read what was captured; the checkpoint will not move by itself."
    return "Next: the tasks behind read what was captured; then commit moves the checkpoint."


def commit_lines(
    outcome: str, *, consumer: str, capture_id: str, sources: Sequence[Mapping[str, Any]], dropped: Sequence[str]
) -> Iterator[str]:
    """Tell what a commit did; ``sources`` as the record has them."""
    told, next_step = _OUTCOMES[outcome]
    yield told
    yield fact("consumer", consumer)
    yield fact("capture", capture_id)
    for source in sources:
        name = source["source"] if source["branch"] == "main" else f"{source['source']} (branch {source['branch']})"
        yield fact("up to", f"{Position.from_json(source['to'])} of {name}")
    for table in dropped:
        yield fact("dropped", table)
    yield f"Next: {next_step}"


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


def fact(name: str, value: object) -> str:
    """One fact on a line, its name in a column of its own."""
    return f"  {name:<{_NAME_WIDTH}} {value}"


def _amounts(record: SourceRecord) -> Iterator[str]:
    """Captured and whole, one below the other, so that they compare by eye."""
    rows = [_columns(record.captured), _columns(record.table)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for name, row in zip(("captured", "of"), rows, strict=True):
        yield fact(name, "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    avoided, whole = record.bytes_avoided, record.table.size_bytes
    if avoided is not None and whole:
        yield fact("not read", f"{size(avoided)} ({100 * avoided / whole:.1f} %)")


def _columns(amount: Volume) -> tuple[str, str, str]:
    return _count(amount.files, "file"), _count(amount.records, "row"), size(amount.size_bytes)


def _verdicts(label: str, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line for each snapshot of the range, folded: there may be thousands."""
    if not verdicts:
        return
    counts = ((decision, sum(v.decision is decision for v in verdicts)) for decision in Decision)
    yield f"::group::Snapshots of {label}: " + ", ".join(f"{n:,} {decision.value}" for decision, n in counts if n)
    for verdict in verdicts:
        counted = ""
        if verdict.decision is Decision.CAPTURED:
            counted = (
                f" ({_count(verdict.files, 'file')}, {_count(verdict.records, 'row')}, {size(verdict.size_bytes)})"
            )
        yield f"{verdict.snapshot_id} {verdict.operation}: {verdict.decision.value}, {verdict.reason}{counted}"
    yield "::endgroup::"


def _count(number: int | None, noun: str) -> str:
    if number is None:
        return f"an unknown number of {noun}s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
