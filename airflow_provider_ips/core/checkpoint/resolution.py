"""What a run may capture: a new range, the range of its own earlier attempt, or one that it has committed before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, PendingCapture, is_made_by
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.identifiers import Source, digest
from airflow_provider_ips.core.positions import RunIdentity

CONSUMER_MARK: Final = 12
"""How many of the 32 digits of a capture's id are those of its consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """A new range, which starts at the committed position. ``superseded`` is the uncommitted capture it includes."""

    superseded: PendingCapture | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """The range that an earlier attempt of the same run captured and has not committed."""

    pending: PendingCapture


@dataclass(frozen=True, slots=True)
class Replay:
    """The range that the same run has committed as the newest one. It is never pending; its commit moves nothing."""

    committed: CommittedCapture


def resolve_capture(
    checkpoint: Checkpoint | None, run: RunIdentity, task_id: str | None = None, sources: Collection[Source] = ()
) -> Fresh | Retry | Replay:
    """Decide what this task of a run may capture. A committed run that a newer one has overtaken is refused.

    Example: run 1 has committed (0, 10], run 2 has committed (10, 20], run 3 has captured (20, 30] and failed.

        run 3, cleared     Retry of (20, 30]
        run 4              Fresh from 20, superseding run 3's capture
        run 2, cleared     Replay of (10, 20]
        run 1, cleared     refused: its old rows would be written over those of run 2

    Instances 0 and 1 of a mapped task group have one consumer and one source, and write to different targets:

        0 has committed, 1 captures    refused: 1 would find nothing, and its target would never get the rows
    """
    if checkpoint is None:
        return Fresh()
    if checkpoint.pending is not None and is_made_by(checkpoint.pending, run, task_id):
        return Retry(checkpoint.pending)
    wrote = [capture for capture in checkpoint.history if capture.wrote]
    if any(is_made_by(capture, run, task_id) for capture in wrote):
        if is_made_by(wrote[-1], run, task_id):
            return Replay(wrote[-1])
        raise _overtaken(checkpoint.consumer, run, wrote[-1])
    if any(_is_beside(capture, run, task_id, sources) for capture in checkpoint.history):
        raise _shared(checkpoint.consumer, run)
    return Fresh(superseded=checkpoint.pending, note=_note(checkpoint.pending, wrote, run))


def consumer_mark(consumer: str) -> str:
    """How the ids of a consumer's captures end: the stamp in a target shows by it whose rows were written."""
    return digest(consumer, "captures", length=CONSUMER_MARK)


def new_capture_id(checkpoint: Checkpoint | None, *, consumer: str, run: RunIdentity) -> str:
    """Name a new capture.

    The revision is part of it, because one run may make two new captures (superseded, then cleared), and the second
    range must not get the ICDC tables of the first.
    """
    revision = 0 if checkpoint is None else checkpoint.revision
    run_parts = (run.dag_id, run.run_id, str(run.map_index), run.run_after)
    return digest(consumer, *run_parts, str(revision), length=32 - CONSUMER_MARK) + consumer_mark(consumer)


def _is_beside(capture: CommittedCapture, run: RunIdentity, task_id: str | None, sources: Collection[Source]) -> bool:
    """Whether another task instance of the same run has committed one of the sources."""
    is_other = capture.run is not None and capture.run.is_of_run(run) and not is_made_by(capture, run, task_id)
    return is_other and any(r.source in sources for r in capture.ranges)


def _note(pending: PendingCapture | None, wrote: Sequence[CommittedCapture], run: RunIdentity) -> str:
    notes = []
    if pending is not None:
        notes.append(
            f"Run {pending.run} captured and never committed; this capture includes its range of each source that both "
            "capture."
        )
    newest = wrote[-1].run if wrote else None
    if newest is not None and _is_earlier(run.run_after, newest.run_after):
        notes.append(
            f"Run {run} is older than {newest}, which has committed, and is not known to have committed itself: "
            "it captures as new, from the committed position."
        )
    return " ".join(notes)


def _is_earlier(one: str, other: str) -> bool:
    try:
        return datetime.fromisoformat(one) < datetime.fromisoformat(other)
    except (TypeError, ValueError):
        return False


def _overtaken(consumer: str, run: RunIdentity, newest: CommittedCapture) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"run {run} of consumer {consumer!r} has committed, and run {newest.run} has committed after it",
        consequence="To process its range again now would write old rows over newer ones",
        remedy=f"go back to before it with `airflow ips rewind --consumer {consumer} --run-id {run.run_id}` and let "
        "the next run process everything since, or process its range detached, by `airflow ips replay`",
    )


def _shared(consumer: str, run: RunIdentity) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"another task instance of run {run} has committed the same source for consumer {consumer!r}",
        consequence="This one would find nothing, and its job would never process those rows",
        remedy="give each capture, and each instance of a mapped one, its own consumer: the default tells instances "
        "apart only by their sources; if the list that they are expanded over has changed in between, start a new run",
    )
