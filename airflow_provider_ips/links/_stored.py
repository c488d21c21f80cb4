"""What Airflow's own database tells about captures. Runs in the API server, which has one; tasks have none.

XComs are read as the REST API reads them: as stored. Airflow's own way to decode them makes objects of whatever class a
value names, and a value is whatever a task, or a person with the right to edit XComs, has written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import select

from airflow_provider_ips.checkpoints.access import ServerVariables
from airflow_provider_ips.checkpoints.variable import VariableStore
from airflow_provider_ips.core.errors import IpsError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from sqlalchemy.orm import Session

    from airflow_provider_ips.core.checkpoint import Checkpoint

MAX_SHOWN = 50
"""How many instances of a mapped capture a page shows, and how many runs are searched for a superseded one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An XCom: which task instance pushed it, and what."""

    run_id: str
    task_id: str
    map_index: int
    value: Any

    @property
    def capture_id(self) -> str:
        """What the record says it is; empty where it is no record."""
        return str(self.value.get("capture_id", "")) if isinstance(self.value, dict) else ""


def records_of(
    session: Session, *, dag_id: str, run_id: str, task_ids: Collection[str], map_index: int | None = None
) -> list[Stored]:
    """Read the records that these tasks have pushed in one run; of one map index, or of all."""
    return _pushed(session, "capture", dag_id=dag_id, run_id=run_id, task_ids=task_ids, map_index=map_index)


def commits_of(
    session: Session, *, dag_id: str, run_id: str, task_ids: Collection[str] | None = None, map_index: int | None = None
) -> Iterator[dict[str, Any]]:
    """Read what commits have said in one run, capture by capture."""
    for stored in _pushed(session, "commit", dag_id=dag_id, run_id=run_id, task_ids=task_ids, map_index=map_index):
        said = stored.value if isinstance(stored.value, list) else [stored.value]
        yield from (each for each in said if isinstance(each, dict))


def runs_that_captured(session: Session, dag_id: str, capture_ids: Iterable[str]) -> list[Stored]:
    """Find the runs of these captures among the newest of a DAG."""
    wanted = set(capture_ids)
    if not wanted:
        return []
    columns = (XComModel.run_id, XComModel.task_id, XComModel.map_index, XComModel.value)
    newest = (
        select(*columns)
        .join(DagRun, XComModel.dag_run_id == DagRun.id)
        .where(XComModel.dag_id == dag_id, XComModel.key == "capture_id")
        .order_by(DagRun.run_after.desc())
        .limit(MAX_SHOWN)
    )
    found = [_stored(row) for row in session.execute(newest)]
    return [stored for stored in found if stored.value in wanted]


def checkpoint_of(consumer: str) -> Checkpoint | None:
    """Read a checkpoint that is kept in a Variable. None: there is none, or not there, or it cannot be read."""
    try:
        return VariableStore(ServerVariables()).read(consumer)
    except IpsError:
        return None


def _pushed(
    session: Session,
    key: str,
    *,
    dag_id: str,
    run_id: str,
    task_ids: Collection[str] | None,
    map_index: int | None,
) -> list[Stored]:
    query = XComModel.get_many(
        run_id=run_id,
        key=key,
        dag_ids=dag_id,
        task_ids=None if task_ids is None else list(task_ids),
        map_indexes=map_index,
        limit=MAX_SHOWN,
    ).with_only_columns(XComModel.run_id, XComModel.task_id, XComModel.map_index, XComModel.value)
    return sorted((_stored(row) for row in session.execute(query)), key=lambda s: (s.task_id, s.map_index))


def _stored(row: Any) -> Stored:  # noqa: ANN401 - SQLAlchemy's
    return Stored(run_id=row.run_id, task_id=row.task_id, map_index=row.map_index, value=_decoded(row.value))


def _decoded(value: object) -> Any:  # noqa: ANN401 - JSON
    """What a task has pushed lies in the column as text or as JSON, depending on who has written it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
