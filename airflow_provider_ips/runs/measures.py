"""What captures and commits measure and see, as metrics and for people, without another request to a catalog."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Final

from airflow_provider_ips import sightings
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.results.capture_record import CaptureRecord, SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.core.sightings.consumer_sighting import (
    ConsumerSighting,
    PendingSighting,
    SeenBy,
    SourceSighting,
)
from airflow_provider_ips.core.sightings.lag import Look, after_capture, after_commit
from airflow_provider_ips.core.sightings.table_sighting import see_table
from airflow_provider_ips.metrics import Measurement, send

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
    from airflow_provider_ips.runs.commit import CommitReport
    from airflow_provider_ips.runs.request import CaptureRequest

log = logging.getLogger(__name__)

MAX_TABLES_A_RUN: Final = 10
"""Sightings of tables that one capture stores: of a hundred sources the other ones are left to `ips_watch`."""

_COUNTED_OUTCOMES = ("advanced", "replayed", "superseded")
_MS = 1000
_SHOWN_SETTINGS: Final = ("data_operations", "on_other_operation", "on_superset", "initial", "on_gap")
_SHOWN_LIMITS: Final = ("max_snapshots", "max_files", "max_bytes", "full_refresh_above")


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


@dataclass(slots=True, kw_only=True)
class CaptureSight:
    """What a capture sees of its consumer, in the histories that it has loaded."""

    request: CaptureRequest
    checkpoint: Checkpoint | None
    """As it was before the capture."""

    target_lag_s: int | None
    now_ms: int
    histories: Sequence[IcebergSource] = ()
    sources: Sequence[SourceSighting] = ()
    before: ConsumerSighting | None = None
    record: CaptureRecord | None = None
    """None unless the capture succeeds."""

    def take(self, histories: Sequence[IcebergSource]) -> None:
        """Look at what was loaded, before the capture refuses or takes anything."""
        try:
            self.before = sightings.read_consumer(sightings.task_variables(), self.request.consumer)
            pairs = zip(histories, self.request.sources, strict=True)
            self.sources = tuple(self._see_source(history, settings) for history, (_, settings) in pairs)
            self.histories = histories
        except Exception as error:  # noqa: BLE001 - a run must not fail because people cannot look at it
            self._warn(error)

    def write_down(self) -> None:
        """Store it, and send it as metrics. Whatever goes wrong is logged and stops nothing."""
        if not self.histories:
            return
        try:
            pending = None if self.checkpoint is None else self.checkpoint.pending
            seen = self._seen(self.sources)
            sightings.measure_lag(seen, pending_since_ms=self.now_ms if pending is None else pending.started_at_ms)
            self._store(replace(seen, sources=tuple(self._after_capture())))
        except Exception as error:  # noqa: BLE001 - likewise
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        log.warning("What was seen of %s was not stored: %s", self.request.consumer, sightings.shown(error))

    def _seen(self, sources: Sequence[SourceSighting]) -> ConsumerSighting:
        return ConsumerSighting(
            consumer=self.request.consumer,
            dag_id=self.request.run.dag_id,
            task_id=self.request.task_id,
            iceberg_conn_id=self.request.iceberg_conn_id,
            seen_at_ms=self.now_ms,
            seen_by=SeenBy.CAPTURE,
            sources=tuple(sources),
            target_lag_s=self.target_lag_s,
            pending=self._pending(),
            settings=tuple(_shown_settings(self.request)),
        )

    def _see_source(
        self, history: IcebergSource, settings: CaptureSettings, taken: SourceRecord | None = None
    ) -> SourceSighting:
        look = Look(at_ms=self.now_ms, by=SeenBy.CAPTURE, skips_changes=settings.skips_changes)
        committed = (
            None if self.checkpoint is None else self.checkpoint.position_of(Source(history.name, history.branch))
        )
        if taken is None:
            return sightings.see_source(history, look, committed=committed)
        if self.record is not None and self.record.context.settled:
            return sightings.see_source(history, look, committed=taken.to_inclusive)
        return sightings.see_source(history, look, committed=committed, pending=(taken.to_inclusive, taken.captured))

    def _after_capture(self) -> Iterator[SourceSighting]:
        """The sources with what the capture took of them, or moved past because it was empty."""
        is_new = self.record is not None and not self.record.context.replayed
        taken = {each.source: each for each in self.record.sources} if self.record is not None and is_new else {}
        for history, (table, settings), seen in zip(self.histories, self.request.sources, self.sources, strict=True):
            record = taken.get(table.source)
            yield seen if record is None else self._see_source(history, settings, record)

    def _pending(self) -> PendingSighting | None:
        """The capture that has to be committed now: this one, or the one that was pending before if this one failed."""
        record, before = self.record, None if self.checkpoint is None else self.checkpoint.pending
        if record is not None and not record.context.replayed:
            new = PendingSighting(capture_id=record.capture_id, run=record.context.run, started_at_ms=self.now_ms)
            return None if record.context.settled else new
        return None if before is None else sightings.in_short(before)

    def _store(self, seen: ConsumerSighting) -> None:
        variables, before = sightings.task_variables(), self.before
        captured = [] if self.record is None else [source.captured for source in self.record.sources]
        if not sightings.write(variables, after_capture(before, seen, captured)):
            return
        known = {} if before is None else {each.source: each.head for each in before.sources}
        pairs = zip(self.histories, seen.sources, strict=True)
        moved = [history for history, each in pairs if each.head != known.get(each.source)]
        for history in moved[:MAX_TABLES_A_RUN]:
            conn_id = seen.iceberg_conn_id
            table = see_table(history, iceberg_conn_id=conn_id, seen_at_ms=self.now_ms, seen_by=SeenBy.CAPTURE)
            sightings.write(variables, table)


def _shown_settings(request: CaptureRequest) -> Iterator[tuple[str, str]]:
    """What a page shows of the settings; where sources differ, those of the first one."""
    _, settings = request.sources[0]
    yield "mode", request.mode
    for name in _SHOWN_SETTINGS:
        value = getattr(settings, name)
        yield name, value if isinstance(value, str) else ", ".join(value)
    yield from ((name, str(value)) for name in _SHOWN_LIMITS if (value := getattr(settings, name)) is not None)


def measure_commit(report: CommitReport, *, now_ms: int) -> None:
    """Count a commit by its outcome, and move the position that people see.

    One that had nothing to move, or had moved before, is not counted.
    """
    send(_committed(report))
    if report.outcome != "advanced":
        return
    record = report.record
    variables = sightings.task_variables()
    before = sightings.read_consumer(variables, record.consumer)
    if before is not None:
        ends = {source.source: source.to_inclusive for source in record.sources}
        after = after_commit(before, capture_id=record.capture_id, positions=ends, now_ms=now_ms)
        sightings.measure_lag(after)
        sightings.write(variables, after)


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
