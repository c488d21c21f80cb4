"""One execution of a plan: what the source has of what is asked for, cut into chunks, and claimed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.asked import Asked, Run
from airflow_provider_ips.core.backfill import Chunk, Unit, exceeded, grouped, label_of, total, units_of_range
from airflow_provider_ips.core.claims import Claim, Extent
from airflow_provider_ips.core.detached import plan_detached
from airflow_provider_ips.core.errors import GapError, InputError, SourceError
from airflow_provider_ips.core.spans import Held, Values
from airflow_provider_ips.operators import _claims
from airflow_provider_ips.operators._backfill_plan import Planned
from airflow_provider_ips.operators._log import volume

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow.sdk.types import RuntimeTaskInstanceProtocol
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.iceberg import IcebergSource
    from airflow_provider_ips.operators._backfill_plan import Wanted
    from airflow_provider_ips.operators._backfill_stages import Reached, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRun:
    """What is wanted, and the surroundings."""

    wanted: Wanted
    catalog: Catalog
    ti: RuntimeTaskInstanceProtocol
    now_ms: int

    def plan(self) -> Planned:
        """Cut what is asked for into chunks. A retry, and a cleared plan, cut what the first attempt has seen."""
        from airflow_provider_ips.iceberg import open_source

        source = self.wanted.source
        history = open_source(self.catalog, source.table, source.branch)
        pinned, notes = self._pinned(history)
        plan = self._detached(history, pinned)
        planned = self._by_partitions(history, plan) if self.wanted.of_partitions else self._by_snapshots(history, plan)
        warnings = (*self.wanted.notes, *notes, *planned.warnings)
        planned = replace(planned, was_pinned=pinned is not None, warnings=warnings)
        return replace(planned, stages=self._stages(planned.reached)) if self.wanted.asked.dry_run else planned

    def claim(self, planned: Planned) -> Claim | None:
        """Claim the targets; return the claim that is in the way, if any."""
        return _claims.hold(self.ti, self.claims_of(planned)) if planned.chunks else None

    def claims_of(self, planned: Planned) -> list[Claim]:
        """One for each target."""
        wanted = self.wanted
        extent = Extent(
            source=wanted.source.table, branch=wanted.source.branch, column=planned.column, spans=planned.spans
        )
        as_of = planned.planned_at.snapshot_id
        return [
            Claim(
                target=target,
                run=wanted.run,
                task_id=wanted.task_id,
                told=str(wanted.asked),
                asked=wanted.digest,
                extent=extent,
                as_of=None if as_of is None else str(as_of),
                claimed_at_ms=self.now_ms,
            )
            for target in wanted.targets
        ]

    def _pinned(self, history: IcebergSource) -> tuple[Position | None, tuple[str, ...]]:
        """Where the source stood when this run has planned the same before, and what to say if that is gone."""
        from airflow_provider_ips.iceberg import position_at

        claims = () if self.wanted.asked.dry_run else map(_claims.read_claim, self.wanted.claim_keys)
        same = (claim.as_of for claim in claims if claim is not None and claim.asked == self.wanted.digest)
        as_of = next((as_of for as_of in same if as_of is not None), None)
        if as_of is None:
            return None, ()
        try:
            return position_at(history, snapshot_id=int(as_of)), ()
        except GapError as gap:
            if not self.wanted.of_partitions or self.wanted.as_of_plan:
                raise _unplannable(history, as_of) from gap
        return None, (_PLANNED_ANEW.format(as_of=as_of),)

    def _detached(self, history: IcebergSource, pinned: Position | None) -> CapturePlan:
        asked = replace(self.wanted.asked, dry_run=False)
        try:
            return plan_detached(history, asked, self.wanted.settings, pinned=pinned)
        except SourceError as error:
            if "airflow ips" not in error.remedy:
                raise
            raise _apart_from_checkpoints(error, self.wanted.source.table) from error

    def _by_partitions(self, history: IcebergSource, plan: CapturePlan) -> Planned:
        from airflow_provider_ips.iceberg.spans import ColumnSpans
        from airflow_provider_ips.iceberg.units import column_to_cut_by, units_of

        narrowed = self._narrowed(history, plan)
        column = column_to_cut_by(history, self.wanted.asked.partitions, self.wanted.chunk_by)
        field_id = ColumnSpans(history.metadata, column).field_id
        units = units_of(history, narrowed, column)
        groups = self._grouped(units)
        as_of = plan.to_inclusive.snapshot_id if self.wanted.as_of_plan else None
        asked = replace(self.wanted.asked, dry_run=False)
        chunks = [
            replace(
                self._chunk(place, group, of=len(groups), asked=asked),
                values=Values.of(_held(group), column=column, field_id=field_id),
                as_of=None if as_of is None else str(as_of),
            )
            for place, group in enumerate(groups)
        ]
        spans = Values.of(_held(units), column=column, field_id=field_id).comparable
        planned = self._planned(plan, units, chunks, warnings=self._too_large(groups))
        return replace(planned, column=column, spans=spans)

    def _narrowed(self, history: IcebergSource, plan: CapturePlan) -> CapturePlan:
        """Ask back if the filter passes over all that there is, or over nothing."""
        from airflow_provider_ips.iceberg.narrowing import (
            narrow,
            passes_over_nothing,
            selects_everything,
            selects_nothing,
        )

        condition = self.wanted.asked.partitions
        if condition is None:
            return plan
        narrowed = narrow(history, plan, condition)
        if plan.is_empty:
            return narrowed
        if narrowed.is_empty:
            raise selects_nothing(history, plan, condition)
        is_confirmed = self.wanted.asked.everything or self.wanted.asked.run is not Run.PARTITIONS
        if not is_confirmed and passes_over_nothing(plan, narrowed):
            raise selects_everything(history, narrowed, condition)
        return narrowed

    def _by_snapshots(self, history: IcebergSource, plan: CapturePlan) -> Planned:
        """Which values a range reaches is not known before it is opened, so it may reach what any other one does."""
        narrowed = self._narrowed(history, plan)
        end = plan.to_inclusive.snapshot_id
        units = units_of_range(plan.verdicts, None if end is None else str(end))
        groups = self._grouped(units)
        since = plan.from_exclusive.snapshot_id if plan.from_exclusive is not None else None
        ends: list[str | None] = [None if since is None else str(since), *(group[-1].end for group in groups)]
        chunks = [
            self._chunk(place, group, of=len(groups), asked=self._part(ends[place], group[-1].end))
            for place, group in enumerate(groups)
        ]
        out_of_order = (_OUT_OF_ORDER,) if self.wanted.settings.captures_changes and len(groups) > 1 else ()
        planned = self._planned(plan, units, chunks, warnings=(*out_of_order, *self._too_large(groups)))
        return self._looked_into(history, narrowed, planned) if self.wanted.asked.dry_run else planned

    def _looked_into(self, history: IcebergSource, narrowed: CapturePlan, planned: Planned) -> Planned:
        """Open the range for a dry run: which files the filter leaves, and which values their rows are of."""
        from airflow_provider_ips.iceberg.units import column_to_cut_by, units_of
        from airflow_provider_ips.operators._backfill_stages import Reached

        column = column_to_cut_by(history, self.wanted.asked.partitions, self.wanted.chunk_by)
        units = units_of(history, narrowed, column)
        looked_into = replace(planned, units=tuple(units))
        if column is None or self.wanted.settings.captures_changes:
            return looked_into  # what deleted rows were of is not in the files that were added
        field = history.metadata.schema().find_field(column)
        values = Values.of(_held(units), column=column, field_id=field.field_id)
        return replace(looked_into, reached=Reached(column=column, column_type=str(field.field_type), values=values))

    def _part(self, since: str | None, until: str | None) -> Asked:
        """Adjoin: each begins behind the snapshot that the one before it ends with."""
        asked = self.wanted.asked
        common = {"partitions": asked.partitions, "until_snapshot": until}
        if since is None:  # before the table's first snapshot, which only a moment can name
            return Asked(run=Run.TIME, since_time=asked.since_time, **common)  # type: ignore[arg-type]
        return Asked(run=Run.SNAPSHOT, since_snapshot=since, **common)  # type: ignore[arg-type]

    def _planned(
        self, plan: CapturePlan, units: Sequence[Unit], chunks: Sequence[Chunk], *, warnings: Iterable[str]
    ) -> Planned:
        return Planned(
            wanted=self.wanted,
            planned_at=plan.to_inclusive,
            from_exclusive=plan.from_exclusive,
            column=None,
            units=tuple(units),
            chunks=tuple(chunks),
            spans=None,
            was_pinned=False,
            warnings=(*plan.warnings, *warnings),
        )

    def _grouped(self, units: Sequence[Unit]) -> list[tuple[Unit, ...]]:
        groups = grouped(units, self.wanted.bounds)
        if len(groups) > self.wanted.max_chunks:
            raise InputError(
                f"the backfill has {len(groups):,} chunks, and Airflow maps {self.wanted.max_chunks:,} at most",
                consequence="It would fail when the chunks are handed over",
                remedy="let chunks be larger (max_partitions, max_snapshots, max_files, max_bytes), ask for less at a "
                "time, or raise [core] max_map_length",
            )
        return groups

    def _too_large(self, groups: Sequence[tuple[Unit, ...]]) -> Iterator[str]:
        """What a bound on files or bytes promised, and one value or snapshot alone exceeds."""
        for number, group in enumerate(groups, start=1):
            if exceeded(group, self.wanted.bounds):
                amount = volume(group[0].volume)
                yield (
                    f"chunk {number} ({label_of(group)}) has more than a bound allows: {amount}. What holds one value, "
                    "or one snapshot, is never split"
                )

    def _chunk(self, place: int, units: Sequence[Unit], *, of: int, asked: Asked) -> Chunk:
        return Chunk(
            number=place + 1,
            of=of,
            label=label_of(units),
            source=self.wanted.source.table,
            branch=self.wanted.source.branch,
            asked=asked,
            partitions=sum(unit.partitions for unit in units),
            files=total(unit.files for unit in units),
            records=total(unit.records for unit in units),
            size_bytes=total(unit.size_bytes for unit in units),
            claims=self.wanted.claim_keys,
        )

    def _stages(self, reached: Reached | None) -> tuple[Stage, ...]:
        from airflow_provider_ips.operators._backfill_stages import foresee

        return tuple(foresee(self.catalog, table, self.wanted.asked, reached) for table in self.wanted.stages)


_OUT_OF_ORDER = (
    "the range is captured with its changes, and instances of a task group wait for nobody: rows of an earlier chunk "
    "may be written over those of a later one. Right for jobs that compute the captured keys anew; else let them run "
    "in turn (max_active_tis_per_dagrun=1 on every task of the group)"
)


_PLANNED_ANEW = (
    "this run has planned the same as of snapshot {as_of}, which is gone: planned anew, of the table as it is now. "
    "Chunks that are done need not be the same ones"
)


def _held(units: Iterable[Unit]) -> list[Held]:
    return [unit.held for unit in units if unit.held is not None]


def _unplannable(history: IcebergSource, as_of: str) -> GapError:
    return GapError(
        f"snapshot {as_of} of {history.name} is gone, as of which this run has planned its chunks",
        consequence="The same chunks cannot be made again, and others would not fit those that are done",
        remedy="clear chunks that failed by themselves, from their capture on; or trigger a new run, and ask it for a "
        "range that is left, or for partitions",
    )


def _apart_from_checkpoints(error: SourceError, table: str) -> SourceError:
    """A usual capture may have to move its checkpoint. A backfill has none, and must not have another one's moved."""
    return type(error)(
        error.problem,
        consequence="Such a range would leave out, or repeat, rows that it changed. Nothing was planned",
        remedy="ask for partitions, whose rows are live, or for a range beside it; or let plan and captures take the "
        f'changes: SourceTable("{table}", data_operations=("append", "overwrite", "delete")) in both',
    )
