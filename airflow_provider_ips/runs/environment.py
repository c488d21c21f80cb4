"""What a task learns from Airflow at run time: its run, the time, records, its catalog and its store."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_provider_ips import compat, config
from airflow_provider_ips.core.errors import EvidenceError
from airflow_provider_ips.core.json_fields import PARSE_ERRORS, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.variable import VariableAccess, VariableStore
    from airflow_provider_ips.core.checkpoint.store import CheckpointStore
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.results.capture_record import CaptureRecord


WAIT = timedelta(seconds=60)
"""After how long a task that waits for another run looks again."""


def now_ms() -> int:
    """Return the wall clock's time in milliseconds. Whatever is called from a task takes the time as an argument."""
    return time.time_ns() // 1_000_000


def come_back_later() -> NoReturn:
    """Have Airflow end this try and run the task again in a while."""
    raise AirflowRescheduleException(datetime.now(tz=UTC) + WAIT)  # type: ignore[no-untyped-call]


def run_identity(context: Context, *, map_index: int | None = None) -> RunIdentity:
    """Identify this run. ``run_after`` distinguishes it from a deleted run of the same id."""
    from airflow.configuration import conf

    from airflow_provider_ips.core.positions import RunIdentity  # not needed to parse a DAG file

    dag_run, ti = context["dag_run"], context["ti"]
    return RunIdentity(
        dag_id=dag_run.dag_id,
        run_id=dag_run.run_id,
        map_index=(ti.map_index if ti.map_index is not None else -1) if map_index is None else map_index,
        run_after=dag_run.run_after.astimezone(UTC).isoformat(),
        deployment=conf.get("api", "base_url", fallback="") or None,
    )


def clear_number(context: Context) -> int:
    """Return how often this run was cleared."""
    return context["dag_run"].clear_number or 0


def open_catalog(iceberg_conn_id: str) -> Catalog:
    """Open the catalog of a connection."""
    from airflow_provider_ips.hooks.ips import IpsHook

    return IpsHook(iceberg_conn_id).catalog


def pull_record(context: Context, capture_task_id: str) -> CaptureRecord:
    """Pull the record of a capture in this run; in a mapped task group, of the capture with this task's index."""
    ti = context["ti"]
    map_index = -1 if ti.map_index is None else ti.map_index
    found = ti.xcom_pull(task_ids=[capture_task_id], key="capture", map_indexes=map_index)
    raw = next((record for record in found or () if record is not None), None)
    if raw is None:
        raise EvidenceError(
            f"task {capture_task_id!r} has captured nothing in run {context['run_id']}",
            consequence="There is nothing that could be committed",
            remedy="let the capture succeed first, then clear its downstream tasks",
        )
    return read_record(raw, task_id=capture_task_id)


def read_record(raw: Mapping[str, Any], *, task_id: str) -> CaptureRecord:
    """Read the XCom ``capture`` of a task. A record that is damaged anywhere is not used at all."""
    from airflow_provider_ips.core.results.capture_record import CaptureRecord

    try:
        return CaptureRecord.from_json(raw)
    except PARSE_ERRORS as error:
        raise EvidenceError(
            f"the XCom 'capture' of task {task_id!r} is not a capture record: {explain(error)}",
            consequence="What was captured, and so what the checkpoint may move past, is unknown",
            remedy=f"clear {task_id!r} with its downstream tasks: it captures the same range again",
        ) from error


def open_named_store(
    name: str | None,
    *,
    iceberg_conn_id: str,
    variables: VariableAccess | None = None,
    open_by: Callable[[str], Catalog] = open_catalog,
) -> VariableStore | IcebergStore:
    """Open a store by its name, or the configured one.

    :param variables: How this process reads and writes Variables; by default, as a task does.
    :param open_by: How this process opens the catalog of a connection; by default, by its hook.
    """
    name = name or config.CHECKPOINT_STORE.read() or compat.DEFAULT_STORE
    config.check_store(name)
    if name == "iceberg":
        return open_iceberg_store(iceberg_conn_id, open_by)
    from airflow_provider_ips.checkpoints.variable import TaskVariables, VariableStore

    return VariableStore(access=variables or TaskVariables())


def open_iceberg_store(iceberg_conn_id: str, open_by: Callable[[str], Catalog] = open_catalog) -> IcebergStore:
    """Open the store in Iceberg: one place for the logs of all captures, or that of each connection."""
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore

    conn_id = config.CHECKPOINT_CONN_ID.read() or iceberg_conn_id
    return IcebergStore(open_by(conn_id), config.CHECKPOINT_NAMESPACE.read())


def open_store(store: CheckpointStore | str | None, *, iceberg_conn_id: str) -> CheckpointStore:
    """Open the store that a task names; a store object is returned as it is."""
    if store is None or isinstance(store, str):
        return open_named_store(store, iceberg_conn_id=iceberg_conn_id)
    return store
