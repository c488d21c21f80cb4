"""The verb replay: the range of a past commit once more, detached from the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.asked import Asked
from airflow_provider_ips.core.detached import Detached, replay_capture_id
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.replaying import plan_again
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.maintenance.changing import committed_capture
from airflow_provider_ips.maintenance.desk import existing, open_catalog, open_store

if TYPE_CHECKING:
    from argparse import Namespace

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint import CommittedCapture, SourceRange
    from airflow_provider_ips.core.record import SourceRecord
    from airflow_provider_ips.iceberg import PreparedIcdc
    from airflow_provider_ips.maintenance.desk import Desk, Row

ALL_OPERATIONS = ("append", "overwrite", "delete")


def replay(desk: Desk, args: Namespace) -> None:
    """Make ICDC tables of a committed range, and print their names. No checkpoint is written."""
    from airflow_provider_ips.operators._context import configured_namespace

    checkpoint = existing(open_store(desk, args), args.consumer)
    wanted = committed_capture(checkpoint, args)
    found = next((c for c in checkpoint.history if c.capture_id == wanted), None)
    if found is None or not found.wrote:
        raise InputError(
            f"consumer {args.consumer!r} remembers no capture {wanted!r} that had something to process",
            consequence="There is nothing to replay",
            remedy=f"choose one from `airflow ips history --consumer {args.consumer}`",
        )
    detached = Detached(
        capture_id=replay_capture_id(args.consumer, wanted),
        consumer=args.consumer,
        why=f"replay of {wanted}",
        asked=Asked(),
        namespace=args.namespace or configured_namespace(),
        location=args.location,
    )
    catalog = open_catalog(args)
    ready = prepare(catalog, found, detached, args)
    if args.dry_run:
        desk.show([_planned(taken, each) for taken, each in ready])
        desk.say("Dry run: nothing was written.")
        return
    desk.show([_made(taken, each.publish()) for taken, each in ready])
    desk.say(f"Detached from the checkpoint of {args.consumer}, which stays where it is. `airflow ips gc` drops them.")


def prepare(
    catalog: Catalog, capture: CommittedCapture, detached: Detached, args: Namespace
) -> list[tuple[SourceRange, PreparedIcdc]]:
    """Plan every source's range again; whatever can be refused is refused before a table is made."""
    from airflow_provider_ips.iceberg import check_icdc_namespace

    if not args.dry_run:
        check_icdc_namespace(catalog, detached.namespace)
    return [(taken, _prepare_one(catalog, taken, detached, args)) for taken in capture.ranges]


def _prepare_one(catalog: Catalog, taken: SourceRange, detached: Detached, args: Namespace) -> PreparedIcdc:
    from airflow_provider_ips.iceberg import open_source, prepare_icdc

    if taken.kind is Kind.RANGE and taken.from_exclusive is None and args.initial is None:
        raise InputError(
            f"the first capture of {taken.source!r} began where `initial` said, which no checkpoint keeps",
            consequence="Its range cannot be told",
            remedy="give the same by --initial",
        )
    settings = _settings(taken, args)
    source = open_source(catalog, taken.source, taken.branch)
    has_changes = taken.before_table is not None
    return prepare_icdc(
        catalog,
        source,
        plan_again(source, taken, settings),
        table=SourceTable(taken.source, branch=taken.branch),
        settings=settings,
        icdc_table=None if args.dry_run else detached.table_name(taken.source, taken.branch),
        before_table=detached.table_name(taken.source, taken.branch, "before")
        if has_changes and not args.dry_run
        else None,
        identity=detached.identity,
        location=detached.location,
    )


def _settings(taken: SourceRange, args: Namespace) -> CaptureSettings:
    """The range is given; what remains is how its snapshots are judged."""
    if taken.before_table is not None:
        return CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow", initial=args.initial or "full")
    return CaptureSettings(on_other_operation=args.on_other_operation, initial=args.initial or "full")


def _planned(taken: SourceRange, ready: PreparedIcdc) -> Row:
    return _row(taken, None, None, len(ready.plan.selections) or None)


def _made(taken: SourceRange, record: SourceRecord) -> Row:
    return _row(taken, record.icdc_table, record.before_table, record.captured.files)


def _row(taken: SourceRange, icdc_table: str | None, before_table: str | None, files: int | None) -> Row:
    start = taken.from_exclusive
    return {
        "source": taken.source,
        "branch": taken.branch,
        "icdc_table": icdc_table,
        "before_table": before_table,
        "files": files,
        "kind": taken.kind.value,
        "from_snapshot": None if start is None else str(start.snapshot_id),
        "to_snapshot": str(taken.to_inclusive.snapshot_id),
    }
