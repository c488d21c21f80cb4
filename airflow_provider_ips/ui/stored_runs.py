"""What Airflow's own database says about captures: the XComs of their runs. Only the API server has that database.

XComs are read as the REST API reads them, as stored. Airflow's own decoding creates objects of whatever class a value
names, and a value is whatever a task, or a person with the right to edit XComs, has written.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import Text, cast, select

from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
from airflow_provider_ips.core.checkpoint.capture_status import capture_status
from airflow_provider_ips.core.errors import IpsError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from sqlalchemy.orm import Session

    from airflow_provider_ips.core.checkpoint.capture_status import CaptureStatus
    from airflow_provider_ips.core.checkpoint.document import Checkpoint


MAX_SHOWN = 50
"""How many instances of a mapped capture a page shows, and how many runs are searched for a superseded one."""

MAX_READ = 200
"""How many records of a DAG's newest runs are read to find those of one consumer."""

_COLUMNS = (
    XComModel.run_id,
    XComModel.task_id,
    XComModel.map_index,
    cast(XComModel.value, Text).label("value"),  # as text: a value that is not JSON would break the whole query
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredXCom:
    """A value, and the task instance that pushed it."""

    run_id: str
    task_id: str
    map_index: int
    value: Any

    @property
    def capture_id(self) -> str:
        return self._field("capture_id")

    @property
    def consumer(self) -> str:
        return self._field("consumer")

    def _field(self, name: str) -> str:
        value = self.value.get(name) if isinstance(self.value, dict) else None
        return value if isinstance(value, str) else ""


def read_records(
    session: Session, *, dag_id: str, run_id: str, task_ids: Collection[str], map_index: int | None = None
) -> list[StoredXCom]:
    """Read the records that these capture tasks pushed in one run, of one map index or of all."""
    return _read_xcoms(session, "capture", dag_id=dag_id, run_id=run_id, task_ids=task_ids, map_index=map_index)


def read_commits(
    session: Session, *, dag_id: str, run_id: str, task_ids: Collection[str] | None = None, map_index: int | None = None
) -> Iterator[dict[str, Any]]:
    """Read what commit tasks reported in one run, capture by capture."""
    for xcom in _read_xcoms(session, "commit", dag_id=dag_id, run_id=run_id, task_ids=task_ids, map_index=map_index):
        yield from _reports(xcom)


def _reports(xcom: StoredXCom) -> Iterator[dict[str, Any]]:
    reported = xcom.value if isinstance(xcom.value, list) else [xcom.value]
    yield from (each for each in reported if isinstance(each, dict))


def find_captures(session: Session, dag_id: str, capture_ids: Iterable[str]) -> list[StoredXCom]:
    """Find the task instances that made these captures, among the newest runs of a DAG."""
    wanted = set(capture_ids)
    if not wanted:
        return []
    newest = (
        select(*_COLUMNS)
        .join(DagRun, XComModel.dag_run_id == DagRun.id)
        .where(XComModel.dag_id == dag_id, XComModel.key == "capture_id")
        .order_by(DagRun.run_after.desc())
        .limit(MAX_SHOWN)
    )
    return [
        xcom for row in session.execute(newest) if isinstance((xcom := _xcom(row)).value, str) and xcom.value in wanted
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCapture(StoredXCom):
    """A record that a capture pushed, with its run and what commits of that run reported."""

    dag_id: str
    run_state: str
    outcome: str | None
    committed_at: datetime | None
    """When its commit reported that."""


def read_captures_of(
    session: Session,
    dag_ids: Collection[str],
    consumer: str | None = None,
    *,
    containing: str = "",
    limit: int = MAX_READ,
) -> list[StoredCapture]:
    """Read the records in the newest runs of some DAGs, newest first.

    :param consumer: whose records; None for those of all
    :param containing: a text that the record has in it
    :param limit: how many records are read
    """
    in_newest = (
        select(*_COLUMNS, XComModel.dag_id, XComModel.timestamp, DagRun.state)
        .join(DagRun, XComModel.dag_run_id == DagRun.id)
        .where(XComModel.dag_id.in_(dag_ids))
    )
    wanted = in_newest.where(XComModel.key == "capture")
    if containing:
        wanted = wanted.where(cast(XComModel.value, Text).contains(containing, autoescape=True))
    records = session.execute(wanted.order_by(DagRun.run_after.desc(), DagRun.id.desc()).limit(limit)).all()
    read = [(row, _xcom(row)) for row in records]
    own = read if consumer is None else [each for each in read if each[1].consumer == consumer][:MAX_SHOWN]
    runs = {row.run_id for row, _ in own}
    commits = session.execute(in_newest.where(XComModel.key == "commit", XComModel.run_id.in_(runs)))
    reported = {
        (row.dag_id, row.run_id, str(each.get("capture_id"))): (str(each.get("outcome")), row.timestamp)
        for row in commits
        for each in _reports(_xcom(row))
    }
    outcomes = [reported.get((row.dag_id, row.run_id, xcom.capture_id), (None, None)) for row, xcom in own]
    return [
        StoredCapture(
            run_id=xcom.run_id,
            task_id=xcom.task_id,
            map_index=xcom.map_index,
            value=xcom.value,
            dag_id=row.dag_id,
            run_state=str(getattr(row.state, "value", row.state)),
            outcome=outcome,
            committed_at=committed_at,
        )
        for (row, xcom), (outcome, committed_at) in zip(own, outcomes, strict=True)
    ]


def read_checkpoint(consumer: str) -> Checkpoint | None:
    """Read the checkpoint of a consumer from a Variable: None if that cannot be read, or is elsewhere."""
    if not consumer:
        return None
    with suppress(IpsError):
        return VariableStore(ServerVariables()).read(consumer)
    return None


def read_status(consumer: str, capture_id: str) -> CaptureStatus:
    """Read the status of a capture from a checkpoint in a Variable: unknown if there is none."""
    return capture_status(read_checkpoint(consumer), capture_id)


def _read_xcoms(
    session: Session,
    key: str,
    *,
    dag_id: str,
    run_id: str,
    task_ids: Collection[str] | None,
    map_index: int | None,
) -> list[StoredXCom]:
    query = XComModel.get_many(
        run_id=run_id,
        key=key,
        dag_ids=dag_id,
        task_ids=None if task_ids is None else list(task_ids),
        map_indexes=map_index,
        limit=MAX_SHOWN,
    ).with_only_columns(*_COLUMNS)
    return sorted((_xcom(row) for row in session.execute(query)), key=lambda x: (x.task_id, x.map_index))


def _xcom(row: Any) -> StoredXCom:  # noqa: ANN401 - SQLAlchemy's
    return StoredXCom(run_id=row.run_id, task_id=row.task_id, map_index=row.map_index, value=_decoded(row.value))


def _decoded(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return the value as JSON: depending on who wrote it, the column holds JSON, or a text that is JSON."""
    for _ in range(2):
        try:
            value = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return value
    return value
