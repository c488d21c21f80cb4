"""The plan of a backfill: its chunks, and what later stages hold now, as the XCom ``backfill`` and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from airflow_provider_ips.core.backfill.chunks import Chunk, Unit
from airflow_provider_ips.core.backfill.column_values import ChunkValues
from airflow_provider_ips.core.errors import InputError, SourceError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.json_fields import JsonObject, Stored, Words
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import UNKNOWN_VOLUME, Volume
from airflow_provider_ips.core.requests.detached import plan_detached
from airflow_provider_ips.core.requests.request import PREFIX, RunKind, RunRequest
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from airflow_provider_ips.runs.backfill.request import BackfillRequest
from airflow_provider_ips.runs.reports import fact, volume

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(JsonObject):
    """A table of a later stage: what the filter, or the values of a range, select there, or why that is unknown."""

    table: str
    partitions: int | None = None
    volume: Annotated[Volume, Stored(inline=True)] = UNKNOWN_VOLUME
    unknown: Words = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeValues:
    """Which values of a partition column the rows of a range of snapshots have."""

    column: str
    column_type: str
    values: ChunkValues


def preview_stage(catalog: Catalog, table: str, request: RunRequest, range_values: RangeValues | None = None) -> Stage:
    """Count what a request selects of a table as it is now, if it has the same columns.

    For a range without a filter, count the partitions that may hold the values of the range's rows.
    """
    try:
        if request.partitions is not None or request.kind is RunKind.FULL:
            return _counted(table, _selected(catalog, table, request.partitions))
        if range_values is not None:
            return _counted(table, _with_values(catalog, table, range_values))
    except (InputError, SourceError) as error:
        return Stage(table=table, unknown=error.problem)
    return Stage(table=table, unknown="a range without a filter does not say which partitions it will reach")


def _selected(catalog: Catalog, table: str, condition: str | None) -> list[Unit]:
    from airflow_provider_ips.iceberg.partitions.backfill_units import units_of
    from airflow_provider_ips.iceberg.partitions.narrowing import narrow

    source, plan = _live_rows(catalog, table)
    return units_of(source, plan if condition is None else narrow(source, plan, condition), None)


def _with_values(catalog: Catalog, table: str, wanted: RangeValues) -> list[Unit]:
    from airflow_provider_ips.iceberg.partitions.backfill_units import units_of

    source, plan = _live_rows(catalog, table)
    column = next((field for field in source.metadata.schema().fields if field.name == wanted.column), None)
    is_same = column is not None and str(column.field_type) == wanted.column_type
    units = units_of(source, plan, wanted.column if is_same else None)
    if any(unit.values is not None and unit.values.is_unknown for unit in units):
        raise InputError(
            f"{table} is not partitioned by {wanted.column}, whose values are what is known of the range's rows",
            consequence="It is not known which of its partitions they will reach",
            remedy="request partitions",
        )
    return [unit for unit in units if unit.values is not None and wanted.values.contains(unit.values) is not False]


def _live_rows(catalog: Catalog, table: str) -> tuple[IcebergSource, CapturePlan]:
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source

    source = open_source(catalog, Source.parse(table))
    return source, plan_detached(source, RunRequest(kind=RunKind.FULL), CaptureSettings())


def _counted(table: str, units: Sequence[Unit]) -> Stage:
    return Stage(
        table=table,
        partitions=sum(unit.partitions for unit in units),
        volume=Volume.total(unit.volume for unit in units),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """The chunks, what they were cut from, and what later stages hold."""

    request: BackfillRequest
    planned_at: Position
    """The head of the source by which it was planned."""

    from_exclusive: Position | None
    column: str | None
    """The column by whose values it is cut; None for a range of snapshots."""

    units: tuple[Unit, ...]
    """All that will be captured. Of a range these are whole snapshots, unless it is a dry run, which counts files."""

    chunks: tuple[Chunk, ...]
    spans: tuple[tuple[Any, Any], ...] | None
    was_planned_before: bool
    warnings: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    range_values: RangeValues | None = None
    """Of a dry run of a range: which values its rows have, where that is known."""

    @property
    def partitions(self) -> int:
        """Count the partitions; none for a range of snapshots."""
        return sum(unit.partitions for unit in self.units)

    @property
    def total(self) -> Volume:
        return Volume.total(unit.volume for unit in self.units)

    def to_json(self) -> dict[str, Any]:
        """Write it as the XCom ``backfill``. It stays small: a chunk is its request and its amounts."""
        return {
            "schema_version": 1,
            "asked": self.request.run_request.to_json(),
            "dry_run": self.request.run_request.dry_run,
            **self.request.table.source.to_json(),
            "planned_at": self.planned_at.to_json(),
            "from": None if self.from_exclusive is None else self.from_exclusive.to_json(),
            "chunk_by": self.column,
            "targets": list(self.request.targets),
            **self.total.to_json(),
            "partitions": self.partitions,
            "chunks": [_chunk_summary(chunk) for chunk in self.chunks],
            "stages": [stage.to_json() for stage in self.stages],
            "warnings": list(self.warnings),
        }


def _chunk_summary(chunk: Chunk) -> dict[str, Any]:
    return {
        "label": chunk.label,
        "partitions": chunk.partitions,
        **chunk.volume.to_json(),
        "asked": {name: value for name, value in chunk.request.to_json().items() if name != PREFIX},
    }


def plan_lines(plan: BackfillPlan) -> Iterator[str]:
    """Say what is planned in all, then for each stage, then for each chunk, folded, because there may be hundreds."""
    label = plan.request.table.source.label
    yield f"Backfill of {label}: {plan.request.run_request}"
    if plan.from_exclusive is not None:
        yield fact("after", plan.from_exclusive)
    yield fact("up to", plan.planned_at)
    if plan.was_planned_before:
        yield fact("again", "as this run has planned it before")
    if plan.column is not None:
        yield fact("cut by", plan.column)
    yield fact("writes", ", ".join(plan.request.targets))
    yield f"Stage 1, {label}: {_partitions(plan.partitions)}{volume(plan.total)}"
    for number, stage in enumerate(plan.stages, start=2):
        yield f"Stage {number}, {stage.table}: {stage_line(stage)}"
    if plan.stages:
        yield fact("note", "later stages capture what changed there: less than this, or more if rows are missing")
    yield from _chunk_lines(plan)


def stage_line(stage: Stage) -> str:
    """Say what a later stage holds now. That is not a limit: rows that it lacks will be new there."""
    if stage.unknown:
        return f"unknown, because {stage.unknown}"
    if not stage.volume.files:
        return "holds none of these partitions now: all rows will be new"
    return f"holds now {_partitions(stage.partitions or 0)}{volume(stage.volume)}"


def next_step_line(plan: BackfillPlan) -> str:
    """Say what happens next."""
    if plan.request.run_request.dry_run:
        return "Next: nothing was made or moved. Trigger the DAG without the dry run to do this."
    if not plan.chunks:
        return "Next: nothing to do."
    chunks = f"{len(plan.chunks)} chunk{'' if len(plan.chunks) == 1 else 's'}"
    return f"Next: the downstream task group takes {chunks}, one for each instance. The checkpoint stays where it is."


def _chunk_lines(plan: BackfillPlan) -> Iterator[str]:
    if not plan.chunks:
        return
    yield f"::group::Chunks: {len(plan.chunks)}"
    for chunk in plan.chunks:
        count = _partitions(chunk.partitions) if chunk.partitions > 1 else ""
        yield f"{chunk.number}: {chunk.label} ({count}{volume(chunk.volume)})"
    yield "::endgroup::"


def _partitions(count: int) -> str:
    """Write a number of partitions; nothing for a range of snapshots, which has none."""
    return f"{count:,} partition{'' if count == 1 else 's'}, " if count else ""
