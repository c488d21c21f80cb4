"""Plans a backfill: what the source holds of the requested rows, cut into chunks, whose targets are then claimed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.backfill.chunks import (
    Chunk,
    Unit,
    cut_into_chunks,
    exceeds,
    label_of,
    units_of_range,
)
from airflow_provider_ips.core.backfill.claims import Claim, Extent
from airflow_provider_ips.core.backfill.column_values import ChunkValues, PartitionValues
from airflow_provider_ips.core.errors import GapError, InputError, SourceError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.requests.detached import plan_detached
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from airflow_provider_ips.runs.backfill.plan import BackfillPlan, RangeValues, preview_stage
from airflow_provider_ips.runs.backfill.request import BackfillRequest
from airflow_provider_ips.runs.claims import Claims
from airflow_provider_ips.runs.reports import volume

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


_OUT_OF_ORDER: Final = (
    "the range is captured with its changes, and instances of a task group do not wait for each other: rows of an "
    "earlier chunk may be written over those of a later one. Right for jobs that compute the captured keys again; "
    "otherwise let them run in order (max_active_tis_per_dagrun=1 on every task of the group)"
)
_PLANNED_AGAIN: Final = (
    "this run has planned the same as of snapshot {snapshot_id}, which has expired: planned again by the table as it "
    "is now. Chunks that are done need not be the same as before"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlanner:
    """What is requested, and where the source and the claims are."""

    request: BackfillRequest
    catalog: Catalog
    claims: Claims
    now_ms: int

    def plan(self) -> BackfillPlan:
        """Cut what is requested into chunks. A retry, and a plan that is cleared, plan by the same snapshot again."""
        from airflow_provider_ips.iceberg.source.iceberg_source import open_source

        history = open_source(self.catalog, self.request.table.source)
        pinned, warnings = self._earlier_head(history)
        captured = self._capture_plan(history, pinned)
        cut = self._cut_partitions if self.request.is_of_partitions else self._cut_range
        plan = cut(history, captured)
        plan = replace(
            plan,
            was_planned_before=pinned is not None,
            warnings=(*self.request.warnings, *warnings, *plan.warnings),
        )
        request = self.request.run_request
        if not request.dry_run:
            return plan
        stages = (preview_stage(self.catalog, table, request, plan.range_values) for table in self.request.stages)
        return replace(plan, stages=tuple(stages))

    def claim_targets(self, plan: BackfillPlan) -> tuple[Claim, Claim] | None:
        """Claim the targets, or return the first claim of ours that conflicts with one of another run, and that one."""
        claims = self._claims_of(plan) if plan.chunks else []
        conflicting = self.claims.take(claims)
        if conflicting is None:
            return None
        return next(claim for claim in claims if claim.target == conflicting.target), conflicting

    def _claims_of(self, plan: BackfillPlan) -> list[Claim]:
        request = self.request
        extent = Extent(source=request.table.source, column=plan.column, spans=plan.spans)
        return [
            Claim(
                target=target,
                run=request.run,
                task_id=request.task_id,
                description=str(request.run_request),
                request_digest=request.digest,
                extent=extent,
                as_of_snapshot=plan.planned_at.snapshot_text,
                claimed_at_ms=self.now_ms,
            )
            for target in request.targets
        ]

    def _earlier_head(self, history: IcebergSource) -> tuple[Position | None, tuple[str, ...]]:
        """Find the head by which this run has planned the same before, with a warning if it has expired."""
        from airflow_provider_ips.iceberg.source.iceberg_source import position_at

        claims = () if self.request.run_request.dry_run else map(self.claims.read, self.request.claim_keys)
        same = (
            claim.as_of_snapshot
            for claim in claims
            if claim is not None and claim.request_digest == self.request.digest
        )
        snapshot_id = next((found for found in same if found is not None), None)
        if snapshot_id is None:
            return None, ()
        try:
            return position_at(history, snapshot_id=int(snapshot_id)), ()
        except GapError as gap:
            if not self.request.is_of_partitions or self.request.as_of_plan:
                raise _expired(history, snapshot_id) from gap
        return None, (_PLANNED_AGAIN.format(snapshot_id=snapshot_id),)

    def _capture_plan(self, history: IcebergSource, pinned: Position | None) -> CapturePlan:
        request = replace(self.request.run_request, dry_run=False)
        try:
            return plan_detached(history, request, self.request.settings, pinned=pinned)
        except SourceError as error:
            if "airflow ips" not in error.remedy:
                raise
            raise _without_checkpoint(error, self.request.table.table) from error

    def _cut_partitions(self, history: IcebergSource, captured: CapturePlan) -> BackfillPlan:
        from airflow_provider_ips.iceberg.partitions.backfill_units import ColumnSpans, chunk_column, units_of

        narrowed = self._narrowed(history, captured)
        column = chunk_column(history, self.request.run_request.partitions, self.request.chunk_by)
        field_id = ColumnSpans(history.metadata, column).field_id
        units = units_of(history, narrowed, column)
        groups = self._groups_of(units)
        head = captured.to_inclusive.snapshot_text if self.request.as_of_plan else None
        request = replace(self.request.run_request, dry_run=False)
        chunks = [
            replace(
                self._chunk(index, group, of=len(groups), request=request),
                values=ChunkValues.of(_values_of(group), column=column, field_id=field_id),
                as_of_snapshot=head,
            )
            for index, group in enumerate(groups)
        ]
        spans = ChunkValues.of(_values_of(units), column=column, field_id=field_id).comparable_ends
        plan = self._plan_of(captured, units, chunks, warnings=self._too_large(groups))
        return replace(plan, column=column, spans=spans)

    def _narrowed(self, history: IcebergSource, captured: CapturePlan) -> CapturePlan:
        from airflow_provider_ips.iceberg.partitions import narrowing

        request = self.request.run_request
        if request.partitions is None:
            return captured
        narrowed = narrowing.narrow(history, captured, request.partitions)
        narrowing.refuse_likely_mistake([(history, captured, narrowed)], request)
        return narrowed

    def _cut_range(self, history: IcebergSource, captured: CapturePlan) -> BackfillPlan:
        """Cut between snapshots. The values of their rows are not known without opening them, so none are claimed."""
        narrowed = self._narrowed(history, captured)
        units = units_of_range(captured.verdicts, captured.to_inclusive.snapshot_text)
        groups = self._groups_of(units)
        first = None if captured.from_exclusive is None else captured.from_exclusive.snapshot_text
        ends = [first, *(group[-1].last_snapshot for group in groups)]
        chunks = [
            self._chunk(index, group, of=len(groups), request=self._part(ends[index], ends[index + 1]))
            for index, group in enumerate(groups)
        ]
        out_of_order = (_OUT_OF_ORDER,) if self.request.settings.captures_changes and len(groups) > 1 else ()
        plan = self._plan_of(captured, units, chunks, warnings=(*out_of_order, *self._too_large(groups)))
        return self._counted(history, narrowed, plan) if self.request.run_request.dry_run else plan

    def _counted(self, history: IcebergSource, narrowed: CapturePlan, plan: BackfillPlan) -> BackfillPlan:
        """Open the range for a dry run: which files the filter selects, and which values their rows have."""
        from airflow_provider_ips.iceberg.partitions.backfill_units import chunk_column, units_of

        column = chunk_column(history, self.request.run_request.partitions, self.request.chunk_by)
        units = units_of(history, narrowed, column)
        counted = replace(plan, units=tuple(units))
        if column is None or self.request.settings.captures_changes:
            return counted  # the files that a range added do not have the values of rows that it deleted
        field = history.metadata.schema().find_field(column)
        values = ChunkValues.of(_values_of(units), column=column, field_id=field.field_id)
        return replace(
            counted, range_values=RangeValues(column=column, column_type=str(field.field_type), values=values)
        )

    def _part(self, since: str | None, until: str | None) -> RunRequest:
        """Request one chunk of a range. Each begins at the snapshot with which the one before ends.

        The time before the table's first snapshot has no snapshot id, so the first chunk then begins at a time.
        """
        request = self.request.run_request
        return RunRequest(
            kind=RunKind.TIME if since is None else RunKind.SNAPSHOT,
            since_snapshot=since,
            since_time=request.since_time if since is None else None,
            partitions=request.partitions,
            until_snapshot=until,
        )

    def _plan_of(
        self, captured: CapturePlan, units: Sequence[Unit], chunks: Sequence[Chunk], *, warnings: Iterable[str]
    ) -> BackfillPlan:
        return BackfillPlan(
            request=self.request,
            planned_at=captured.to_inclusive,
            from_exclusive=captured.from_exclusive,
            column=None,
            units=tuple(units),
            chunks=tuple(chunks),
            spans=None,
            was_planned_before=False,
            warnings=(*captured.warnings, *warnings),
        )

    def _groups_of(self, units: Sequence[Unit]) -> list[tuple[Unit, ...]]:
        groups = cut_into_chunks(units, self.request.limits)
        if len(groups) > self.request.max_chunks:
            raise InputError(
                f"the backfill has {len(groups):,} chunks, and Airflow maps {self.request.max_chunks:,} at most",
                consequence="Airflow would refuse the list of chunks",
                remedy="let chunks be larger (max_partitions, max_snapshots, max_files, max_bytes), request less at a "
                "time, or raise [core] max_map_length",
            )
        return groups

    def _too_large(self, groups: Sequence[tuple[Unit, ...]]) -> Iterator[str]:
        """Warn about chunks of a single value or snapshot that has more files or bytes than the limit."""
        for number, group in enumerate(groups, start=1):
            if exceeds(group, self.request.limits):
                yield (
                    f"chunk {number} ({label_of(group)}) has more than a limit allows: {volume(group[0].volume)}. One "
                    "value, or one snapshot, is never split"
                )

    def _chunk(self, index: int, units: Sequence[Unit], *, of: int, request: RunRequest) -> Chunk:
        return Chunk(
            number=index + 1,
            of=of,
            label=label_of(units),
            source=self.request.table.source,
            request=request,
            partitions=sum(unit.partitions for unit in units),
            volume=Volume.total(unit.volume for unit in units),
            claims=self.request.claim_keys,
        )


def _values_of(units: Iterable[Unit]) -> list[PartitionValues]:
    return [unit.values for unit in units if unit.values is not None]


def _expired(history: IcebergSource, snapshot_id: str) -> GapError:
    return GapError(
        f"snapshot {snapshot_id} of {history.name}, by which this run has planned its chunks, has expired",
        consequence="The same chunks cannot be made again, and others would not fit those that are done",
        remedy="clear single chunks that failed, from their capture on; or trigger a new run, and request a range that "
        "is left, or partitions",
    )


def _without_checkpoint(error: SourceError, table: str) -> SourceError:
    """Replace a remedy that moves a checkpoint: a backfill has none, and must not move that of live runs."""
    return type(error)(
        error.problem,
        consequence="Such a range would leave out, or repeat, rows that it changed. Nothing was planned",
        remedy="request partitions, whose rows are live, or a range without that snapshot; or let plan and captures "
        f'take the changes: SourceTable("{table}", data_operations=("append", "overwrite", "delete")) in both',
    )
