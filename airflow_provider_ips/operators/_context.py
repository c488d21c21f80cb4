"""What an operator asks of its surroundings at run time: its run, other runs, the time, the catalog and the store."""

from __future__ import annotations

import time
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.positions import RunIdentity

ACTIVE_STATES = ["queued", "running"]
WAIT = timedelta(seconds=60)
"""How long a task that waits for another run stays away before it asks again."""


def now_ms() -> int:
    """The wall clock, to the millisecond: everything behind it takes the time as an argument."""
    return time.time_ns() // 1_000_000


def run_identity(context: Context, *, map_index: int | None = None) -> RunIdentity:
    """Say which run this is. ``run_after`` tells a run from a deleted one of the same name."""
    from airflow_provider_ips.core.positions import RunIdentity  # a DAG that is parsed has no run

    dag_run, ti = context["dag_run"], context["ti"]
    return RunIdentity(
        dag_id=dag_run.dag_id,
        run_id=dag_run.run_id,
        map_index=(ti.map_index if ti.map_index is not None else -1) if map_index is None else map_index,
        run_after=dag_run.run_after.astimezone(UTC).isoformat(),
    )


def is_active(
    ti: RuntimeTaskInstanceProtocol, run: RunIdentity, *, mine: RunIdentity, states: list[str] = ACTIVE_STATES
) -> bool:
    """Ask whether another run is still queued or running. A deleted one is not, though its namesake may be."""
    if (run.dag_id, run.run_id) == (mine.dag_id, mine.run_id):
        return False
    return bool(ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=states))


def open_catalog(iceberg_conn_id: str) -> Catalog:
    """Open the catalog behind a connection."""
    from airflow_provider_ips.hooks.ips import IpsHook

    return IpsHook(iceberg_conn_id).catalog


def configured_namespace() -> str:
    """The namespace for captures that name none."""
    from airflow.sdk.configuration import conf

    return str(conf.get("ips", "icdc_namespace", fallback="icdc"))


def configured_history_length() -> int:
    """How many committed captures a checkpoint remembers."""
    from airflow.sdk.configuration import conf

    return int(conf.getint("ips", "history_length", fallback=50))
