"""The command replay: captures the range of a past commit again, detached from the checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips import config
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, SourceRange
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import icdc_table_name
from airflow_provider_ips.core.planning.plan import replan
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.requests.detached import detached_identity, replay_capture_id
from airflow_provider_ips.core.requests.request import RunRequest
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.icdc.tables import PreparedIcdc
from airflow_provider_ips.maintenance.console import Console, ConsumerOptions, Row, open_store, read_existing
from airflow_provider_ips.maintenance.manual_changes import find_commit
from airflow_provider_ips.runs.environment import open_catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(ConsumerOptions):
    """A committed capture, by its id or its run, and how to capture its range again."""

    capture_id: str | None = None
    run_id: str | None = None
    initial: str | None = None
    on_other_operation: str = "fail"
    namespace: str | None = None
    location: str | None = None
    dry_run: bool = True


def replay(console: Console, options: ReplayOptions) -> None:
    """Create ICDC tables of a committed range, and print their names. No checkpoint is written."""
    checkpoint = read_existing(open_store(console, options), options.consumer)
    wanted = find_commit(checkpoint, capture_id=options.capture_id, run_id=options.run_id)
    found = next((c for c in checkpoint.history if c.capture_id == wanted), None)
    if found is None or not found.wrote:
        raise InputError(
            f"consumer {options.consumer!r} remembers no capture {wanted!r} that had something to process",
            consequence="There is nothing to replay",
            remedy=f"choose one from `airflow ips history --consumer {options.consumer}`",
        )
    catalog = open_catalog(options.conn_id)
    ready = prepare(catalog, found, options)
    made = [(taken, each.preview() if options.dry_run else each.publish()) for taken, each in ready]
    console.show([_row(taken, record) for taken, record in made])
    if options.dry_run:
        console.say("Dry run: nothing was written.")
        return
    console.say(
        f"Detached from the checkpoint of {options.consumer}, which does not move. `airflow ips gc` drops the tables."
    )


def prepare(
    catalog: Catalog, capture: CommittedCapture, options: ReplayOptions
) -> list[tuple[SourceRange, PreparedIcdc]]:
    """Plan every source's range again. Whatever can be refused is refused before a table is created."""
    from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace

    namespace = options.namespace or config.ICDC_NAMESPACE.read()
    if not options.dry_run:
        check_icdc_namespace(catalog, namespace)
    settings = (options.on_other_operation, options.initial or "")
    replay_id = replay_capture_id(options.consumer, capture.capture_id, *settings)
    made_by = f"replay of {capture.capture_id}"
    identity = detached_identity(replay_id, options.consumer, made_by=made_by, request=RunRequest())
    return [(taken, _prepare_one(catalog, taken, options, namespace, identity)) for taken in capture.ranges]


def _prepare_one(
    catalog: Catalog, taken: SourceRange, options: ReplayOptions, namespace: str, identity: Mapping[str, str]
) -> PreparedIcdc:
    from airflow_provider_ips.iceberg.icdc.tables import prepare_icdc
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source

    if taken.kind is Kind.RANGE and taken.from_exclusive is None and options.initial is None:
        raise InputError(
            f"the first capture of {taken.source.label!r} began where `initial` said, which checkpoints do not keep",
            consequence="The start of its range is unknown",
            remedy="give the same value by --initial",
        )
    has_changes = taken.before_table is not None
    # The snapshots of the range are judged as the capture judged them.
    settings = (
        CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow", initial=options.initial or "full")
        if has_changes
        else CaptureSettings(on_other_operation=options.on_other_operation, initial=options.initial or "full")
    )
    source = open_source(catalog, taken.source)
    table, before = (
        f"{namespace}.{icdc_table_name(taken.source, identity['capture-id'], role)}" for role in ("", "before")
    )
    return prepare_icdc(
        catalog,
        source,
        replan(source, taken, settings),
        table=SourceTable(taken.source.table, branch=taken.source.branch),
        settings=settings,
        icdc_table=None if options.dry_run else table,
        before_table=before if has_changes and not options.dry_run else None,
        identity=identity,
        location=options.location,
        for_preview=options.dry_run,
    )


def _row(taken: SourceRange, made: SourceRecord) -> Row:
    start = taken.from_exclusive
    return {
        **taken.source.to_json(),
        "icdc_table": made.icdc_table,
        "before_table": made.before_table,
        "files": made.captured.files,
        "kind": taken.kind.value,
        "from_snapshot": None if start is None else str(start.snapshot_id),
        "to_snapshot": str(taken.to_inclusive.snapshot_id),
    }
