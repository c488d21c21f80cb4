"""The buttons that the Airflow UI shows on captures and commits.

They are worked out when somebody looks, in the API server, and not when the task ends: only later is it known which
run has superseded a capture; and only there is it known under which prefix this Airflow is reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperatorLink
from airflow.utils.session import create_session

from airflow_provider_ips.core.fates import fate_of
from airflow_provider_ips.links import _urls
from airflow_provider_ips.links._stored import checkpoint_of, commits_of, records_of, runs_that_captured
from airflow_provider_ips.operators.capture import IpCaptureOperator
from airflow_provider_ips.operators.commit import IpCommitOperator

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
    from sqlalchemy.orm import Session

    from airflow_provider_ips.core.fates import Fate
    from airflow_provider_ips.links._stored import Stored

NOWHERE = ""
"""Airflow shows no button for it."""


class _CaptureLink(BaseOperatorLink):
    operators: ClassVar[list[type[BaseOperator]]] = [IpCaptureOperator, IpCommitOperator]

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        with create_session() as session:
            records = _records(session, operator, ti_key)
            return self._leads_to(session, ti_key, records) if records else NOWHERE

    def _leads_to(self, session: Session, ti_key: TaskInstanceKey, records: list[Stored]) -> str:
        raise NotImplementedError


class CaptureRecordLink(_CaptureLink):
    """To the page that tells what this capture took, and what became of it."""

    name = "Capture record"

    def _leads_to(self, session: Session, ti_key: TaskInstanceKey, records: list[Stored]) -> str:  # noqa: ARG002
        first = records[0]
        return _urls.record_page(
            ti_key.dag_id, ti_key.run_id, first.task_id, first.map_index if len(records) == 1 else None
        )


class SupersededByLink(_CaptureLink):
    """To the run whose capture covers what this one took and did not commit."""

    name = "Superseded by run"

    def _leads_to(self, session: Session, ti_key: TaskInstanceKey, records: list[Stored]) -> str:  # noqa: ARG002
        by = next((fate.by for fate in map(_fate, records) if fate.by is not None), None)
        # Of another DAG only its own readers may know: the record's page asks for their rights.
        return _urls.run_page(by.dag_id, by.run_id) if by is not None and by.dag_id == ti_key.dag_id else NOWHERE


class SupersedesLink(_CaptureLink):
    """To the newest run that captured and never committed, and whose rows this capture covers."""

    name = "Supersedes run"

    def _leads_to(self, session: Session, ti_key: TaskInstanceKey, records: list[Stored]) -> str:
        covered = [capture_id for record in records for capture_id in _fate(record).covers]
        found = (run for run in runs_that_captured(session, ti_key.dag_id, covered) if run.run_id != ti_key.run_id)
        newest = next(found, None)
        return NOWHERE if newest is None else _urls.run_page(ti_key.dag_id, newest.run_id)


class AssetsLink(_CaptureLink):
    """To Airflow's list of assets."""

    name = "Assets"

    def _leads_to(self, session: Session, ti_key: TaskInstanceKey, records: list[Stored]) -> str:  # noqa: ARG002
        return _urls.assets_page()


ALL: tuple[type[_CaptureLink], ...] = (CaptureRecordLink, SupersededByLink, SupersedesLink, AssetsLink)


def _records(session: Session, operator: BaseOperator, ti_key: TaskInstanceKey) -> list[Stored]:
    """Find the record of a capture, or of the captures that a commit stands for."""
    run: dict[str, Any] = {"dag_id": ti_key.dag_id, "run_id": ti_key.run_id}
    own = records_of(session, **run, task_ids=[ti_key.task_id], map_index=ti_key.map_index)
    if own:
        return own
    if not (upstream := operator.upstream_task_ids):
        return []
    records = records_of(session, **run, task_ids=upstream)
    grouped = [record for record in records if ti_key.map_index >= 0 and record.map_index == ti_key.map_index]
    # Until it has committed, a commit is taken to stand for every capture right before it.
    said = commits_of(session, **run, task_ids=[ti_key.task_id], map_index=ti_key.map_index)
    committed = {each.get("capture_id") for each in said}
    return [record for record in grouped or records if not committed or record.capture_id in committed]


def _fate(record: Stored) -> Fate:
    consumer = record.value.get("consumer") if isinstance(record.value, dict) else None
    return fate_of(checkpoint_of(consumer) if isinstance(consumer, str) and consumer else None, record.capture_id)
