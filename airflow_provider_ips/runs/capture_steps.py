"""The steps that every capture takes, in one order, and the three kinds that differ in what they plan and write down.

    open and plan all sources -> prepare all tables -> write the checkpoint, or not -> publish all tables -> record

    kind of capture   plans                             before it publishes
    NewRange          what came since the checkpoint    becomes the pending capture; an empty one is settled
    RepeatedRange     what this run captured before     writes nothing, because the checkpoint has the range already
    DetachedRange     what the run was triggered with     writes nothing, because it is in no checkpoint

The order decides what a crash leaves: whatever can be refused is refused before anything is written, and the checkpoint
has the range before the first ICDC table exists, so that a retry finds it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.checkpoint.entries import PendingCapture, SourceRange
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history.selections import CapturePlan, selection_mark
from airflow_provider_ips.core.identifiers import CapturedBranch, CapturedRange, Source, is_icdc_table
from airflow_provider_ips.core.planning.incremental_reads import range_to_read
from airflow_provider_ips.core.planning.uncommitted import ALL_COMMITTED, UncommittedCaptures
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.results.capture_record import CaptureContext, CaptureRecord, ChunkReference, SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.icdc.tables import PreparedIcdc, PreparedRange
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from airflow_provider_ips.runs.request import BRANCH, RANGE, CaptureRequest

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSource:
    """One source and its plan. The history was read once, so that the end of the range cannot move any more."""

    table: SourceTable
    settings: CaptureSettings
    history: IcebergSource
    plan: CapturePlan
    start: Position | None
    """Where the range starts, as the checkpoint or the record keeps it; None for all rows of the table."""

    uncommitted: UncommittedCaptures = ALL_COMMITTED


class CaptureKind:
    """What the kinds of captures do differently."""

    request: CaptureRequest
    is_replay = False
    """Whether the run has committed this range before."""

    @property
    def capture_id(self) -> str:
        """Name the capture; a retry has the same name, and so the same ICDC tables."""
        raise NotImplementedError

    @property
    def identity(self) -> Mapping[str, str]:
        """Return what the ICDC tables say of themselves, as properties."""
        return {"capture-id": self.capture_id, "consumer": self.request.consumer, "run": str(self.request.run)}

    def plan(self, history: IcebergSource, table: SourceTable, settings: CaptureSettings) -> PlannedSource:
        """Choose the range of one source."""
        raise NotImplementedError

    def check(self, sources: Sequence[PlannedSource]) -> Sequence[PlannedSource]:
        """Refuse what may not be captured, and narrow what is captured in part, once all sources are planned."""
        return sources

    def ranges(self, sources: Sequence[PlannedSource]) -> Sequence[SourceRange]:
        """Return the range of each source, and the names of its tables, which have not been made before."""
        return new_ranges(self.request, sources, self.capture_id)

    def before_publish(self, sources: Sequence[PlannedSource], ranges: Sequence[SourceRange]) -> bool:  # noqa: ARG002
        """Write down what is about to be published. Returns whether the checkpoint has moved past it already."""
        return False


def plan_sources(
    request: CaptureRequest,
    catalog: Catalog,
    kind: CaptureKind,
    saw: Callable[[Sequence[IcebergSource]], None] = lambda _: None,
) -> Sequence[PlannedSource]:
    """Open all sources before any is planned, so that their ranges end close to each other.

    :param saw: gets the histories before they are planned, which may be refused
    """
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source

    histories = [open_source(catalog, table.source) for table, _ in request.sources]
    saw(histories)
    return kind.check(
        [
            kind.plan(history, table, settings)
            for history, (table, settings) in zip(histories, request.sources, strict=True)
        ]
    )


def publish(
    request: CaptureRequest, catalog: Catalog, kind: CaptureKind, sources: Sequence[PlannedSource]
) -> CaptureRecord:
    """Take the steps that follow the plans, and return the record."""
    ranges = kind.ranges(sources)
    prepared = _prepare(request, catalog, kind, sources, ranges)
    if request.run_request.dry_run:
        return record_of(request, [ready.preview() for ready in prepared], kind.capture_id)
    is_settled = kind.before_publish(sources, ranges)
    records = [ready.publish() for ready in prepared]
    return record_of(request, records, kind.capture_id, is_replay=kind.is_replay, is_settled=is_settled)


def pending_capture(
    request: CaptureRequest, capture_id: str, ranges: Sequence[SourceRange], started_at_ms: int
) -> PendingCapture:
    """Name what a task captures, for the checkpoint."""
    return PendingCapture(
        capture_id=capture_id,
        run=request.run,
        task_id=request.task_id,
        started_at_ms=started_at_ms,
        ranges=tuple(ranges),
    )


def rules_of(request: CaptureRequest, source: Source, settings: CaptureSettings, *, is_first: bool) -> str:
    """Write down what chooses the rows of one source. If it is another text at a retry, the retry captures as new.

    :param is_first: the source has no committed position, so that ``initial`` chooses, too
    """
    chosen = {"kind": request.run_request.kind.value, **({"initial": settings.initial} if is_first else {})}
    return f"{source.full_label} {settings.selection_rules} {json.dumps(chosen, sort_keys=True)}"


def new_ranges(request: CaptureRequest, sources: Sequence[PlannedSource], capture_id: str) -> list[SourceRange]:
    """Name the ranges and tables of a capture that has not been made before.

    A source that gained nothing gets a table without rows if another one gained some: a join reads both. A dry run, and
    a run without rows whose downstream tasks are skipped, has no tables.
    """
    gained = any(not source.plan.is_empty for source in sources)
    has_tables = not request.run_request.dry_run and (gained or not request.skip_if_empty)
    return [_new_range(request, source, capture_id, has_tables=has_tables) for source in sources]


def _rules(request: CaptureRequest, source: PlannedSource) -> str:
    return rules_of(request, source.table.source, source.settings, is_first=source.start is None)


def mark(request: CaptureRequest, source: PlannedSource) -> str:
    """Identify what a source's plan selects, by which settings, and how it is read."""
    from airflow_provider_ips.iceberg.icdc.metadata import read_as

    return selection_mark(_rules(request, source), source.plan, read_as(source.history))


