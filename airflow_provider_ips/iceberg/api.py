"""Capture without Airflow: for notebooks, other orchestrators and benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import GapError, InputError
from airflow_provider_ips.core.history import position_of
from airflow_provider_ips.core.plan import plan_capture, replan
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.roots import remembered_position
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.core.traces import traced_position
from airflow_provider_ips.iceberg.collector import paused_collector
from airflow_provider_ips.iceberg.icdc import prepare_icdc
from airflow_provider_ips.iceberg.places import check_icdc_namespace
from airflow_provider_ips.iceberg.source import open_source, position_at

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.record import SourceRecord
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.iceberg.source import IcebergSource


@paused_collector()
def capture(  # noqa: PLR0913 - what a capture may be asked for, by keyword
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
    """Make an ICDC table of what a table gained, and return the record of it.

    With all three operations, a second table, ``<into>_before``, holds what the changed and removed rows were before.

    :param catalog: a PyIceberg catalog
    :param table: the source, as ``namespace.table``
    :param into: the ICDC table to make, as ``namespace.table``; None of the source's files is copied or opened
    :param since: the snapshot after which to capture; or the ``to_inclusive`` of an earlier record, which says where it
        stood also if the catalog does not show the snapshot any more; None for all live files
    :param until: the last snapshot to capture; None for the branch's head
    :param partitions: a condition on partition columns such as ``day >= '2026-10-01'``: only these, and exactly these
    :param dry_run: make no table, and return the record that would have been
    :param settings: any of :class:`~airflow_provider_ips.core.settings.CaptureSettings`
    """
    wanted = CaptureSettings(**settings)
    source = open_source(catalog, table, branch)
    start = since if isinstance(since, Position) else _start(source, _snapshot_id("since", since))
    plan = _plan(source, start, _snapshot_id("until", until), wanted)
    if partitions is not None:
        plan = _narrowed(source, plan, partitions)
    makes_table = not (dry_run or plan.is_empty)
    if makes_table:
        check_icdc_namespace(catalog, into.rpartition(".")[0])
    ready = prepare_icdc(
        catalog,
        source,
        plan,
        table=SourceTable(table, branch=branch),
        settings=wanted,
        icdc_table=into if makes_table else None,
        before_table=f"{into}_before" if makes_table and wanted.captures_changes else None,
        identity={"into": into, **({} if partitions is None else {"partitions": partitions})},
        location=location,
        is_survey=dry_run,
    )
    return ready.survey() if dry_run else ready.publish()


def _narrowed(source: IcebergSource, plan: CapturePlan, condition: str) -> CapturePlan:
    """Ask back if all that there was is passed over."""
    from airflow_provider_ips.iceberg.narrowing import narrow, selects_nothing

    narrowed = narrow(source, plan, condition)
    if narrowed.is_empty and not plan.is_empty:
        raise selects_nothing(source, plan, condition)
    return narrowed


def _start(source: IcebergSource, since: int | None) -> Position | None:
    """Find a snapshot in the lineage, or else by what is remembered of it: then ``on_gap`` decides, or says how."""
    if since is None:
        return None
    try:
        return position_at(source, snapshot_id=since)
    except GapError:
        there = source.snapshot(since)
        if there is not None:
            return position_of(source, there)
        known = remembered_position(source, since) or traced_position(source, since)
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
            consequence="Both say where the range ends, and the limit would be ignored",
            remedy="leave one of them out",
        )
    end = position_at(source, snapshot_id=until)
    kind = Kind.FULL if start is None else Kind.RANGE
    return replan(source, kind=kind, from_exclusive=start, to_inclusive=end, settings=settings)


def _snapshot_id(name: str, value: int | str | None) -> int | None:
    """Snapshot ids come as numbers from PyIceberg and as strings from XComs."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    raise InputError(f"{name}={value!r} is no snapshot id", remedy="pass the id as a number or a string of digits")
