"""What the record page shows of each capture: its record, its status since then, and links to related runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.models.dagrun import DagRun
from sqlalchemy import select

from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.checkpoint.capture_status import CaptureState, CaptureStatus, capture_status
from airflow_provider_ips.core.json_fields import PARSE_ERRORS, explain
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.sightings import read_consumer
from airflow_provider_ips.ui import urls
from airflow_provider_ips.ui.rendering import render_part
from airflow_provider_ips.ui.rights import may_see_runs
from airflow_provider_ips.ui.stored_runs import (
    StoredXCom,
    find_captures,
    read_captures_of,
    read_checkpoint,
    read_commits,
    read_records,
)

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from sqlalchemy.orm import Session

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting


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
    neighbours: tuple[Link, ...] = ()
    """The page of the consumer, and the captures before and after this one."""

    task_url: str
    html: str = ""


def find_captures_of_task(
    session: Session,
    *,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int | None,
    user: BaseUser,
) -> list[CapturePage]:
    """Find what a capture task recorded in a run: one entry for each map index.

    :param user: The reader. DAGs with different readers may share a consumer.
    """
    records = read_records(session, dag_id=dag_id, run_id=run_id, task_ids=[task_id], map_index=map_index)
    if not records:
        return []
    outcomes = {
        str(commit.get("capture_id")): str(commit.get("outcome"))
        for commit in read_commits(session, dag_id=dag_id, run_id=run_id)
    }
    run_state = _run_state(session, dag_id, run_id)

    def may_see(other: str) -> bool:
        return other == dag_id or may_see_runs(user, other)

    return [with_html(_page(session, dag_id, record, outcomes, run_state, may_see)) for record in records]


def with_html(page: CapturePage) -> CapturePage:
    """Render one capture by itself: a damaged record may hold what cannot be shown, such as a time in no calendar."""
    try:
        return replace(page, html=render_part("capture.html", page=page))
    except (ArithmeticError, OSError, ValueError) as error:
        unreadable = replace(page, record=None, unreadable=str(error))
        return replace(unreadable, html=render_part("capture.html", page=unreadable))


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
    checkpoint = read_checkpoint(record.consumer)
    status = capture_status(checkpoint, record.capture_id)
    seen = read_consumer(ServerVariables(), record.consumer) if checkpoint is None and record.consumer else None
    return CapturePage(
        map_index=stored.map_index,
        record=record,
        word=status_word(record, checkpoint, outcomes.get(record.capture_id), run_state, seen),
        status=status,
        run_state=run_state,
        superseded_by=superseded_by(status, dag_id, may_see),
        supersedes=_supersedes(session, dag_id, status, stored.run_id),
        neighbours=_neighbours(session, dag_id, stored, record.consumer),
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


def _neighbours(session: Session, dag_id: str, stored: StoredXCom, consumer: str) -> tuple[Link, ...]:
    """Link to the consumer, and to its captures before and after this one, among those of the newest runs."""
    captures = read_captures_of(session, [dag_id], consumer)
    places = [(each.run_id, each.task_id, each.map_index) for each in captures]
    own = (stored.run_id, stored.task_id, stored.map_index)
    at = places.index(own) if own in places else None
    found = [Link(text=consumer, url=urls.consumer_page(dag_id, consumer))]
    for text, step in (("previous capture", 1), ("next capture", -1)):
        if at is not None and 0 <= at + step < len(places):
            found.append(Link(text=text, url=urls.record_page(dag_id, *places[at + step])))
    return tuple(found)


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


def status_word(
    record: CaptureRecord,
    checkpoint: Checkpoint | None,
    outcome: str | None,
    run_state: str,
    seen: ConsumerSighting | None = None,
) -> str:
    """Choose a word by the record, the checkpoint as it is now, the outcome of the commit and the run's state.

    What it means, and what to do next, is in the template.

    :param seen: what was seen of the consumer, which shows what is pending where its checkpoint is in Iceberg
    """
    context, state = record.context, capture_status(checkpoint, record.capture_id).state
    if context.is_detached or context.replayed:
        kind = "dry run" if context.request.dry_run else "detached"
        return "replayed" if context.replayed else kind
    last_seen = None if checkpoint is not None or outcome is not None or seen is None else seen.pending
    if state is CaptureState.PENDING or (last_seen is not None and last_seen.capture_id == record.capture_id):
        return "not committed" if run_state in ("failed", "success") else "pending"
    if state is CaptureState.GIVEN_UP:
        return "given up"
    if state is CaptureState.SUPERSEDED or outcome == "superseded":
        return "superseded"
    return _word_of_committed(record, checkpoint, state, outcome)


def _word_of_committed(
    record: CaptureRecord, checkpoint: Checkpoint | None, state: CaptureState, outcome: str | None
) -> str:
    """Choose among the words of captures that were committed, as the checkpoint or the commit says."""
    was_committed = record.context.settled or outcome in ("advanced", "already_done")
    if was_committed and state is CaptureState.UNKNOWN and _was_undone(record, checkpoint):
        return "rewound"
    if record.context.settled:
        return "nothing to process"
    if was_committed or state is CaptureState.COMMITTED:
        return "committed"
    # `abandon --wrote-nothing` leaves nothing of a capture in the document but that a person has abandoned one.
    changes = () if checkpoint is None else checkpoint.interventions
    is_given_up = any(each.verb == "abandon" for each in changes) and _was_undone(record, checkpoint)
    return "given up" if is_given_up else "unknown here"


def _was_undone(record: CaptureRecord, checkpoint: Checkpoint | None) -> bool:
    """Whether a source's position is before the end of what was committed: a person has moved or removed it."""
    if checkpoint is None:
        return False
    now = {each.source: checkpoint.position_of(each.source) for each in record.sources}
    return any(
        (at := now[each.source]) is None or at.sequence_number < each.to_inclusive.sequence_number
        for each in record.sources
    )