def _new_range(request: CaptureRequest, source: PlannedSource, capture_id: str, *, has_tables: bool) -> SourceRange:
    def table_name(role: str) -> str:
        if request.mode == RANGE:
            return str(range_to_read(source.history, source.plan))
        return request.name_of(source.table.source, capture_id, role)

    return SourceRange(
        source=source.table.source,
        kind=source.plan.kind,
        from_exclusive=source.start,
        to_inclusive=source.plan.to_inclusive,
        icdc_table=table_name("") if has_tables else None,
        before_table=table_name("before") if has_tables and source.settings.captures_changes else None,
        attempted=source.uncommitted.first_end,
        selection=mark(request, source),
        held=has_tables and request.holds_source,
    )


def _prepare(
    request: CaptureRequest,
    catalog: Catalog,
    kind: CaptureKind,
    sources: Sequence[PlannedSource],
    ranges: Sequence[SourceRange],
) -> list[PreparedIcdc]:
    from airflow_provider_ips.iceberg.branches.captures import PreparedBranches
    from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
    from airflow_provider_ips.iceberg.icdc.tables import prepare_icdc

    tables = [r.icdc_table for r in ranges if r.icdc_table is not None and is_icdc_table(r.icdc_table)]
    for namespace in {table.rpartition(".")[0] for table in tables}:
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
            identity=kind.identity,
            rules=_rules(request, source),
            location=request.icdc_location,
            for_preview=request.run_request.dry_run,
            as_kind=_kind_of(request, taken),
        )
        for source, taken in zip(sources, ranges, strict=True)
    ]
    if request.lease is not None:
        prepared = [replace(p, lease=request.lease) if isinstance(p, PreparedBranches) else p for p in prepared]
    for source, ready in zip(sources, prepared, strict=True):
        _refuse_unknown_bounds(source, ready)
    return prepared


def _kind_of(request: CaptureRequest, taken: SourceRange) -> type[PreparedIcdc]:
    """What a range becomes. A retry makes what its first attempt did, though the mode may have changed since."""
    from airflow_provider_ips.iceberg.branches.captures import HeldIcdc, PreparedBranches

    name = taken.icdc_table
    is_branch = request.mode == BRANCH if name is None else CapturedBranch.parse(name) is not None
    is_range = request.mode == RANGE if name is None else CapturedRange.parse(name) is not None
    if is_branch or is_range:
        return PreparedBranches if is_branch else PreparedRange
    return HeldIcdc if taken.held else PreparedIcdc


def _refuse_unknown_bounds(source: PlannedSource, ready: PreparedIcdc) -> None:
    """Bounds of range columns become a filter in the job. Without them the job would read too much or too little."""
    unknown = next((bound for bound in ready.ranges if not bound.known), None)
    if unknown is None or source.plan.is_empty:
        return
    raise InputError(
        f"range column {unknown.column!r} of {source.table.table}: {unknown.reason}",
        consequence="Its lowest and highest captured value are unknown, and a job that filters by a guess loses rows",
        remedy=f"take {unknown.column!r} out of range_columns and read the ICDC table itself, or have the writers "
        f"keep its bounds: write.metadata.metrics.column.{unknown.column}=full",
    )


def record_of(
    request: CaptureRequest,
    sources: Sequence[SourceRecord],
    capture_id: str,
    *,
    is_replay: bool = False,
    is_settled: bool = False,
) -> CaptureRecord:
    """Put what was captured beside what was requested."""
    chunk = request.chunk
    return CaptureRecord(
        capture_id=capture_id,
        consumer=request.consumer,
        mode=next((source.mode for source in sources if source.icdc_table is not None), request.mode),
        sources=tuple(sources),
        context=CaptureContext(
            run=request.run,
            iceberg_conn_id=request.iceberg_conn_id,
            engine_catalog=request.engine_catalog,
            request=request.run_request,
            chunk=None if chunk is None else ChunkReference(number=chunk.number, of=chunk.of, label=chunk.label),
            first_runs=request.first_runs,
            target_heads=request.target_heads,
            replayed=is_replay,
            settled=is_settled,
        ),
    )
