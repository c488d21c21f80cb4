"""Captures of what a run was triggered with, detached from the checkpoint: it is read at most, and never written.

Only the ICDC tables of an earlier attempt say where its range ended. Before the first of them exists, no task has seen
any range, so a retry may capture another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import SourceRange
from airflow_provider_ips.core.checkpoint.store import CheckpointStore, write_over
from airflow_provider_ips.core.checkpoint.traces import remember_detached
from airflow_provider_ips.core.history.snapshots import ancestors
from airflow_provider_ips.core.planning.uncommitted import UncommittedCaptures
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.requests.detached import detached_capture_id, detached_identity, plan_detached
from airflow_provider_ips.core.requests.request import RunKind
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from airflow_provider_ips.runs.capture_steps import (
    CaptureKind,
    PlannedSource,
    pending_capture,
    plan_sources,
    publish,
)
from airflow_provider_ips.runs.request import RANGE, CaptureRequest

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedRange(CaptureKind):
    """What the run was triggered with. Only a dry run of the usual range starts at the checkpoint."""

    request: CaptureRequest
    catalog: Catalog
    checkpoint: Checkpoint | None
    refuse_conflict: Callable[[Sequence[PlannedSource]], None]
    """Raises, or waits, while a backfill writes what the job of this run is going to write."""

    store: CheckpointStore | None = None
    """Where it is remembered what its job may write, for the next range."""

    now_ms: int = 0
    is_committed: bool = True
    """Whether a commit will show that its job has done its work."""

    @property
    def capture_id(self) -> str:
        """Name it by the run, the chunk of a backfill, and what it requests by which settings."""
        request = self.request
        chunk = () if request.chunk is None else (request.chunk.identity,)
        attempt = () if request.clear_number is None else (str(request.clear_number),)
        choosing = [
            [table.source.full_label, repr(replace(settings, range_columns=(), equality_deletes="fail"))]
            for table, settings in request.sources
        ]
        rules = json.dumps([request.run_request.to_json(), choosing], sort_keys=True)
        return detached_capture_id(request.consumer, request.run, *chunk, *attempt, rules)

    @property
    def identity(self) -> dict[str, str]:
        request = self.request
        return detached_identity(
            self.capture_id, request.consumer, made_by=str(request.run), request=request.run_request
        )

    def plan(self, history: IcebergSource, table: SourceTable, settings: CaptureSettings) -> PlannedSource:
        """Plan what was requested, up to where an earlier attempt ended."""
        plan = plan_detached(
            history,
            self.request.run_request,
            settings,
            committed=None if self.checkpoint is None else self.checkpoint.position_of(table.source),
            uncommitted=UncommittedCaptures.of(self.checkpoint, table.source),
            pinned=self._earlier_end(history, table),
        )
        return PlannedSource(table=table, settings=settings, history=history, plan=plan, start=plan.from_exclusive)

    def _earlier_end(self, history: IcebergSource, table: SourceTable) -> Position | None:
        """Look at both tables: ``before`` is made first, so an attempt that died in between left that one only.

        In mode RANGE none is made, and a run that is cleared captures up to the head at that time.
        """
        from airflow_provider_ips.iceberg.icdc.earlier_attempt import earlier_end
        from airflow_provider_ips.iceberg.source.iceberg_source import position_at

        if self.request.run_request.dry_run or self.request.mode == RANGE:
            return None
        names = [self.request.name_of(table.source, self.capture_id, role) for role in ("", "before")]
        ends = (earlier_end(self.catalog, history, name, capture_id=self.capture_id) for name in names)
        found = next((end for end in ends if end is not None), None)
        chunk = self.request.chunk
        if found is not None or chunk is None or chunk.as_of_snapshot is None:
            return found
        return position_at(history, snapshot_id=int(chunk.as_of_snapshot))

    def check(self, sources: Sequence[PlannedSource]) -> Sequence[PlannedSource]:
        """Leave the requested partitions only, once the ranges of all sources are fixed."""
        from airflow_provider_ips.iceberg.partitions import narrowing

        condition, chunk = self.request.run_request.partitions, self.request.chunk
        if chunk is not None and chunk.is_of_partitions:
            return [
                replace(source, plan=narrowing.narrow_to_chunk(source.history, source.plan, chunk))
                for source in sources
            ]
        if condition is None:
            return sources
        for source in sources:
            narrowing.refuse_moved_rows(source.history.name, source.plan, source.settings, condition)
        narrowed = [
            replace(source, plan=narrowing.narrow(source.history, source.plan, condition)) for source in sources
        ]
        # The plan of a backfill has checked this for its chunks. A run of Airflow's own backfill has the interval that
        # it has, and is not refused for an empty day.
        if chunk is None and self.request.clear_number is None:
            plans = [(whole.history, whole.plan, part.plan) for whole, part in zip(sources, narrowed, strict=True)]
            narrowing.refuse_likely_mistake(plans, self.request.run_request)
        return narrowed

    def before_publish(self, sources: Sequence[PlannedSource], ranges: Sequence[SourceRange]) -> bool:
        """Leave the target to backfills that are writing it. No position moves."""
        self.refuse_conflict(sources)
        follows_changes = any(source.settings.captures_changes for source in sources)
        refreshes = self.is_committed and self.request.run_request.kind is RunKind.FULL
        # The chunks of a backfill run beside each other, and their job reads the rows as they are when it runs.
        if self.store is not None and (follows_changes or refreshes) and self.request.chunk is None:
            read = self.store.read(self.request.consumer)  # a live run may have committed since the first look
            remembered = remember_detached(
                read,
                consumer=self.request.consumer,
                detached=pending_capture(self.request, self.capture_id, ranges, self.now_ms),
                follows_changes=follows_changes,
                refreshes=refreshes,
                moved_heads=[source.table.source for source in sources if _has_moved_head(source, read)],
            )
            write_over(self.store, read, remembered)
        return False

    def execute(self) -> CaptureRecord:
        return publish(self.request, self.catalog, self, plan_sources(self.request, self.catalog, self))


def _has_moved_head(source: PlannedSource, checkpoint: Checkpoint | None) -> bool:
    """Tell whether the head does not show that it descends from the committed position."""
    committed = None if checkpoint is None else checkpoint.position_of(source.table.source)
    line = {snapshot.snapshot_id for snapshot in ancestors(source.history, source.history.head)}
    return committed is not None and committed.snapshot_id not in {None, *line}
