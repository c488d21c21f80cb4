"""One execution of a capture, step by step; the operator around it only translates parameters and XComs.

Order matters for what a crash leaves behind: every source is opened and planned before anything is written; the pending
capture is in the checkpoint before the first ICDC table is made, so that a retry finds its range again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.asked import Run
from airflow_provider_ips.core.checkpoint import PendingCapture, SourceRange
from airflow_provider_ips.core.errors import CheckpointConflictError, GapError
from airflow_provider_ips.core.identifiers import icdc_table_name
from airflow_provider_ips.core.plan import plan_capture, plan_full
from airflow_provider_ips.core.replaying import plan_again
from airflow_provider_ips.core.retention import retention_warnings, usual_gap_ms
from airflow_provider_ips.core.transitions import Fresh, Replay, Retry, begin, new_capture_id, settle_empty
from airflow_provider_ips.operators._preparing import Opened, Outcome, prepare_all, record_of
from airflow_provider_ips.operators._salvage import salvage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.record import CaptureRecord, SourceRecord
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.iceberg import IcebergSource, PreparedIcdc
    from airflow_provider_ips.operators._preparing import Request


def _nobody_objects() -> None:
    """The usual case: a new range may be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRun:
    """A request and all that it meets: the catalog, the checkpoint as it was read, and what that makes of this run.

    ``before_new_range`` may refuse a range that this run has not had before, while nothing is written.
    """

    request: Request
    catalog: Catalog
    store: CheckpointStore
    checkpoint: Checkpoint | None
    resolution: Fresh | Retry | Replay
    now_ms: int
    before_new_range: Callable[[], None] = _nobody_objects

    def execute(self) -> Outcome:
        """Open and plan all sources, remember the ranges, build the ICDC tables."""
        known = self._known()
        return self._capture_fresh() if known is None else self._capture_again(known)

    def _capture_fresh(self) -> Outcome:
        sources = self._open(None)
        empty = all(source.plan.is_empty for source in sources)
        if empty and self.request.skip_if_empty and (self.checkpoint is None or self.checkpoint.pending is None):
            return self._settle(sources)
        return self._capture_new(sources)

    def _known(self) -> _Known | None:
        """Find the ranges that this run has taken before; None to capture as new."""
        if isinstance(self.resolution, Fresh):
            return None
        before = self.resolution.pending if isinstance(self.resolution, Retry) else self.resolution.committed
        ranges = {(r.source, r.branch): r for r in before.ranges}
        asked = {(table.table, table.branch) for table, _ in self.request.sources}
        if asked == set(ranges):
            return _Known(capture_id=before.capture_id, ranges=ranges, tables=before.icdc_tables)
        if isinstance(self.resolution, Retry):
            return None
        raise CheckpointConflictError(
            f"run {self.request.run} captured {sorted(name for name, _ in ranges)}, and source_tables names "
            f"{sorted(name for name, _ in asked)} now",
            consequence="What it processed cannot be captured again with other sources",
            remedy="trigger a new run; a source that is new starts there by its `initial`",
        )

    def _open(self, known: _Known | None) -> tuple[Opened, ...]:
        from airflow_provider_ips.iceberg import open_source

        histories = [open_source(self.catalog, table.table, table.branch) for table, _ in self.request.sources]
        return tuple(
            self._planned(history, table, settings, known)
            for history, (table, settings) in zip(histories, self.request.sources, strict=True)
        )

    def _planned(
        self, history: IcebergSource, table: SourceTable, settings: CaptureSettings, known: _Known | None
    ) -> Opened:
        committed = None if self.checkpoint is None else self.checkpoint.position_of(table.table, table.branch)
        if known is None:
            planned = plan_full if self.request.asked.run is Run.FULL else plan_capture
            plan = planned(
                history,
                committed=committed,
                settings=self.request.asked.settings(settings),
                attempted=self._attempted(table),
                attempted_last=self._pending_end(table),
            )
        else:
            plan = plan_again(history, known.ranges[table.table, table.branch], settings)
        return Opened(table=table, settings=settings, history=history, plan=plan, committed=committed)

    def _attempted(self, table: SourceTable) -> Position | None:
        """Where the first capture ended that began at the checkpoint and was never committed."""
        taken = self._pending_range(table)
        return None if taken is None else taken.attempted or taken.to_inclusive

    def _pending_end(self, table: SourceTable) -> Position | None:
        """Where the newest of them ended."""
        taken = self._pending_range(table)
        return None if taken is None else taken.to_inclusive

    def _pending_range(self, table: SourceTable) -> SourceRange | None:
        pending = None if self.checkpoint is None else self.checkpoint.pending
        ranges = () if pending is None else pending.ranges
        return next((r for r in ranges if (r.source, r.branch) == (table.table, table.branch)), None)

    def _settle(self, sources: tuple[Opened, ...]) -> Outcome:
        """Nothing to process: the checkpoint moves at once, so that snapshot expiry cannot strand an idle consumer."""
        capture_id = self._new_id()
        ranges = self._ranges(sources, capture_id)
        record = self._record(self._prepare(sources, ranges, capture_id), capture_id, settled=True)
        self._write(
            settle_empty(
                self.checkpoint,
                consumer=self.request.consumer,
                run=self.request.run,
                ranges=ranges,
                now_ms=self.now_ms,
                history_length=self.request.history_length,
            )
        )
        return Outcome(record=record, settled=True)

    def _capture_new(self, sources: tuple[Opened, ...]) -> Outcome:
        self.before_new_range()
        capture_id = self._new_id()
        ranges = self._ranges(sources, capture_id)
        prepared = self._prepare(sources, ranges, capture_id)
        pending = PendingCapture(capture_id=capture_id, run=self.request.run, started_at_ms=self.now_ms, ranges=ranges)
        self._write(begin(self.checkpoint, consumer=self.request.consumer, pending=pending))
        return Outcome(record=self._record(prepared, capture_id), settled=False)

    def _capture_again(self, known: _Known) -> Outcome:
        try:
            sources = self._open(known)
        except GapError as gap:
            return self._capture_without_history(known, gap)
        ranges = tuple(known.ranges[source.table.table, source.table.branch] for source in sources)
        prepared = self._prepare(sources, ranges, known.capture_id)
        return Outcome(record=self._record(prepared, known.capture_id), settled=False)

    def _capture_without_history(self, known: _Known, gap: GapError) -> Outcome:
        """The range is gone from the source's history: hand over what is left of it, or cover it by a new capture."""
        ranges = [known.ranges[table.table, table.branch] for table, _ in self.request.sources]
        left = salvage(self.catalog, self.request.sources, ranges, capture_id=known.capture_id, tables=known.tables)
        if left.records is not None:
            return Outcome(record=self._tell(left.records, known.capture_id), settled=False)
        if isinstance(self.resolution, Replay):
            raise left.lost(gap) from gap
        try:
            outcome = self._capture_fresh()
        except GapError as no_way_on:
            raise left.lost(no_way_on) from gap
        note = f"{gap.problem}; captured anew from the checkpoint. Of what this run had captured before, {left}"
        warned = tuple(replace(source, warnings=(*source.warnings, note)) for source in outcome.record.sources)
        return replace(outcome, record=replace(outcome.record, sources=warned))

    def _new_id(self) -> str:
        return new_capture_id(self.checkpoint, consumer=self.request.consumer, run=self.request.run)

    def _ranges(self, sources: tuple[Opened, ...], capture_id: str) -> tuple[SourceRange, ...]:
        """A source that gained nothing gets a table without rows if downstream runs: a join names both its sides."""
        gained = any(not source.plan.is_empty for source in sources)
        needs_tables = gained or not self.request.skip_if_empty
        return tuple(
            SourceRange(
                source=source.table.table,
                branch=source.table.branch,
                kind=source.plan.kind,
                from_exclusive=source.committed,
                to_inclusive=source.plan.to_inclusive,
                icdc_table=self._icdc_table(source.table, capture_id) if needs_tables else None,
                before_table=self._icdc_table(source.table, capture_id, role="before")
                if needs_tables and source.settings.captures_changes
                else None,
                attempted=self._attempted(source.table),
            )
            for source in sources
        )

    def _icdc_table(self, table: SourceTable, capture_id: str, *, role: str = "") -> str:
        label = table.table if table.branch == "main" else f"{table.table}@{table.branch}"
        return f"{self.request.icdc_namespace}.{icdc_table_name(label, capture_id, role)}"

    def _write(self, changed: Checkpoint) -> None:
        """Write only over what was read: another writer in between is a conflict and not a victim."""
        read = self.checkpoint
        if changed is not read:
            self.store.write(changed, expected_revision=None if read is None else read.revision)

    def _prepare(
        self, sources: tuple[Opened, ...], ranges: tuple[SourceRange, ...], capture_id: str
    ) -> list[PreparedIcdc]:
        identity = {"capture-id": capture_id, "consumer": self.request.consumer, "run": str(self.request.run)}
        return prepare_all(self.request, self.catalog, sources, ranges, identity=identity)

    def _record(self, prepared: list[PreparedIcdc], capture_id: str, *, settled: bool = False) -> CaptureRecord:
        return self._tell([self._advised(ready.publish(), ready) for ready in prepared], capture_id, settled=settled)

    def _advised(self, record: SourceRecord, ready: PreparedIcdc) -> SourceRecord:
        """Say while it still works that the source forgets sooner than this consumer comes back."""
        from airflow_provider_ips.iceberg.retention import retention_of

        gap_ms = None if self.checkpoint is None else usual_gap_ms(self.checkpoint.history)
        if gap_ms is None:
            return record
        kept = retention_of(ready.source, back_to_ms=self.now_ms - gap_ms)
        warnings = retention_warnings(kept, gap_ms=gap_ms, now_ms=self.now_ms)
        return replace(record, warnings=(*record.warnings, *warnings))

    def _tell(self, sources: Sequence[SourceRecord], capture_id: str, *, settled: bool = False) -> CaptureRecord:
        is_replay = isinstance(self.resolution, Replay)
        return record_of(self.request, sources, capture_id, replayed=is_replay, settled=settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What this run has captured before, by source and branch."""

    capture_id: str
    ranges: Mapping[tuple[str, str], SourceRange]
    tables: tuple[str, ...]
