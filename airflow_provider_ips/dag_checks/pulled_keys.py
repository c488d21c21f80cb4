"""Whether the XComs that tasks pull of a capture are among those that it pushes.

capture.output["db.events"]    right: the ICDC table of db.events
capture.output                 refused: a capture returns nothing, and the job would be given None
capture.output["db.event"]     refused: no such source, and the job would be given None
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_ips import dag_graph
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import did_you_mean
from airflow_provider_ips.core.settings import CAPTURE_KEYS, source_keys

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from airflow.sdk.types import Operator

RETURN_VALUE: Final = "return_value"
"""The key of `output` without a key."""

_PUSHED_BY_AIRFLOW: Final = "skipmixin_key"


def check_pulled_keys(dag: DAG) -> None:
    """Refuse tasks that pull an XCom which their capture does not push, as far as the DAG file shows its sources."""
    captures = {task.task_id: task for task in dag.tasks if dag_graph.is_capture(task)}
    for task in dag.tasks if captures else ():
        if dag_graph.is_commit(task):  # it names its capture, and pulls nothing else
            continue
        for task_id, key in sorted((task_id, key) for task_id, key in dag_graph.xcom_pulls(task) if key is not None):
            if task_id in captures:
                _check_key(task, captures[task_id], key)


def _check_key(task: Operator, capture: Operator, key: str) -> None:
    known = _pushed_by(capture)
    if key == RETURN_VALUE:
        raise InputError(
            f"task {task.task_id!r} pulls the output of the capture {capture.task_id!r} without a key",
            consequence="A capture pushes its XComs under keys and returns nothing, so the task would be given None",
            remedy=f"name one: {capture.task_id}.output[{known[0] if known else 'db.table'!r}] is the ICDC table",
        )
    # Partition columns, which have bounds as well, are known to the table alone.
    is_bound = any(key.startswith((f"{name}.lower.", f"{name}.upper.")) for name in known)
    if known and not is_bound and key not in (*known, *CAPTURE_KEYS, _PUSHED_BY_AIRFLOW):
        raise InputError(
            f"task {task.task_id!r} pulls {key!r}, which the capture {capture.task_id!r} does not push",
            consequence="The task would be given None, or its template would fail",
            remedy=did_you_mean(key, known, otherwise=f"pull one of {', '.join(map(repr, known))}"),
        )


def _pushed_by(capture: Operator) -> list[str]:
    """The keys of a capture's sources; nothing if the sources are known at run time only."""
    return [key for source, settings in dag_graph.checked_sources(capture) for key in source_keys(source, settings)]
