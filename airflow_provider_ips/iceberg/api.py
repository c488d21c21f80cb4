"""A capture without Airflow, for notebooks, other orchestrators and benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import GapError, InputError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.history.snapshots import position_of
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.lineage.expired_history import position_from_manifests, position_from_old_metadata
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture, with_evidence
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.gc_pause import gc_paused
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from airflow_provider_ips.iceberg.icdc.tables import prepare_icdc
from airflow_provider_ips.iceberg.partitions.narrowing import narrow, nothing_selected, refuse_moved_rows
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource, open_source, position_at

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@gc_paused()
def capture(  # noqa: PLR0913 - the options of a capture, by keyword
    catalog: Catalog,
    table: str,
    *,
    into: str,
    since: int | str | Position | None = None,
    until: int | str | None = None,
    partitions: str | None = None,
    dry_run: bool = False,
    branch: str = "main",
    location: str | None = None,
    **settings: Any,
) -> SourceRecord:
    """Make an ICDC table of what was added to a table, and return its record.

    With all three ``data_operations`` a second table, ``<into>_before``, holds the changed and removed rows as they
    were before.

    :param catalog: a PyIceberg catalog
    :param table: the source, as ``namespace.table``
    :param into: the ICDC table to make, as ``namespace.table``. No data file is copied or opened
    :param since: the snapshot after which to capture; or the ``to_inclusive`` of an earlier record, which can be used
        even if that snapshot has expired; None for all live files
    :param until: the last snapshot to capture; None for the head of the branch
    :param partitions: a filter on partition columns, such as ``day >= '2026-10-01'``: exactly its rows are captured
    :param dry_run: make no table, and return the record that it would have
    :param settings: any of :class:`~airflow_provider_ips.core.settings.CaptureSettings`
    """
    wanted = CaptureSettings(**settings)
    source = open_source(catalog, Source(table, branch))
    start = since if isinstance(since, Position) else _start(source, _snapshot_id("since", since))
    plan = with_evidence(source, _plan(source, start, _snapshot_id("until", until), wanted))
    if partitions is not None:
        refuse_moved_rows(source.name, plan, wanted, partitions)
        plan = _narrowed(source, plan, partitions)
    makes_table = not (dry_run or plan.is_empty)
    if makes_table:
        check_icdc_namespace(catalog, into.rpartition(".")[0])
    prepared = prepare_icdc(
        catalog,
        source,
        plan,
        table=SourceTable(table, branch=branch),
        settings=wanted,
        icdc_table=into if makes_table else None,
        before_table=f"{into}_before" if makes_table and wanted.captures_changes else None,
        identity={"into": into, **({} if partitions is None else {"partitions": partitions})},
        location=location,
        for_preview=dry_run,
    )
    return prepared.preview() if dry_run else prepared.publish()


def _narrowed(source: IcebergSource, plan: CapturePlan, condition: str) -> CapturePlan:
    narrowed = narrow(source, plan, condition)
    if narrowed.is_empty and not plan.is_empty:
        raise nothing_selected(source, plan, condition)
    return narrowed


def _start(source: IcebergSource, since: int | None) -> Position | None:
    """The position of a snapshot; of one that has left the lineage what is known of it, for ``on_gap`` to decide."""
    if since is None:
        return None
    try:
        return position_at(source, snapshot_id=since)
    except GapError:
        snapshot = source.snapshot(since)
        if snapshot is not None:
            return position_of(source, snapshot)
        known = position_from_old_metadata(source, since) or position_from_manifests(source, since)
        if known is None:
            raise
        return known


def _plan(source: IcebergSource, start: Position | None, until: int | None, settings: CaptureSettings) -> CapturePlan:
    if until is None:
        return plan_capture(source, committed=start, settings=settings)
    limits = [name for name in ("max_snapshots", "max_files", "max_bytes") if getattr(settings, name) is not None]
    if limits:
        raise InputError(
            f"until={until} and {', '.join(limits)} contradict each other",
            consequence="Each of them says where the range ends, and the limit would be ignored",
            remedy="leave one of them out",
        )
    end = position_at(source, snapshot_id=until)
    kind = Kind.FULL if start is None else Kind.RANGE
    return plan_between(source, kind=kind, from_exclusive=start, to_inclusive=end, settings=settings)


def _snapshot_id(name: str, value: int | str | None) -> int | None:
    """Snapshot ids are numbers in PyIceberg, and strings in XComs."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    raise InputError(f"{name}={value!r} is not a snapshot id", remedy="pass the id as a number or a string of digits")
