"""What captures and commits measure of themselves, as metrics: all of it is known by then and read from no catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.record import Decision, Kind, Volume
from airflow_provider_ips.metrics import Measurement, send

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.results.capture_record import CaptureRecord
    from airflow_provider_ips.runs.capture_steps import PlannedSource
    from airflow_provider_ips.runs.commit import CommitReport

_COUNTED_OUTCOMES = ("advanced", "replayed", "superseded")
_MS = 1000


class CaptureTimer:
    """Made when a capture begins."""

    def __init__(self) -> None:
        self._began = monotonic()

    def measure(self, record: CaptureRecord) -> None:
        """Send what a capture took and how long it took. A dry run takes nothing."""
        if not record.context.request.dry_run:
            send(_captured(record, monotonic() - self._began))


def _captured(record: CaptureRecord, seconds: float) -> Iterator[Measurement]:
    yield Measurement("ips.capture.duration", seconds * _MS, record.consumer)
    for source in record.sources:
        values = {
            "files": source.captured.files,
            "records": source.captured.records,
            "bytes": source.captured.size_bytes,
            "bytes_avoided": source.bytes_avoided,
        }
        for name, value in values.items():
            tags = {"kind": source.kind.value}
            yield Measurement(f"ips.capture.{name}", value, record.consumer, source.source.label, tags)


def measure_lag(consumer: str, sources: Sequence[PlannedSource], checkpoint: Checkpoint | None, *, now_ms: int) -> None:
    """Send what a consumer has not processed yet, as its capture sees it before it takes anything."""
    send(_lag(consumer, sources, checkpoint, now_ms))


def _lag(
    consumer: str, sources: Sequence[PlannedSource], checkpoint: Checkpoint | None, now_ms: int
) -> Iterator[Measurement]:
    pending = None if checkpoint is None else checkpoint.pending
    age_ms = 0 if pending is None else max(now_ms - pending.started_at_ms, 0)
    yield Measurement("ips.pending.age", age_ms / _MS, consumer)
    for source in sources:
        # All live files say nothing of how long the rows have waited.
        if source.start is not None and source.plan.kind in (Kind.RANGE, Kind.EMPTY):
            yield from _lag_of(consumer, source, now_ms)


def _lag_of(consumer: str, source: PlannedSource, now_ms: int) -> Iterator[Measurement]:
    from airflow_provider_ips.iceberg.source.retention import retention_of

    history, plan, label = source.history, source.plan, source.table.source.label
    times = {v.snapshot_id: s.committed_at_ms for v in plan.verdicts if (s := history.snapshot(v.snapshot_id))}
    taken = [verdict for verdict in plan.verdicts if verdict.decision is Decision.CAPTURED]
    oldest_ms = min((times[v.snapshot_id] for v in taken if v.snapshot_id in times), default=now_ms)
    # A limit ends the range early: what comes after it is not counted.
    is_all = plan.to_inclusive.snapshot_id == (history.head and history.head.snapshot_id)
    if is_all or taken:
        yield Measurement("ips.lag.seconds", max(now_ms - oldest_ms, 0) / _MS, consumer, label)
    if is_all:
        volume = Volume.total(verdict.volume for verdict in taken)
        yield Measurement("ips.lag.commits", len(taken), consumer, label)
        yield Measurement("ips.lag.records", volume.records, consumer, label)
        yield Measurement("ips.lag.bytes", volume.size_bytes, consumer, label)
    max_age_ms = retention_of(history, back_to_ms=now_ms).max_age_ms
    if max_age_ms is not None:
        first_ms = min(times.values(), default=now_ms)
        yield Measurement("ips.runway.seconds", max(first_ms + max_age_ms - now_ms, 0) / _MS, consumer, label)


def measure_commit(report: CommitReport) -> None:
    """Count a commit by its outcome. One that had nothing to move, or had moved before, is not counted."""
    send(_committed(report))


def _committed(report: CommitReport) -> Iterator[Measurement]:
    if report.outcome in _COUNTED_OUTCOMES:
        yield Measurement(f"ips.commit.{report.outcome}", 1, report.record.consumer)
    if report.outcome == "advanced":
        yield Measurement("ips.pending.age", 0, report.record.consumer)


def measure_refusal(context: Context, capture_task_id: str) -> None:
    """Count a commit that was refused."""
    send(_refused(context, capture_task_id))


def _refused(context: Context, capture_task_id: str) -> Iterator[Measurement]:
    from airflow_provider_ips.runs.environment import pull_record

    consumer = None
    with suppress(IpsError):  # it may be refused because there is no record
        consumer = pull_record(context, capture_task_id).consumer
    yield Measurement("ips.commit.refused", 1, consumer or f"{context['dag'].dag_id}.{capture_task_id}")
