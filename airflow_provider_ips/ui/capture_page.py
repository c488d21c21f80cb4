"""What the record page shows of each capture: its record, its status since then, and links to related runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.models.dagrun import DagRun
from sqlalchemy import select

from airflow_provider_ips.core.checkpoint.capture_status import CaptureState, CaptureStatus
from airflow_provider_ips.core.json_fields import PARSE_ERRORS, explain
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.ui import urls
from airflow_provider_ips.ui.stored_runs import StoredXCom, find_captures, read_commits, read_records, read_status

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A text, and where it leads; ``url`` is None where the reader may not go."""

    text: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePage:
    """One capture as it is shown. Without a ``record``, ``unreadable`` says why."""

    map_index: int
    record: CaptureRecord | None
    unreadable: str = ""
    word: str = ""
    """In one word, what became of it."""

    status: CaptureStatus | None = None
    run_state: str = ""
    superseded_by: Link | None = None
    supersedes: tuple[Link, ...] = ()
    task_url: str
    html: str = ""


def find_captures_of_task(
    session: Session,
    *,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int | None,
    may_see: Callable[[str], bool],
) -> list[CapturePage]:
    """Find what a capture task recorded in a run: one entry for each map index.

    :param may_see: Whether the reader may see the runs of a DAG, by its id.
    """
    records = read_records(session, dag_id=dag_id, run_id=run_id, task_ids=[task_id], map_index=map_index)
    if not records:
        return []
    outcomes = {
        str(commit.get("capture_id")): str(commit.get("outcome"))
        for commit in read_commits(session, dag_id=dag_id, run_id=run_id)
    }
    run_state = _run_state(session, dag_id, run_id)
    return [_page(session, dag_id, record, outcomes, run_state, may_see) for record in records]


def _page(
    session: Session,
    dag_id: str,
    stored: StoredXCom,
    outcomes: dict[str, str],
    run_state: str,
    may_see: Callable[[str], bool],
) -> CapturePage:
    task_url = urls.task_page(dag_id, stored.run_id, stored.task_id, stored.map_index)
    try:
        record = CaptureRecord.from_json(_as_object(stored.value))
    except PARSE_ERRORS as error:
        return CapturePage(map_index=stored.map_index, record=None, unreadable=explain(error), task_url=task_url)
    status = read_status(record.consumer, record.capture_id)
    return CapturePage(
        map_index=stored.map_index,
        record=record,
        word=status_word(record, status, outcomes.get(record.capture_id), run_state),
        status=status,
        run_state=run_state,
        superseded_by=superseded_by(status, dag_id, may_see),
        supersedes=_supersedes(session, dag_id, status, stored.run_id),
        task_url=task_url,
    )


def superseded_by(status: CaptureStatus, dag_id: str, may_see: Callable[[str], bool]) -> Link | None:
    """Link to the run that covers a superseded capture, and name it only to those who may see its DAG."""
    if status.state is not CaptureState.SUPERSEDED or status.superseded_by is None:
        return None
    if not may_see(status.superseded_by.dag_id):
        return Link(text="a run of another DAG, which you may not read", url=None)
    text = status.superseded_by.run_id if status.superseded_by.dag_id == dag_id else str(status.superseded_by)
    return Link(text=text, url=urls.run_page(status.superseded_by.dag_id, status.superseded_by.run_id))


def _supersedes(session: Session, dag_id: str, status: CaptureStatus, own_run_id: str) -> tuple[Link, ...]:
    return tuple(
        Link(text=run.run_id, url=urls.record_page(dag_id, run.run_id, run.task_id, run.map_index))
        for run in find_captures(session, dag_id, status.supersedes)
        if run.run_id != own_run_id
    )


def _run_state(session: Session, dag_id: str, run_id: str) -> str:
    state = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return "" if state is None else str(getattr(state, "value", state))


def _as_object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Refuse a reference: a custom XCom backend keeps the record itself elsewhere."""
    if not isinstance(value, dict):
        raise TypeError(
            "the XCom 'capture' does not hold a record; with a custom XCom backend it is where that backend keeps it"
        )
    return value


def status_word(record: CaptureRecord, status: CaptureStatus, outcome: str | None, run_state: str) -> str:
    """Choose a word by the record, the status in the checkpoint, the outcome of the commit and the run's state.

    What it means, and what to do next, is in the template.
    """
    context = record.context
    if context.settled:
        return "nothing to process"
    if context.is_detached:
        return "dry run" if context.request.dry_run else "detached"
    if context.replayed:
        return "replayed"
    if status.state is CaptureState.PENDING:
        return "not committed" if run_state in ("failed", "success") else "pending"
    if status.state is CaptureState.SUPERSEDED or outcome == "superseded":
        return "superseded"
    is_committed = status.state is CaptureState.COMMITTED or outcome in ("advanced", "already_done")
    return "committed" if is_committed else "unknown here"
