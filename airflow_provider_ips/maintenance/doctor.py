"""The command doctor: checks everything that a run depends on, before a run does.

A process on an Airflow server can look up more than a task can, by ``maintenance.server``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ips import compat, config
from airflow_provider_ips.core.advice.checks import (
    Finding,
    Status,
    captures_changes,
    check_expiry,
    check_lineage,
    check_mode,
    check_operations,
    check_readers,
    check_retention,
    check_stages,
    mode_of,
    newest_table,
    why_no_range,
)
from airflow_provider_ips.core.advice.retention import usual_gap_ms
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import SourcePosition
from airflow_provider_ips.core.checkpoint.store import CheckpointStore
from airflow_provider_ips.core.errors import CheckpointError, IpsError
from airflow_provider_ips.core.identifiers import MAIN_BRANCH, Source, TableIdentifier, did_you_mean, variable_key
from airflow_provider_ips.maintenance.console import (
    ConnectionOptions,
    Console,
    Row,
    open_stores,
    open_variable_store,
)
from airflow_provider_ips.maintenance.leases import check_leases
from airflow_provider_ips.maintenance.migration import check_end_and_seeds, check_names, compare_targets
from airflow_provider_ips.maintenance.server import connection_for
from airflow_provider_ips.runs.environment import now_ms, open_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
    from airflow_provider_ips.maintenance.server import Server


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(ConnectionOptions):
    """What to examine: one consumer or all, and the ICDC namespace."""

    consumer: str | None = None
    namespace: str | None = None
    write_probe: bool = False
    migrating: Sequence[str] | None = None
    """The ids of a plain DAG and of the incremental one that follows it: then these are all that is examined."""


def doctor(console: Console, options: DoctorOptions, *, server: Server | None = None) -> int:
    """Print every check with its status, problems first, and return the number of problems.

    :param server: Airflow's stored DAGs and secrets backends; None in a task, which cannot see them.
    """
    if options.migrating:
        findings = list(examine_migration(console, options, server))
    else:
        findings = list(examine(console, options, server))
    order = [Status.PROBLEM, Status.WARNING, Status.UNKNOWN, Status.OK]
    console.show([_row(finding) for finding in sorted(findings, key=lambda f: order.index(f.status))])
    bad = sum(finding.status is Status.PROBLEM for finding in findings)
    console.say(f"{bad} problems, {sum(f.status is Status.WARNING for f in findings)} warnings.")
    return bad


def examine_migration(console: Console, options: DoctorOptions, server: Server | None) -> Iterator[Finding]:
    """Check whether an incremental DAG can take over from a plain one."""
    plain, incremental = options.migrating or ("", "")
    subject = f"{plain} and {incremental}"
    if server is None:
        finding = "a task cannot see stored DAGs and their runs"
        yield Finding("dag", subject, Status.UNKNOWN, finding, "use the command line, on an Airflow server")
        return
    try:
        if unknown := list(check_names(server, plain, incremental)):
            yield from unknown
            return
        consumers = {each: connection_for(each, options.conn_id, server) for each in server.consumers(incremental)}
        stores = {each: open_stores(console, replace(options, conn_id=consumers[each])) for each in consumers}
        connections = sorted(set(consumers.values()) or {options.conn_id})
        yield from check_end_and_seeds(server, stores, plain, incremental)
        yield from compare_targets(server, connections, plain, incremental)
    except IpsError as error:
        yield Finding.of_error("migration", subject, error)


def examine(console: Console, options: DoctorOptions, server: Server | None) -> Iterator[Finding]:
    """Check everything that the runs of one consumer, or of all, depend on."""
    checkpoints: dict[str, Checkpoint] = {}
    stores: Mapping[str, CheckpointStore] = {}
    try:
        stores = open_stores(console, options)
    except IpsError as error:
        problem = Finding.of_error("stores", f"connection {options.conn_id}", error)
        is_in_use = "iceberg" in (config.CHECKPOINT_STORE.read(), compat.DEFAULT_STORE)
        yield problem if is_in_use else replace(problem, status=Status.UNKNOWN)
        stores = open_variable_store(console)
    read = [
        finding for name, store in stores.items() for finding in _read_all(name, store, options.consumer, checkpoints)
    ]
    yield from read
    if options.consumer and stores and not read:
        yield _unknown_consumer(options.consumer, stores)
    for consumer in checkpoints or ([options.consumer] if options.consumer else []):
        yield check_shadows(consumer, server)
    connections = {consumer: connection_for(consumer, options.conn_id, server) for consumer in checkpoints}
    writers = _writers(server, stores, checkpoints) if checkpoints else {}
    for conn_id in sorted(set(connections.values()) or {options.conn_id}):
        try:
            catalog = open_catalog(conn_id)
        except IpsError as error:
            yield Finding.of_error("catalog", f"connection {conn_id}", error)
            continue
        yield from check_namespace(catalog, options)
        for checkpoint in (found for found in checkpoints.values() if connections[found.consumer] == conn_id):
            for entry in checkpoint.positions:
                yield from _check_source(server, catalog, checkpoint, entry, writers)
            yield from check_leases(catalog, checkpoint)


def check_shadows(consumer: str, server: Server | None) -> Finding:
    """Check that the Variable is not set elsewhere too: reads would come from there, and commits have no effect."""
    key = variable_key(consumer)
    name = f"AIRFLOW_VAR_{key.upper()}"
    if name in os.environ:
        finding = f"environment variable {name} shadows Variable {key!r}"
        return Finding("shadows", consumer, Status.PROBLEM, finding, f"unset {name} wherever Airflow runs")
    if server is None:
        return Finding("shadows", consumer, Status.UNKNOWN, "a task cannot see secrets backends")
    if backend := server.secrets_backend_with(key):
        finding = f"secrets backend {backend} shadows Variable {key!r}"
        return Finding("shadows", consumer, Status.PROBLEM, finding, f"remove {key!r} there")
    return Finding("shadows", consumer, Status.OK, f"nothing shadows Variable {key!r}")


def check_namespace(catalog: Catalog, options: DoctorOptions) -> Iterator[Finding]:
    """Check the rights on the ICDC namespace, and that no ICDC table in it could be purged by accident."""
    from airflow_provider_ips.iceberg.icdc.leftovers import find_icdc_tables
    from airflow_provider_ips.iceberg.icdc.namespace import probe_namespace

    namespace = options.namespace or config.ICDC_NAMESPACE.read()
    try:
        if options.write_probe:
            yield Finding("rights", namespace, Status.OK, probe_namespace(catalog, namespace))
        elif catalog.namespace_exists(tuple(namespace.split("."))):
            finding = "it can be read; --write-probe also creates and drops a table in it"
            yield Finding("rights", namespace, Status.UNKNOWN, finding)
        else:
            yield Finding("rights", namespace, Status.UNKNOWN, "it does not exist yet; the first capture creates it")
        tables = find_icdc_tables(catalog, namespace)
    except IpsError as error:
        yield Finding.of_error("rights", namespace, error)
        return
    if unsafe := ", ".join(table.name for table in tables if table.gc_enabled):
        finding = f"{unsafe}: 'gc.enabled' is not false, so DROP … PURGE would delete the source's data files"
        yield Finding("purge", namespace, Status.PROBLEM, finding, "set the table property gc.enabled=false again")
    else:
        yield Finding("purge", namespace, Status.OK, f"engines refuse to purge any of its {len(tables)} ICDC tables")


def _read_all(name: str, store: CheckpointStore, only: str | None, found: dict[str, Checkpoint]) -> Iterator[Finding]:
    try:
        consumers = [only] if only else list(store.consumers())
    except IpsError as error:
        yield Finding.of_error("checkpoint", f"store {name}", error)
        return
    for consumer in consumers:
        try:
            checkpoint = store.read(consumer, even_if_moved=True)
        except CheckpointError as error:
            yield Finding.of_error("checkpoint", f"{consumer} ({name})", error)
            continue
        if checkpoint is not None and checkpoint.moved_to is None:
            if consumer in found:
                remedy = "compare them by `airflow ips show` with --store, and remove the one that is wrong"
                yield Finding("checkpoint", consumer, Status.PROBLEM, "both stores hold a usable checkpoint", remedy)
            found[consumer] = checkpoint
            finding = f"readable, at revision {checkpoint.revision}"
            yield Finding("checkpoint", f"{consumer} ({name})", Status.OK, finding)


def _unknown_consumer(consumer: str, stores: Mapping[str, CheckpointStore]) -> Finding:
    known: set[str] = set()
    for store in stores.values():
        with suppress(IpsError):
            known.update(store.consumers())
    remedy = did_you_mean(consumer, known, otherwise="see the names of all consumers with `airflow ips list`")
    return Finding("checkpoint", consumer, Status.PROBLEM, "no store has a checkpoint of this consumer", remedy)


def _writers(
    server: Server | None, stores: Mapping[str, CheckpointStore], examined: Mapping[str, Checkpoint]
) -> dict[Source, str] | None:
    """Map tables to the consumer whose stage changes rows in them; None where stored DAGs cannot be read.

    A stage changes rows in its targets if it captures changes itself, or if its commit says so.
    """
    found: dict[Source, str] = {}
    for checkpoint in _all_checkpoints(stores, examined):
        dag_id = checkpoint.last_dag
        if dag_id is None:
            continue
        if server is None:
            return None
        has_changes = any(captures_changes(checkpoint, p.source) for p in checkpoint.positions)
        targets = server.tables_written(dag_id, checkpoint.consumer, only_changed=not has_changes)
        found.update(dict.fromkeys(targets, checkpoint.consumer))
    return found


def _all_checkpoints(stores: Mapping[str, CheckpointStore], examined: Mapping[str, Checkpoint]) -> Iterator[Checkpoint]:
    """Read every checkpoint, also if only one consumer is examined: the stage before it is another consumer."""
    yield from examined.values()
    for store in stores.values():
        with suppress(IpsError):
            for consumer in store.consumers():
                with suppress(IpsError):
                    found = None if consumer in examined else store.read(consumer, even_if_moved=True)
                    if found is not None and found.moved_to is None:
                        yield found


def _on_other_operation(server: Server | None, checkpoint: Checkpoint) -> str:
    dag_id = checkpoint.last_dag
    if server is None or dag_id is None:
        return "fail"
    return server.on_other_operation(dag_id, checkpoint.consumer) or "fail"


def _check_source(
    server: Server | None,
    catalog: Catalog,
    checkpoint: Checkpoint,
    entry: SourcePosition,
    writers: Mapping[Source, str] | None,
) -> Iterator[Finding]:
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource, open_source
    from airflow_provider_ips.iceberg.source.retention import retention_of

    subject, dag_id = f"{checkpoint.consumer}: {entry.source}", checkpoint.last_dag
    judged: dict[str, Any] = {
        "captures_changes": captures_changes(checkpoint, entry.source),
        "on_other_operation": _on_other_operation(server, checkpoint),
    }
    yield check_stages(entry.source, subject, writers=writers, **judged)
    try:
        source = open_source(catalog, entry.source)
        yield check_lineage(source, entry.position, subject)
        scheduled_ms = None if server is None or dag_id is None else server.schedule_gap_ms(dag_id)
        gap_ms = max((gap for gap in (usual_gap_ms(checkpoint.history), scheduled_ms) if gap is not None), default=None)
        facts = None if gap_ms is None else retention_of(source, back_to_ms=now_ms() - gap_ms)
        kept = check_retention(facts, subject, gap_ms=gap_ms, now_ms=now_ms())
        yield kept
        yield check_expiry(IcebergSource(source.table, source.name, MAIN_BRANCH), subject)
        yield check_operations(source, entry.position, subject, **judged)
        mode, impossible = mode_of(checkpoint, entry.source), _impossible_modes(catalog, source, judged)
        yield check_mode(subject, mode, impossible, is_expiring=kept.status is Status.WARNING)
        if mode == "ICDC" and (newest := newest_table(checkpoint, entry.source)) is not None:
            yield _check_readers(catalog, subject, source, newest)
    except IpsError as error:
        yield Finding.of_error("source", subject, error)


def _check_readers(catalog: Catalog, subject: str, source: IcebergSource, icdc_table: str) -> Finding:
    from airflow_provider_ips.iceberg.foreign_errors import translate_errors
    from airflow_provider_ips.iceberg.icdc.metadata import load_capture
    from airflow_provider_ips.iceberg.source.catalog_table import wider_readers

    namespace = ".".join(TableIdentifier.parse(icdc_table).namespace)
    with translate_errors(f"loading {icdc_table}"):
        made = load_capture(catalog, icdc_table)
    # Where its tables are, which a capture may choose: the newest one shows it, until it is dropped.
    folder = None if made is None else made.table.metadata.location.rstrip("/").rpartition("/")[0]
    identifier = TableIdentifier.parse(source.name)
    wider, is_all = wider_readers(catalog, namespace, folder, identifier, source.metadata.location)
    return check_readers(subject, namespace, source.name, wider, is_all=is_all)


def _impossible_modes(catalog: Catalog, source: IcebergSource, judged: Mapping[str, Any]) -> dict[str, str]:
    """Say which modes of captures this table and catalog do not allow, and why."""
    from airflow_provider_ips.iceberg.branches.captures import why_no_branch
    from airflow_provider_ips.iceberg.icdc.namespace import may_register

    found = {} if may_register(catalog) else {"ICDC": "its catalog cannot register tables"}
    if why := why_no_branch(catalog, source):
        found["BRANCH"] = why
    if why := why_no_range(source, **judged):
        found["RANGE"] = why
    return found


def _row(finding: Finding) -> Row:
    return {
        "status": finding.status.value,
        "check": finding.check,
        "subject": finding.subject,
        "finding": finding.finding,
        "remedy": finding.remedy or None,
    }
