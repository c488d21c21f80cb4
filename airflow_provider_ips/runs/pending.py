"""Captures that move the checkpoint: a new range from its position, or the range that the run captured before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.advice.retention import retention_warnings, usual_gap_ms
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import Capture, PendingCapture, SourceRange
from airflow_provider_ips.core.checkpoint.resolution import Fresh, Replay, Retry, new_capture_id
from airflow_provider_ips.core.checkpoint.store import CheckpointStore, write_over
from airflow_provider_ips.core.checkpoint.traces import begin_replay
from airflow_provider_ips.core.checkpoint.transitions import begin, settle_empty
from airflow_provider_ips.core.errors import CheckpointConflictError, GapError
from airflow_provider_ips.core.history.selections import has_rules
from airflow_provider_ips.core.identifiers import Source, digest
from airflow_provider_ips.core.planning.plan import plan_capture, plan_full, replan, with_evidence
from airflow_provider_ips.core.planning.uncommitted import (
    UncommittedCaptures,
    refuse_after_full_refresh,
    refuse_after_replay,
)
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.requests.request import RunKind
from airflow_provider_ips.core.results.capture_record import CaptureRecord, SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from airflow_provider_ips.runs.capture_steps import (
    CaptureKind,
    PlannedSource,
    mark,
    pending_capture,
    plan_sources,
    publish,
    record_of,
    rules_of,
)
from airflow_provider_ips.runs.request import CaptureRequest

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, slots=True)
class NewRange(CaptureKind):
    """What came since the checkpoint: it becomes the pending capture, or is settled if nothing came."""

    run: PendingRun

    @property
    def request(self) -> CaptureRequest:  # type: ignore[override]
        return self.run.request

    @property
    def _checkpoint(self) -> Checkpoint | None:
        return self.run.checkpoint

    @property
    def capture_id(self) -> str:
        """Name it by the checkpoint's revision, too: a run that was superseded may capture another range."""
        return new_capture_id(self._checkpoint, consumer=self.request.consumer, run=self.request.run)

    def plan(self, history: IcebergSource, table: SourceTable, settings: CaptureSettings) -> PlannedSource:
        """Start at the committed position, and include captures that were never committed."""
        committed = None if self._checkpoint is None else self._checkpoint.position_of(table.source)
        if self._checkpoint is not None and committed is None:
            changes = settings.captures_changes
            self._refuse_renamed(self._checkpoint, table.source, history.table_uuid, changes=changes)
        uncommitted = UncommittedCaptures.of(self._checkpoint, table.source)
        plan_range = plan_full if self.request.run_request.kind is RunKind.FULL else plan_capture
        wanted = self.request.run_request.settings(settings)
        plan = with_evidence(
            history, plan_range(history, committed=committed, settings=wanted, uncommitted=uncommitted)
        )
        return PlannedSource(
            table=table, settings=settings, history=history, plan=plan, start=committed, uncommitted=uncommitted
        )

    def _refuse_renamed(self, checkpoint: Checkpoint, source: Source, table_uuid: str, *, changes: bool) -> None:
        """Refuse a first run of a source that was captured under a name that the consumer does not read now.

        :param changes: changes are captured, so that what runs wrote that were never committed matters, too
        """
        read_now = {table.source for table, _ in self.request.sources}

        def is_former(position: Position, other: Source) -> bool:
            is_same = (position.table_uuid, other.branch) == (table_uuid, source.branch)
            return is_same and other not in read_now

        for former in (p for p in checkpoint.positions if is_former(p.position, p.source)):
            raise CheckpointConflictError(
                f"consumer {checkpoint.consumer!r} has no position in {source.label!r}, and has processed the "
                f"same table as {former.source.label!r}, up to {former.position}",
                consequence="If the table was renamed, a first run would process all of it again",
                remedy=f"to go on from there, `airflow ips seed --consumer {checkpoint.consumer} "
                f"--table {source.table} --branch {source.branch} --snapshot {former.position.snapshot_id}`; to "
                f"start by `initial`, `airflow ips reset --consumer {checkpoint.consumer} "
                f"--table {former.source.table} --branch {former.source.branch}`",
            )
        begun = ((capture.run, r) for capture in (checkpoint.begun if changes else ()) for r in capture.ranges)
        for run, taken in ((run, r) for run, r in begun if is_former(r.to_inclusive, r.source)):
            raise CheckpointConflictError(
                f"run {run} captured the same table as {source.label!r} under its former name "
                f"{taken.source.label!r}, and was never committed",
                consequence="Rows that it wrote and that were removed since would stay in the target",
                remedy="empty the target and `airflow ips reset`; or if its job wrote nothing, "
                f"`airflow ips abandon --consumer {checkpoint.consumer} --wrote-nothing`",
            )

    def check(self, sources: Sequence[PlannedSource]) -> Sequence[PlannedSource]:
        """Refuse a new range where the run may not have one. An empty one after a position does no harm."""
        refuse_after_replay(self._checkpoint, [source.plan for source in sources])
        for source in sources:
            if source.settings.full_refresh_above is None:  # such a job comes out the same with rows it had before
                refuse_after_full_refresh(self._checkpoint, source.table.source, source.plan)
        is_settled = self._is_settled(sources)
        # A consumer that starts at the head of a table would skip what came since a checkpoint that was lost.
        if not is_settled or any(source.start is None for source in sources):
            self.run.refuse_if_set_back()
        if not is_settled:
            self.run.refuse_new_range()
        return sources

    def before_publish(self, sources: Sequence[PlannedSource], ranges: Sequence[SourceRange]) -> bool:
        """Make it the pending capture, or move the checkpoint past an empty range at once."""
        if not self._is_settled(sources):
            pending = pending_capture(self.request, self.capture_id, ranges, self.run.now_ms)
            write_over(
                self.run.store,
                self._checkpoint,
                begin(self._checkpoint, consumer=self.request.consumer, pending=pending),
            )
            return False
        write_over(
            self.run.store,
            self._checkpoint,
            settle_empty(
                self._checkpoint,
                consumer=self.request.consumer,
                run=self.request.run,
                ranges=ranges,
                now_ms=self.run.now_ms,
                history_length=self.request.history_length,
            ),
        )
        return True

    def _is_settled(self, sources: Sequence[PlannedSource]) -> bool:
        """Move past an empty range without a commit, so that snapshot expiry does not overtake an idle consumer."""
        is_empty = all(source.plan.is_empty and not source.uncommitted for source in sources)
        return (
            is_empty and self.request.skip_if_empty and (self._checkpoint is None or self._checkpoint.pending is None)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRange(CaptureKind):
    """What this run captured before, by a retry before its commit or a replay after it."""

    request: CaptureRequest
    before: Capture
    is_replay: bool
    show_replay: Callable[[PendingCapture], None]
    """Writes into the checkpoint that a replay has begun, so that other runs leave the target to it."""

    now_ms: int
    variant: str = ""
    """What a replay selects by other settings or another schema than the committed capture; else empty."""

    @property
    def capture_id(self) -> str:
        """Name it as before, so that its tables are found again, unless it selects something else."""
        before = self.before.capture_id
        return digest(self.request.consumer, "replay", before, self.variant, length=32) if self.variant else before

    @property
    def _by_source(self) -> Mapping[Source, SourceRange]:
        return {taken.source: taken for taken in self.before.ranges}

    def plan(self, history: IcebergSource, table: SourceTable, settings: CaptureSettings) -> PlannedSource:
        """Plan the very range again, whatever the table gained since."""
        taken = self._by_source[table.source]
        plan = replan(history, taken, settings)
        return PlannedSource(table=table, settings=settings, history=history, plan=plan, start=taken.from_exclusive)

    def ranges(self, sources: Sequence[PlannedSource]) -> Sequence[SourceRange]:
        """Name the tables as before, unless they hold something else."""
        if self.variant:
            return CaptureKind.ranges(self, sources)
        return [self._by_source[source.table.source] for source in sources]

    def has_rules_of(self, request: CaptureRequest) -> bool:
        """Tell whether the settings that choose rows are those of the earlier attempt, for every source."""
        found = ((self._by_source[table.source], table, settings) for table, settings in request.sources)
        return all(
            has_rules(taken.selection, rules_of(request, table.source, settings, is_first=taken.from_exclusive is None))
            for taken, table, settings in found
        )

    def other_selection(self, sources: Sequence[PlannedSource]) -> str:
        """Identify what is selected now; empty if it is what the earlier attempt selected, and read the same way."""
        now = [mark(self.request, source) for source in sources]
        before = [self._by_source[source.table.source].selection for source in sources]
        return "" if now == before else digest(*now)

    def before_publish(self, sources: Sequence[PlannedSource], ranges: Sequence[SourceRange]) -> bool:
        """Show a replay; the pending range of a retry is in the checkpoint. A replay without rows has no job."""
        is_skipped = self.request.skip_if_empty and all(source.plan.is_empty for source in sources)
        if self.is_replay and not is_skipped:
            self.show_replay(pending_capture(self.request, self.capture_id, ranges, self.now_ms))
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRun:
    """One execution of a capture that starts at the checkpoint."""

    request: CaptureRequest
    catalog: Catalog
    store: CheckpointStore
    checkpoint: Checkpoint | None
    resolution: Fresh | Retry | Replay
    now_ms: int
    refuse_if_set_back: Callable[[], None] = lambda: None
    """Raises where a table shows that the checkpoint is not the consumer's newest one."""

    refuse_new_range: Callable[[], None] = lambda: None
    """Raises where a new range would be wrong for this run, such as after its job has begun."""

    has_work_ahead: Callable[[], bool] = lambda: True
    """Whether tasks after this one will run; asked of a replay only."""

    saw: Callable[[Sequence[IcebergSource]], None] = lambda _: None
    """Gets the histories once they are loaded."""

    def execute(self) -> CaptureRecord:
        """Capture the range that the run captured before, or else a new one."""
        repeated = self._repeated()
        if repeated is None:
            return self._capture_new()
        self.refuse_if_set_back()
        if not repeated.is_replay and not repeated.has_rules_of(self.request):
            return self._capture_corrected()
        try:
            sources = plan_sources(self.request, self.catalog, repeated, saw=self.saw)
        except GapError as gap:
            return self._capture_without_history(repeated, gap)
        if variant := repeated.other_selection(sources):
            if not repeated.is_replay:
                return self._capture_corrected()
            repeated = replace(repeated, variant=variant)
        return self._with_advice(publish(self.request, self.catalog, repeated, sources), sources)

    def _repeated(self) -> RepeatedRange | None:
        if isinstance(self.resolution, Fresh):
            return None
        is_replay = isinstance(self.resolution, Replay)
        before = self.resolution.committed if isinstance(self.resolution, Replay) else self.resolution.pending
        captured = {taken.source for taken in before.ranges}
        requested = {table.source for table, _ in self.request.sources}
        if captured == requested:
            return RepeatedRange(
                request=self.request,
                before=before,
                is_replay=is_replay,
                show_replay=self._show_replay,
                now_ms=self.now_ms,
            )
        if not is_replay:
            return None
        raise CheckpointConflictError(
            f"run {self.request.run} captured {sorted(source.label for source in captured)}, and source_tables names "
            f"{sorted(source.label for source in requested)} now",
            consequence="What it processed cannot be captured again with other sources",
            remedy="trigger a new run; a source that is new starts there by its `initial`",
        )

    def _show_replay(self, replay: PendingCapture) -> None:
        if self.checkpoint is not None and self.has_work_ahead():
            write_over(self.store, self.checkpoint, begin_replay(self.checkpoint, replay))

    def _capture_new(self) -> CaptureRecord:
        kind = NewRange(self)
        sources = plan_sources(self.request, self.catalog, kind, saw=self.saw)
        return self._with_advice(publish(self.request, self.catalog, kind, sources), sources)

    def _capture_corrected(self) -> CaptureRecord:
        """Capture again from the checkpoint, by other settings or another schema than the run's earlier attempt.

        The tables of that attempt have other rows, so the new ones have other names. Its range is superseded as that of
        a run that failed.
        """
        record = self._capture_new()
        warning = (
            "an earlier attempt of this run captured by other settings, or by another schema of the source; this one "
            "captured from the checkpoint again"
        )
        return replace(record, sources=tuple(_with_warnings(source, warning) for source in record.sources))

    def _capture_without_history(self, repeated: RepeatedRange, gap: GapError) -> CaptureRecord:
        """Hand over the earlier attempt's tables if they are intact. Else a new capture covers the same rows.

        A replay cannot capture a new range, because its rows are committed and the checkpoint is past them.
        """
        from airflow_provider_ips.iceberg.icdc.earlier_attempt import find_earlier_tables

        earlier = find_earlier_tables(self.catalog, self.request.sources, repeated.before)
        if earlier.records is not None and repeated.has_rules_of(self.request):
            if repeated.is_replay:
                self._show_replay(
                    pending_capture(self.request, repeated.capture_id, repeated.before.ranges, self.now_ms)
                )
            return record_of(self.request, earlier.records, repeated.capture_id, is_replay=repeated.is_replay)
        if repeated.is_replay:
            raise earlier.lost(gap) from gap
        try:
            record = self._capture_new()
        except GapError as new_gap:
            raise earlier.lost(new_gap) from gap
        warning = f"{gap.problem}; captured again from the checkpoint. Of what this run had captured before, {earlier}"
        return replace(record, sources=tuple(_with_warnings(source, warning) for source in record.sources))

    def _with_advice(self, record: CaptureRecord, sources: Sequence[PlannedSource]) -> CaptureRecord:
        """Warn, while there is time, if a source expires its snapshots sooner than this consumer comes back."""
        from airflow_provider_ips.iceberg.source.retention import retention_of

        gap_ms = None if self.checkpoint is None else usual_gap_ms(self.checkpoint.history)
        if gap_ms is None:
            return record
        advised = []
        for captured, source in zip(record.sources, sources, strict=True):
            kept = retention_of(source.history, back_to_ms=self.now_ms - gap_ms)
            advised.append(_with_warnings(captured, *retention_warnings(kept, gap_ms=gap_ms, now_ms=self.now_ms)))
        return replace(record, sources=tuple(advised))


def _with_warnings(source: SourceRecord, *warnings: str) -> SourceRecord:
    return replace(source, warnings=(*source.warnings, *warnings))
