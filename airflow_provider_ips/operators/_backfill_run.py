"""One execution of a plan: what the source has of what is asked for, cut into chunks, and claimed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.asked import PREFIX, Asked, Run
from airflow_provider_ips.core.backfill import Chunk, Unit, grouped, hull_of, label_of, total, units_of_range
from airflow_provider_ips.core.claims import Claim, Extent, claim_key
from airflow_provider_ips.core.detached import plan_detached
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import digest
from airflow_provider_ips.operators import _claims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk.types import RuntimeTaskInstanceProtocol
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.backfill import Bounds
    from airflow_provider_ips.core.positions import Position, RunIdentity
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.iceberg import IcebergSource
    from airflow_provider_ips.operators._backfill_stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be planned, checked."""

    run: RunIdentity
    task_id: str
    source: SourceTable
    settings: CaptureSettings
    asked: Asked
    chunk_by: str | None
    bounds: Bounds
    as_of_plan: bool
    targets: tuple[str, ...]
    stages: tuple[str, ...]
    max_chunks: int

    @property
    def digest(self) -> str:
        """Everything that decides what the chunks are, but for the source's content: a retry asks for the same."""
        asked = {name: value for name, value in self.asked.to_json().items() if name != "dry_run"}
        said = (self.source.table, self.source.branch, repr(sorted(asked.items())), repr(self.chunk_by))
        return digest(*said, repr(self.bounds), repr(self.settings), repr(self.as_of_plan))

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """Where it says what it is at work on."""
        return tuple(claim_key(target, self.run, self.task_id) for target in self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The chunks, what they were cut from, and what lies further down."""

    wanted: Wanted
    planned_at: Position
    """Where the source stood."""

    from_exclusive: Position | None
    column: str | None
    units: tuple[Unit, ...]
    """All that will be captured, to the file; of a range these are its snapshots, whole, unless it is a dry run."""

    chunks: tuple[Chunk, ...]
    spans: tuple[tuple[Any, Any], ...] | None
    was_pinned: bool
    warnings: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The XCom ``backfill``: small, for a chunk is told by its ends and amounts."""
        source = self.wanted.source
        return {
            "schema_version": 1,
            "asked": self.wanted.asked.to_json(),
            "dry_run": self.wanted.asked.dry_run,
            "source": source.table,
            "branch": source.branch,
            "planned_at": self.planned_at.to_json(),
            "from": None if self.from_exclusive is None else self.from_exclusive.to_json(),
            "chunk_by": self.column,
            "targets": list(self.wanted.targets),
            "files": total(unit.files for unit in self.units),
            "records": total(unit.records for unit in self.units),
            "bytes": total(unit.size_bytes for unit in self.units),
            "partitions": sum(len(unit.partitions) for unit in self.units),
            "chunks": [_told(chunk) for chunk in self.chunks],
            "stages": [stage.to_json() for stage in self.stages],
            "warnings": list(self.warnings),
        }


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
        pinned = self._pinned(history)
        plan = plan_detached(history, _uncut(self.wanted.asked), self.wanted.settings, pinned=pinned)
        of_partitions = self.wanted.asked.run in (Run.FULL, Run.PARTITIONS)
        planned = self._by_partitions(history, plan) if of_partitions else self._by_snapshots(history, plan)
        planned = replace(planned, was_pinned=pinned is not None)
        return replace(planned, stages=self._stages(planned)) if self.wanted.asked.dry_run else planned

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

    def _pinned(self, history: IcebergSource) -> Position | None:
        """Where the source stood when this run has planned the same before."""
        from airflow_provider_ips.iceberg import position_at

        if self.wanted.asked.dry_run:
            return None
        for key in self.wanted.claim_keys:
            claim = _claims.read_claim(key)
            if claim is not None and claim.asked == self.wanted.digest and claim.as_of is not None:
                return position_at(history, snapshot_id=int(claim.as_of))
        return None

    def _by_partitions(self, history: IcebergSource, plan: CapturePlan) -> Planned:
        from airflow_provider_ips.iceberg.units import column_to_cut_by, units_of

        narrowed = self._narrowed(history, plan)
        column = column_to_cut_by(history, self.wanted.asked.partitions, self.wanted.chunk_by)
        units = units_of(history, narrowed, column)
        groups = self._grouped(units)
        as_of = plan.to_inclusive.snapshot_id if self.wanted.as_of_plan else None
        chunks = [
            self._chunk(
                place,
                group,
                of=len(groups),
                asked=replace(self.wanted.asked, dry_run=False),
                as_of=None if as_of is None else str(as_of),
                hull=_hull(column, group),
            )
            for place, group in enumerate(groups)
        ]
        hulls = [hull_of(group) for group in groups]
        spans = None if any(hull is None for hull in hulls) else tuple(hull for hull in hulls if hull is not None)
        return self._planned(plan, units, chunks, column=column, spans=spans)

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
        from airflow_provider_ips.iceberg.units import units_of

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
        after = plan.from_exclusive.sequence_number if plan.from_exclusive is not None else 0
        spans = ((after + 1, plan.to_inclusive.sequence_number),)
        counted = units_of(history, narrowed, None) if self.wanted.asked.dry_run else units
        warnings = (_OUT_OF_ORDER,) if self.wanted.settings.captures_changes and len(groups) > 1 else ()
        return self._planned(plan, counted, chunks, column=None, spans=spans, warnings=warnings)

    def _part(self, since: str | None, until: str | None) -> Asked:
        """Adjoin: each begins behind the snapshot that the one before it ends with."""
        asked = self.wanted.asked
        common = {"partitions": asked.partitions, "until_snapshot": until}
        if since is None:  # before the table's first snapshot, which only a moment can name
            return Asked(run=Run.TIME, since_time=asked.since_time, **common)  # type: ignore[arg-type]
        return Asked(run=Run.SNAPSHOT, since_snapshot=since, **common)  # type: ignore[arg-type]

    def _planned(
        self,
        plan: CapturePlan,
        units: Sequence[Unit],
        chunks: Sequence[Chunk],
        *,
        column: str | None,
        spans: tuple[tuple[Any, Any], ...] | None,
        warnings: tuple[str, ...] = (),
    ) -> Planned:
        return Planned(
            wanted=self.wanted,
            planned_at=plan.to_inclusive,
            from_exclusive=plan.from_exclusive,
            column=column,
            units=tuple(units),
            chunks=tuple(chunks),
            spans=spans,
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

    def _chunk(
        self,
        place: int,
        units: Sequence[Unit],
        *,
        of: int,
        asked: Asked,
        as_of: str | None = None,
        hull: tuple[str, Any, Any] | None = None,
    ) -> Chunk:
        return Chunk(
            number=place + 1,
            of=of,
            label=label_of(units),
            source=self.wanted.source.table,
            branch=self.wanted.source.branch,
            asked=asked,
            partitions=frozenset[str]().union(*(unit.partitions for unit in units)),
            as_of=as_of,
            hull=hull,
            files=total(unit.files for unit in units),
            records=total(unit.records for unit in units),
            size_bytes=total(unit.size_bytes for unit in units),
            claims=self.wanted.claim_keys,
        )

    def _stages(self, planned: Planned) -> tuple[Stage, ...]:
        from airflow_provider_ips.operators._backfill_stages import foresee

        asked = planned.wanted.asked
        return tuple(foresee(self.catalog, table, asked) for table in self.wanted.stages)


_OUT_OF_ORDER = (
    "the range is captured with its changes, and instances of a task group wait for nobody: rows of an earlier chunk "
    "may be written over those of a later one. Right for jobs that compute the captured keys anew; else let them run "
    "in turn (max_active_tis_per_dagrun=1 on every task of the group)"
)


def _uncut(asked: Asked) -> Asked:
    return replace(asked, dry_run=False)


def _hull(column: str | None, units: Sequence[Unit]) -> tuple[str, Any, Any] | None:
    hull = hull_of(units)
    return None if column is None or hull is None else (column, *hull)


def _told(chunk: Chunk) -> dict[str, Any]:
    return {
        "label": chunk.label,
        "partitions": len(chunk.partitions),
        "files": chunk.files,
        "records": chunk.records,
        "bytes": chunk.size_bytes,
        "asked": {name: value for name, value in chunk.asked.to_json().items() if name != PREFIX},
    }
