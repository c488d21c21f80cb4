"""A capture without Airflow, for notebooks, other orchestrators and benchmarks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.errors import GapError, InputError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.history.snapshots import position_of
from airflow_provider_ips.core.identifiers import CapturedBranch, Source, digest
from airflow_provider_ips.core.lineage.expired_history import position_from_manifests, position_from_old_metadata
from airflow_provider_ips.core.planning.incremental_reads import range_to_read
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture, with_evidence
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable, refuse_for_range
from airflow_provider_ips.iceberg.branches.captures import HeldIcdc, PreparedBranches, check_source
from airflow_provider_ips.iceberg.gc_pause import gc_paused
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from airflow_provider_ips.iceberg.icdc.tables import PreparedIcdc, PreparedRange, prepare_icdc
from airflow_provider_ips.iceberg.partitions.narrowing import narrow, nothing_selected, refuse_moved_rows
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource, open_source, position_at

if TYPE_CHECKING:
    from datetime import timedelta

    from pyiceberg.catalog import Catalog


ICDC: Final = "ICDC"
BRANCH: Final = "BRANCH"
RANGE: Final = "RANGE"
_KINDS: Final = {ICDC: PreparedIcdc, BRANCH: PreparedBranches, RANGE: PreparedRange}


@gc_paused()
def capture(  # noqa: PLR0913 - the options of a capture, by keyword
    catalog: Catalog,
    table: str,
    *,
    into: str | None = None,
    mode: str = "ICDC",
    since: int | str | Position | None = None,
    until: int | str | None = None,
    partitions: str | None = None,
    dry_run: bool = False,
    branch: str = "main",
    location: str | None = None,
    lease: timedelta | None = None,
    hold_source: bool = False,
    **settings: Any,
) -> SourceRecord:
    """Make an ICDC table, or a branch, of what was added to a table, and return its record.

    With all three ``data_operations`` a second one, ``<into>_before``, holds the changed and removed rows as they
    were before.

    :param catalog: a PyIceberg catalog
    :param table: the source, as ``namespace.table``
    :param into: the ICDC table to make, as ``namespace.table``. No data file is copied or opened. In mode ``"BRANCH"``
        it may be left out: the branch is named ``ips_…``, and by ``into`` if several captures of one range are wanted.
        In mode ``"RANGE"`` it has no effect
    :param mode: ``"ICDC"``; or ``"BRANCH"``: the rows are in a branch of the source, which the record names; or
        ``"RANGE"``: nothing is made, and the record has the ``read_options`` by which Spark reads the rows
    :param since: the snapshot after which to capture; or the ``to_inclusive`` of an earlier record, which can be used
        even if that snapshot has expired; None for all live files
    :param until: the last snapshot to capture; None for the head of the branch
    :param partitions: a filter on partition columns, such as ``day >= '2026-10-01'``: exactly its rows are captured
    :param dry_run: make no table, and return the record that it would have
    :param lease: how long a branch holds the files of the source at least, unless it is dropped before; two days
    :param hold_source: have a branch of the source hold the files of the ICDC table. Drop all that the record names
        under ``made``, not only the table
    :param settings: any of :class:`~airflow_provider_ips.core.settings.CaptureSettings`
    """
    wanted = CaptureSettings(**settings)
    if mode == RANGE:
        refuse_for_range(wanted, has_filter=partitions is not None)
    source = open_source(catalog, Source(table, branch))
    start = since if isinstance(since, Position) else _start(source, _snapshot_id("since", since))
    plan = with_evidence(source, _plan(source, start, _snapshot_id("until", until), wanted))
    if partitions is not None:
        refuse_moved_rows(source.name, plan, wanted, partitions)
        plan = _narrowed(source, plan, partitions)
    _refuse_contradictions(mode, into=into, location=location, lease=lease, hold_source=hold_source)
    names = _names(catalog, source, plan, wanted, mode=mode, into=into)
    makes_table = not (dry_run or plan.is_empty)
    if makes_table and mode == ICDC:
        check_icdc_namespace(catalog, names[0].rpartition(".")[0])
    prepared = prepare_icdc(
        catalog,
        source,
        plan,
        table=SourceTable(table, branch=branch),
        settings=wanted,
        icdc_table=names[0] if makes_table else None,
        before_table=names[1] if makes_table and wanted.captures_changes else None,
        identity={"into": names[0], **({} if partitions is None else {"partitions": partitions})},
        location=location,
        for_preview=dry_run,
        as_kind=HeldIcdc if hold_source else _KINDS[mode],
    )
    if isinstance(prepared, PreparedBranches) and lease is not None:
        prepared = replace(prepared, lease=lease)
    return prepared.preview() if dry_run else prepared.publish()


def _refuse_contradictions(
    mode: str, *, into: str | None, location: str | None, lease: timedelta | None, hold_source: bool
) -> None:
    """Refuse options of the one mode in the other."""
    if mode not in _KINDS:
        raise InputError(f"mode={mode!r} is unknown", remedy='use "ICDC", "BRANCH" or "RANGE"')
    if mode == ICDC and (into is None or (lease is not None and not hold_source)):
        raise InputError(
            "a capture in mode ICDC " + ("needs a name" if into is None else "without hold_source has no lease"),
            consequence="It makes a table, which holds no files",
            remedy='give into="namespace.table", and a lease only with hold_source=True; or mode="BRANCH"',
        )
    if mode != ICDC and (location is not None or hold_source or (mode == RANGE and lease is not None)):
        raise InputError(
            f"location={location!r}, lease={lease!r} or hold_source={hold_source} does not fit mode {mode}",
            consequence="A branch is where its source is, and holds its files; a range is there, too, and holds none",
            remedy="leave it out",
        )


def _names(
    catalog: Catalog,
    source: IcebergSource,
    plan: CapturePlan,
    settings: CaptureSettings,
    *,
    mode: str,
    into: str | None,
) -> tuple[str, str]:
    """What is to be made, and what of the rows before they were changed."""
    if mode == ICDC and into is not None:
        return into, f"{into}_before"
    if mode == RANGE:
        return str(range_to_read(source, plan)), ""
    check_source(catalog, source)
    named = into or digest(plan.selection, settings.selection_rules, str(plan.to_inclusive.snapshot_id))
    names = (CapturedBranch.of_capture(Source(source.name, source.branch), named, role) for role in ("", "before"))
    return str(next(names)), str(next(names))


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
