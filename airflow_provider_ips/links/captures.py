"""The links that the Airflow UI shows on captures and commits.

The API server computes them when somebody looks at the task, not when it ends: which run supersedes a capture is known
only later, and the prefix under which this Airflow is reached is known only there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperatorLink
from airflow.utils.session import create_session

from airflow_provider_ips.operators.capture import IpCaptureOperator
from airflow_provider_ips.operators.commit import IpCommitOperator
from airflow_provider_ips.ui import urls
from airflow_provider_ips.ui.stored_runs import find_captures, read_commits, read_records, read_status

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
    from sqlalchemy.orm import Session

    from airflow_provider_ips.ui.stored_runs import StoredXCom


NO_LINK = ""
"""Airflow shows no button for an empty URL."""


class _CaptureLink(BaseOperatorLink):
    operators: ClassVar[list[type[BaseOperator]]] = [IpCaptureOperator, IpCommitOperator]

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        with create_session() as session:
            records = _records(session, operator, ti_key)
            return self._url(session, ti_key, records) if records else NO_LINK

    def _url(self, session: Session, ti_key: TaskInstanceKey, records: list[StoredXCom]) -> str:
        raise NotImplementedError


class CaptureRecordLink(_CaptureLink):
    """Leads to the record page: what this capture took, and what became of it."""

    name = "Capture record"

    def _url(self, session: Session, ti_key: TaskInstanceKey, records: list[StoredXCom]) -> str:  # noqa: ARG002
        first = records[0]
        return urls.record_page(
            ti_key.dag_id, ti_key.run_id, first.task_id, first.map_index if len(records) == 1 else None
        )


class SupersededByLink(_CaptureLink):
    """Leads to the run whose capture covers the range that this one did not commit."""

    name = "Superseded by run"

    def _url(self, session: Session, ti_key: TaskInstanceKey, records: list[StoredXCom]) -> str:  # noqa: ARG002
        runs = (read_status(record.consumer, record.capture_id).superseded_by for record in records)
        by = next((run for run in runs if run is not None), None)
        # A run of another DAG is shown by the record page, to those who may read that DAG.
        return urls.run_page(by.dag_id, by.run_id) if by is not None and by.dag_id == ti_key.dag_id else NO_LINK


class SupersedesLink(_CaptureLink):
    """Leads to the newest run that never committed and whose range this capture covers."""

    name = "Supersedes run"

    def _url(self, session: Session, ti_key: TaskInstanceKey, records: list[StoredXCom]) -> str:
        statuses = (read_status(record.consumer, record.capture_id) for record in records)
        covered = [capture_id for status in statuses for capture_id in status.supersedes]
        found = find_captures(session, ti_key.dag_id, covered)
        newest = next((run for run in found if run.run_id != ti_key.run_id), None)
        return NO_LINK if newest is None else urls.run_page(ti_key.dag_id, newest.run_id)


class AssetsLink(_CaptureLink):
    """Leads to Airflow's list of assets."""

    name = "Assets"

    def _url(self, session: Session, ti_key: TaskInstanceKey, records: list[StoredXCom]) -> str:  # noqa: ARG002
        return urls.assets_page()


ALL: tuple[type[_CaptureLink], ...] = (CaptureRecordLink, SupersededByLink, SupersedesLink, AssetsLink)


def _records(session: Session, operator: BaseOperator, ti_key: TaskInstanceKey) -> list[StoredXCom]:
    """Find the record of a capture task, or the records of the captures that a commit task commits."""
    run: dict[str, Any] = {"dag_id": ti_key.dag_id, "run_id": ti_key.run_id}
    own = read_records(session, **run, task_ids=[ti_key.task_id], map_index=ti_key.map_index)
    if own:
        return own
    if not (upstream := operator.upstream_task_ids):
        return []
    records = read_records(session, **run, task_ids=upstream)
    grouped = [record for record in records if ti_key.map_index >= 0 and record.map_index == ti_key.map_index]
    # Before it has committed, a commit task is shown with every capture directly upstream.
    reported = read_commits(session, **run, task_ids=[ti_key.task_id], map_index=ti_key.map_index)
    committed = {each.get("capture_id") for each in reported}
    return [record for record in grouped or records if not committed or record.capture_id in committed]
