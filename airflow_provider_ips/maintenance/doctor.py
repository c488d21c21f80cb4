"""The command doctor: checks everything that a run depends on, before a run does.

A process on an Airflow server can look up more than a task can: the DAGs that Airflow has stored, and its secrets
backends. That is in :class:`Server`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips import config
from airflow_provider_ips.assets.uris import SCHEME, TableUri
from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.advice.checks import (
    Finding,
    Status,
    captures_changes,
    check_lineage,
    check_operations,
    check_retention,
    check_stages,
)
from airflow_provider_ips.core.advice.retention import usual_gap_ms
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import SourcePosition
from airflow_provider_ips.core.checkpoint.store import CheckpointStore
from airflow_provider_ips.core.errors import CheckpointError, IpsError
from airflow_provider_ips.core.identifiers import Source, variable_key
from airflow_provider_ips.maintenance.console import ConnectionOptions, Console, Row, open_stores
from airflow_provider_ips.runs.environment import now_ms, open_catalog

if TYPE_CHECKING:
    from airflow.serialization.definitions.dag import SerializedDAG
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(ConnectionOptions):
    """What to examine: one consumer or all, and the ICDC namespace."""

    consumer: str | None = None
    namespace: str | None = None
    write_probe: bool = False


def doctor(console: Console, options: DoctorOptions, *, server: Server | None = None) -> None:
    """Print every check with its status, problems first.

    :param server: Airflow's stored DAGs and secrets backends; None in a task, which cannot see them.
    """
    findings = list(examine(console, options, server))
    order = [Status.PROBLEM, Status.WARNING, Status.UNKNOWN, Status.OK]
    console.show([_row(finding) for finding in sorted(findings, key=lambda f: order.index(f.status))])
    bad = sum(finding.status is Status.PROBLEM for finding in findings)
    console.say(f"{bad} problems, {sum(f.status is Status.WARNING for f in findings)} warnings.")


def examine(console: Console, options: DoctorOptions, server: Server | None) -> Iterator[Finding]:
    """Check everything that the runs of one consumer, or of all, depend on."""
    checkpoints: dict[str, Checkpoint] = {}
    stores: Mapping[str, CheckpointStore] = {}
    try:
        stores = open_stores(console, options)
    except IpsError as error:
        yield Finding.of_error("stores", f"connection {options.conn_id}", error)
    read = [
        finding for name, store in stores.items() for finding in _read_all(name, store, options.consumer, checkpoints)
    ]
    yield from read
    if options.consumer and stores and not read:
        yield _unknown_consumer(options.consumer, stores)
    for consumer in checkpoints or ([options.consumer] if options.consumer else []):
        yield check_shadows(consumer, server)
    try:
        catalog = open_catalog(options.conn_id)
    except IpsError as error:
        yield Finding.of_error("catalog", f"connection {options.conn_id}", error)
        return
    yield from check_namespace(catalog, options)
    writers = _writers(server, stores, checkpoints) if checkpoints else {}
    for checkpoint in checkpoints.values():
        for entry in checkpoint.positions:
            yield from _check_source(server, catalog, checkpoint, entry, writers)


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
    similar = get_close_matches(consumer, known, n=1)
    remedy = f"did you mean {similar[0]!r}?" if similar else "see the names of all consumers with `airflow ips list`"
    return Finding("checkpoint", consumer, Status.PROBLEM, "no store has a checkpoint of this consumer", remedy)


def _writers(
    server: Server | None, stores: Mapping[str, CheckpointStore], examined: Mapping[str, Checkpoint]
) -> dict[Source, str] | None:
    """Map tables to the consumer whose stage changes rows in them; None where stored DAGs cannot be read.

    A stage changes rows in its targets if it captures changes itself, or if its commit says so.
    """
    found: dict[Source, str] = {}
    for checkpoint in _all_checkpoints(stores, examined):
        dag_id = last_dag(checkpoint)
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


def last_dag(checkpoint: Checkpoint) -> str | None:
    """Return the id of the DAG whose run committed last; None if no run has."""
    return next((c.run.dag_id for c in reversed(checkpoint.history) if c.run is not None), None)


def _on_other_operation(server: Server | None, checkpoint: Checkpoint) -> str:
    dag_id = last_dag(checkpoint)
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
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source
    from airflow_provider_ips.iceberg.source.retention import retention_of

    subject, dag_id = f"{checkpoint.consumer}: {entry.source}", last_dag(checkpoint)
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
        yield check_retention(facts, subject, gap_ms=gap_ms, now_ms=now_ms())
        yield check_operations(source, entry.position, subject, **judged)
    except IpsError as error:
        yield Finding.of_error("source", subject, error)


def _row(finding: Finding) -> Row:
    return {
        "status": finding.status.value,
        "check": finding.check,
        "subject": finding.subject,
        "finding": finding.finding,
        "remedy": finding.remedy or None,
    }


RUNS_LOOKED_AHEAD: Final = 10
_ALIAS_PREFIX: Final = "ips:"
"""How the names of a commit's asset aliases begin; the asset's URI follows."""


class Server:
    """Airflow's metadata database and secrets backends, as the command `airflow ips doctor` uses them."""

    def secrets_backend_with(self, key: str) -> str | None:
        """Name a secrets backend that also holds a Variable; None if no backend does."""
        return ServerVariables().shadowed_by(key)

    def schedule_gap_ms(self, dag_id: str) -> int | None:
        """Return the longest time between two of a DAG's next runs; None if it is not scheduled by time."""
        dag = _stored(dag_id)
        if dag is None or not dag.timetable.can_be_scheduled:
            return None
        now = datetime.now(tz=UTC)
        infos = dag.iter_dagrun_infos_between(now, now + timedelta(days=400))
        ahead = [info.run_after for info in islice(infos, RUNS_LOOKED_AHEAD)]
        # The longest, because a schedule may skip the weekend.
        gaps = (later - earlier for earlier, later in pairwise(ahead))
        return max((int(gap.total_seconds() * 1000) for gap in gaps), default=None)

    def on_other_operation(self, dag_id: str, consumer: str) -> str | None:
        """Return the parameter of that name of a consumer's capture; None if the DAG has no such capture."""
        return getattr(_capture_of(_stored(dag_id), consumer), "on_other_operation", None)

    def tables_written(self, dag_id: str, consumer: str, *, only_changed: bool = False) -> set[Source]:
        """Return the tables that the commits downstream of a consumer's capture declare as targets.

        :param only_changed: Only tables of commits that declare that the job changes rows (``target_changes``).
        """
        dag = _stored(dag_id)
        capture = _capture_of(dag, consumer)
        if dag is None or capture is None:
            return set()
        downstream = [dag.get_task(name) for name in capture.get_flat_relative_ids(upstream=False)]
        commits = [task for task in downstream if task.task_type == "IpCommitOperator"]
        return {
            table
            for commit in commits
            if not only_changed or getattr(commit, "target_changes", False)
            for table in _targets(commit)
        }


def _stored(dag_id: str) -> SerializedDAG | None:
    from airflow.models.serialized_dag import SerializedDagModel

    return SerializedDagModel.get_dag(dag_id)


def _capture_of(dag: SerializedDAG | None, consumer: str) -> Any | None:  # noqa: ANN401 - an operator as Airflow stores it
    for task in () if dag is None else dag.tasks:
        if consumer == (getattr(task, "consumer", None) or f"{task.dag_id}.{task.task_id}"):
            return task
    return None


def _targets(commit: Any) -> Iterator[Source]:  # noqa: ANN401 - an operator as Airflow stores it
    verified = getattr(commit, "verify_target", None)
    if verified and "{{" not in verified:
        yield Source(verified)
    for outlet in commit.outlets or ():
        uri = getattr(outlet, "uri", None) or outlet.name.removeprefix(_ALIAS_PREFIX)
        if uri.startswith(f"{SCHEME}://"):
            yield TableUri.parse(uri).source
