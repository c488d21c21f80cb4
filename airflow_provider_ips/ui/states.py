"""The states of a consumer: their words, what each means and asks of people, and which one a consumer has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow.configuration import conf

from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting
from airflow_provider_ips.ui.deployment import CaptureTask, Document, FailedCapture

if TYPE_CHECKING:
    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.checkpoint.entries import Intervention
    from airflow_provider_ips.core.positions import RunIdentity


_MOVING: Final = ("rewind", "reset", "seed", "abandon")
"""Commands after which the next run captures something else than what it would have."""


_RESTING: Final = ("idle", "never ran", "changed by hand")
"""States in which a failed capture is news: others say already that a run has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A word for the state of a consumer, its colour, what it means, and what to do."""

    word: str
    tone: str
    meaning: str
    next_step: str
    urgency: int = 0
    """Rows with a higher one come first."""


_STATES: Final = (
    State(
        word="damaged",
        tone="failed",
        meaning="The checkpoint document cannot be read, so nothing is captured or committed.",
        next_step="Restore the document from a backup, or remove it and set the position by Seed.",
        urgency=90,
    ),
    State(
        word="gap",
        tone="failed",
        meaning="A source lacks what proves the range since the last commit, so the next capture stops.",
        next_step="Choose by on_gap how to go on: the error of the next capture says what each choice costs.",
        urgency=85,
    ),
    State(
        word="stranded soon",
        tone="failed",
        meaning="Less time is left until expiry may remove what proves the range than its oldest commit has waited.",
        next_step="Let a run commit before the runway ends, or have the source keep its snapshots for longer.",
        urgency=80,
    ),
    State(
        word="failed and uncommitted",
        tone="failed",
        meaning="A run captured a range and ended without a commit. No rows are lost: the checkpoint is still at the "
        "start of the range.",
        next_step="Clear the failed tasks of the run to process the same range. Or do nothing: the next run covers it.",
        urgency=70,
    ),
    State(
        word="capture failed",
        tone="failed",
        meaning="Its capture failed when it ran last. What was committed before stays committed; what came since then "
        "waits.",
        next_step="Read the capture's log: the error says what to do. Then clear it, or wait for the next run.",
        urgency=72,
    ),
    State(
        word="refresh failed",
        tone="failed",
        meaning="A run was to replace the whole target and ended without a commit. The target may be empty, so other "
        "runs of this consumer are refused.",
        next_step="Clear the failed tasks of that run, or trigger another full refresh. If its job wrote nothing, "
        "Abandon with “wrote nothing”.",
        urgency=75,
    ),
    State(
        word="green without commit",
        tone="warning",
        meaning="A run captured a range and ended as a success, but nothing was committed: the checkpoint is still at "
        "the start of the range.",
        next_step="Look at the commit task of the run: it was skipped, or marked by hand. The next run covers the "
        "range again.",
        urgency=65,
    ),
    State(
        word="run deleted",
        tone="warning",
        meaning="A run captured a range, and was deleted before it committed.",
        next_step="Nothing to do: the next run captures the range again.",
        urgency=60,
    ),
    State(
        word="no commit in its DAG",
        tone="warning",
        meaning="The DAG has this capture and no IpCommitOperator downstream of it, so its checkpoint never moves.",
        next_step="Add an IpCommitOperator downstream of the job, and deploy the DAG.",
        urgency=50,
    ),
    State(
        word="moved",
        tone="none",
        meaning="The checkpoint was moved to another store. This document is what it was then.",
        next_step="Look it up there: the command airflow ips show reads either store.",
        urgency=15,
    ),
    State(
        word="running",
        tone="running",
        meaning="A run has captured a range and is at work.",
        next_step="Wait: its commit moves the checkpoint when every task in between has succeeded.",
        urgency=30,
    ),
    State(
        word="elsewhere",
        tone="running",
        meaning="A run of another Airflow captured a range. Whether it is still at work is not known here.",
        next_step="Look there.",
        urgency=40,
    ),
    State(
        word="never ran",
        tone="none",
        meaning="A DAG has this capture, and no checkpoint is in a Variable: it has not committed yet, or keeps its "
        "checkpoint in Iceberg.",
        next_step="Trigger the DAG, or seed a position before its first run.",
        urgency=20,
    ),
    State(
        word="backfills",
        tone="none",
        meaning="Its captures are chunks of backfills, which move no checkpoint.",
        next_step="Nothing to do here: the page Stages says how far each backfill is.",
        urgency=5,
    ),
    State(
        word="changed by hand",
        tone="warning",
        meaning="A person has moved the checkpoint, and no run has committed since then.",
        next_step="Trigger the DAG, or wait for its next run: it captures from the new position.",
        urgency=25,
    ),
    State(
        word="idle",
        tone="success",
        meaning="Everything that was captured is committed.",
        next_step="Nothing to do.",
    ),
)
STATES: Final[Mapping[str, State]] = {state.word: state for state in _STATES}


def state_of(
    document: Document,
    task: CaptureTask | None,
    seen: ConsumerSighting | None,
    run_states: Mapping[RunIdentity, str],
    now_ms: int,
) -> State:
    """Choose the state that needs people most: by the document, by its run, and by what was seen of its sources."""
    word = _word(document, task, seen, run_states)
    words = [word, *(() if seen is None or word == "moved" else _words_of_sources(seen, now_ms))]
    return max((STATES[each] for each in words), key=lambda state: state.urgency)


def unless_failed(state: State, checkpoint: Checkpoint | None, failed: FailedCapture | None) -> State:
    """Put a capture that failed before the state of a consumer at rest, unless something was done about it since."""
    if failed is None or state.word not in _RESTING:
        return state
    history, changes = (checkpoint.history, checkpoint.interventions) if checkpoint is not None else ((), ())
    since = max([*(each.committed_at_ms for each in history[-1:]), *(each.at_ms for each in changes[-1:]), 0])
    return STATES["capture failed"] if failed.at_ms > since else state


def _words_of_sources(seen: ConsumerSighting, now_ms: int) -> Iterator[str]:
    if any(each.gap is not None for each in seen.sources):
        yield "gap"
    if any(each.is_stranded_soon(now_ms) for each in seen.sources):
        yield "stranded soon"


def _word(
    document: Document, task: CaptureTask | None, seen: ConsumerSighting | None, states: Mapping[RunIdentity, str]
) -> str:
    checkpoint = document.checkpoint
    if document.problem or (checkpoint is not None and checkpoint.moved_to is not None):
        return "damaged" if document.problem else "moved"
    if (run := pending_run(document, seen)) is not None:
        return _word_of_pending(run, task, states)
    if any(_is_active(states.get(run)) for run in runs_beside(checkpoint)):
        return "running"
    if checkpoint is not None and any(capture.refreshes for capture in checkpoint.uncommitted):
        return "refresh failed"
    return _word_of_resting(checkpoint, task, seen)


def _word_of_resting(checkpoint: Checkpoint | None, task: CaptureTask | None, seen: ConsumerSighting | None) -> str:
    """Choose among the words of consumers without a run at work, and without one that has left something."""
    if task is not None and not task.has_commit:
        return "no commit in its DAG"
    if task is not None and task.takes_chunks:
        return "backfills"
    if changed_by_hand(checkpoint) is not None:
        return "changed by hand"
    has_committed = seen is not None and any(each.committed is not None for each in seen.sources)
    is_new = not has_committed if checkpoint is None else checkpoint.is_blank
    return "never ran" if is_new else "idle"


def changed_by_hand(checkpoint: Checkpoint | None) -> Intervention | None:
    """Return the newest change that a person made, if no run has committed since."""
    if checkpoint is None or not checkpoint.interventions:
        return None
    newest = checkpoint.interventions[-1]
    committed_at_ms = checkpoint.history[-1].committed_at_ms if checkpoint.history else 0
    return newest if newest.verb in _MOVING and newest.at_ms > committed_at_ms else None


def pending_run(document: Document, seen: ConsumerSighting | None) -> RunIdentity | None:
    """Return the run that has captured and not committed; of a checkpoint in Iceberg, as it was seen last."""
    if document.checkpoint is not None:
        return None if document.checkpoint.pending is None else document.checkpoint.pending.run
    return None if seen is None or seen.pending is None else seen.pending.run


def runs_beside(checkpoint: Checkpoint | None) -> list[RunIdentity]:
    """Return the runs that others wait for though they move no checkpoint: a replay, and refreshes of the target."""
    if checkpoint is None:
        return []
    refreshes = [capture for capture in checkpoint.uncommitted if capture.refreshes]
    return [capture.run for capture in (checkpoint.replaying, *refreshes) if capture is not None]


def _is_active(state: str | None) -> bool:
    return state in ("queued", "running")


def _word_of_pending(run: RunIdentity, task: CaptureTask | None, states: Mapping[RunIdentity, str]) -> str:
    here = conf.get("api", "base_url", fallback="") or None
    if run.deployment not in (None, here):
        return "elsewhere"
    state = states.get(run)
    if _is_active(state):
        return "running"
    if task is not None and not task.has_commit:
        return "no commit in its DAG"
    if state is None:
        return "run deleted"
    return "green without commit" if state == "success" else "failed and uncommitted"
