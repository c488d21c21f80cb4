"""What every capture of a run has in common, pending or detached: the request, its sources, and how tables are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.asked import Asked
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.record import CaptureRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.backfill import Chunk
    from airflow_provider_ips.core.checkpoint import SourceRange
    from airflow_provider_ips.core.positions import Position, RunIdentity
    from airflow_provider_ips.core.record import SourceRecord
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.iceberg import IcebergSource, PreparedIcdc


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be captured, for whom, and how; checked already."""

    consumer: str
    run: RunIdentity
    sources: tuple[tuple[SourceTable, CaptureSettings], ...]
    mode: str
    icdc_namespace: str
    icdc_location: str | None
    skip_if_empty: bool
    history_length: int
    requested: Mapping[str, Any]
    asked: Asked = field(default_factory=Asked)
    chunk: Chunk | None = None
    """The part of a backfill that this is."""

    takes_anew: int | None = None
    """Set where a run that is cleared shall take the rows of now: how often it has been cleared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. ``settled`` says that the checkpoint has moved already, for there was nothing to process."""

    record: CaptureRecord
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One source, pinned: its history is loaded once, so the end of its range cannot move under the capture."""

    table: SourceTable
    settings: CaptureSettings
    history: IcebergSource
    plan: CapturePlan
    committed: Position | None


def prepare_all(
    request: Request,
    catalog: Catalog,
    sources: Sequence[Opened],
    ranges: Sequence[SourceRange],
    *,
    identity: Mapping[str, str],
) -> list[PreparedIcdc]:
    """Let everything that can be refused be refused before the checkpoint or a table is written."""
    from airflow_provider_ips.iceberg import check_icdc_namespace, prepare_icdc

    for namespace in {r.icdc_table.rpartition(".")[0] for r in ranges if r.icdc_table is not None}:
        check_icdc_namespace(catalog, namespace)
    prepared = [
        prepare_icdc(
            catalog,
            source.history,
            source.plan,
            table=source.table,
            settings=source.settings,
            icdc_table=taken.icdc_table,
            before_table=taken.before_table,
            identity=identity,
            location=request.icdc_location,
            is_survey=request.asked.dry_run,
        )
        for source, taken in zip(sources, ranges, strict=True)
    ]
    for source, ready in zip(sources, prepared, strict=True):
        _refuse_unknown_ranges(source, ready)
    return prepared


def record_of(
    request: Request, sources: Sequence[SourceRecord], capture_id: str, *, replayed: bool = False, settled: bool = False
) -> CaptureRecord:
    """Tell what was captured, and what was asked for."""
    return CaptureRecord(
        capture_id=capture_id,
        consumer=request.consumer,
        mode=request.mode,
        sources=tuple(sources),
        requested={
            **request.requested,
            "asked": request.asked.to_json(),
            **({} if request.chunk is None else {"chunk": _told_of(request.chunk)}),
            "detached": request.asked.is_detached,
            "replayed": replayed,
            "settled": settled,
        },
    )


def _told_of(chunk: Chunk) -> dict[str, Any]:
    return {"number": chunk.number, "of": chunk.of, "label": chunk.label}


def _refuse_unknown_ranges(source: Opened, ready: PreparedIcdc) -> None:
    """A range that was asked for becomes a filter in the job, and a filter that is unknown is no filter."""
    unknown = next((bound for bound in ready.ranges if not bound.known), None)
    if unknown is None or source.plan.is_empty:
        return
    raise InputError(
        f"range column {unknown.column!r} of {source.table.table}: {unknown.reason}",
        consequence="Its lowest and highest captured value are unknown, and a job that filters by a guess loses rows",
        remedy=f"take {unknown.column!r} out of range_columns and read the ICDC table itself, or have the writers "
        f"keep its bounds: write.metadata.metrics.column.{unknown.column}=full",
    )
