"""When a DAG is complete: what is attached to it then, and in which order it is checked.

Airflow calls ``resolve_template_files`` on every task once it has read a DAG file. Only then is the whole graph known,
and an error is still shown as an import error. ``dag.test()`` never calls it, so each ``execute`` makes up for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from airflow_provider_ips.dag_checks.attachment import attach
from airflow_provider_ips.dag_checks.fire_and_forget import check_fire_and_forget
from airflow_provider_ips.dag_checks.stages import check_backfill_groups, check_stages
from airflow_provider_ips.dag_checks.trigger_rules import check_trigger_rules
from airflow_provider_ips.dag_checks.wiring import check_pulled_keys, check_wiring

if TYPE_CHECKING:
    from airflow.sdk import DAG

_read: WeakValueDictionary[tuple[str, str], DAG] = WeakValueDictionary()
"""The DAGs that Airflow has read, by file and id, for as long as they are in use."""


def complete_read_dag(dag: DAG) -> None:
    """Attach and check once, for all tasks of the DAG that call this from ``resolve_template_files``."""
    if _is_read(dag):
        return
    _complete(dag)
    _read[dag.fileloc, dag.dag_id] = dag
    check_stages([other for (file, _), other in list(_read.items()) if file == dag.fileloc])


def complete_running_dag(dag: DAG) -> None:
    """Attach and check in ``execute``, unless Airflow has read the DAG: then it is done."""
    if not _is_read(dag):
        _complete(dag)


def _is_read(dag: DAG) -> bool:
    return _read.get((dag.fileloc, dag.dag_id)) is dag


def _complete(dag: DAG) -> None:
    attach(dag)
    check_wiring(dag)
    check_pulled_keys(dag)
    check_trigger_rules(dag)
    check_fire_and_forget(dag)
    check_backfill_groups(dag)
