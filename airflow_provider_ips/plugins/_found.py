"""What a record page shows: the record that the capture pushed, and what Airflow and the checkpoint say since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.models.dagrun import DagRun
from sqlalchemy import select

from airflow_provider_ips.core.documents import PARSE_ERRORS, explain
from airflow_provider_ips.core.fates import State, fate_of
from airflow_provider_ips.links import _urls
from airflow_provider_ips.links._stored import checkpoint_of, commits_of, records_of, runs_that_captured
from airflow_provider_ips.plugins._record import Record
from airflow_provider_ips.plugins._states import Standing, standing_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

    from airflow_provider_ips.core.fates import Fate
    from airflow_provider_ips.links._stored import Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Words, and where they lead; None where the reader may not go."""

    words: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePage:
    """One capture, ready to be shown. Without a ``record``, ``unreadable`` says why."""

    map_index: int
    record: Record | None
    unreadable: str = ""
    standing: Standing | None = None
    run_state: str = ""
    superseded_by: Link | None = None
    supersedes: tuple[Link, ...] = ()
    task: Link | None = None


def find(  # the words of a link, and whose eyes it is for
    session: Session,
    *,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int | None,
    may_see: Callable[[str], bool],
) -> list[CapturePage]:
    """Find what a capture task has recorded in a run: one page part for each map index."""
    stored = records_of(session, dag_id=dag_id, run_id=run_id, task_ids=[task_id], map_index=map_index)
    if not stored:
        return []
    outcomes = {
        str(said.get("capture_id")): str(said.get("outcome"))
        for said in commits_of(session, dag_id=dag_id, run_id=run_id)
    }
    state = _run_state(session, dag_id, run_id)
    return [_part(session, dag_id, each, outcomes, state, may_see) for each in stored]


def _part(
    session: Session,
    dag_id: str,
    stored: Stored,
    outcomes: dict[str, str],
    run_state: str,
    may_see: Callable[[str], bool],
) -> CapturePage:
    task = Link(words="task and log", url=_urls.task_page(dag_id, stored.run_id, stored.task_id, stored.map_index))
    try:
        record = Record.from_json(_as_object(stored.value))
    except PARSE_ERRORS as error:
        return CapturePage(map_index=stored.map_index, record=None, unreadable=explain(error), task=task)
    fate = fate_of(checkpoint_of(record.consumer), record.capture_id)
    return CapturePage(
        map_index=stored.map_index,
        record=record,
        standing=standing_of(record, fate, outcomes.get(record.capture_id), run_state),
        run_state=run_state,
        superseded_by=superseded_by(fate, dag_id, may_see),
        supersedes=_supersedes(session, dag_id, fate, stored.run_id),
        task=task,
    )


def superseded_by(fate: Fate, dag_id: str, may_see: Callable[[str], bool]) -> Link | None:
    """Lead to the run that covers a superseded capture: its name is for those who may read its DAG."""
    if fate.state is not State.SUPERSEDED or fate.by is None:
        return None
    if not may_see(fate.by.dag_id):
        return Link(words="a run of another DAG, which you may not read", url=None)
    words = fate.by.run_id if fate.by.dag_id == dag_id else str(fate.by)
    return Link(words=words, url=_urls.run_page(fate.by.dag_id, fate.by.run_id))


def _supersedes(session: Session, dag_id: str, fate: Fate, own_run_id: str) -> tuple[Link, ...]:
    found = runs_that_captured(session, dag_id, fate.covers)
    return tuple(
        Link(words=run.run_id, url=_urls.record_page(dag_id, run.run_id, run.task_id, run.map_index))
        for run in found
        if run.run_id != own_run_id
    )


def _run_state(session: Session, dag_id: str, run_id: str) -> str:
    state = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return "" if state is None else str(getattr(state, "value", state))


def _as_object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A custom XCom backend keeps the value elsewhere, and a reference here."""
    if not isinstance(value, dict):
        raise TypeError(
            "the XCom 'capture' holds no record here; with a custom XCom backend it is where that backend keeps it"
        )
    return value
