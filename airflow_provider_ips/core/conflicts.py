"""The errors of a checkpoint that cannot move: who stands where, what would go wrong, and the way on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import CheckpointConflictError

if TYPE_CHECKING:
    from airflow_provider_ips.core.checkpoint import Checkpoint, CommittedCapture, PendingCapture, SourceRange
    from airflow_provider_ips.core.positions import Position, RunIdentity


def shown(position: Position | None) -> str:
    """Name a position, or its absence."""
    return "nothing committed" if position is None else str(position)


def capture_starts_elsewhere(consumer: str, taken: SourceRange, position: Position | None) -> CheckpointConflictError:
    """The document moved between planning and beginning."""
    return CheckpointConflictError(
        f"the capture of {taken.source!r} starts behind {shown(taken.from_exclusive)}, "
        f"but consumer {consumer!r} stands at {shown(position)}",
        consequence="Another run or a command moved the checkpoint meanwhile; the range would repeat or miss rows",
        remedy="let the capture task run again: it starts from where the consumer stands then",
    )


def pending_under_another_range(consumer: str, capture_id: str) -> CheckpointConflictError:
    """One capture id, two ranges."""
    return CheckpointConflictError(
        f"capture {capture_id} of consumer {consumer!r} is pending already with another range",
        consequence="Two ranges under one name would share an ICDC table",
        remedy="clear the capture task: it takes up the pending range",
    )


def begun_after_commit(consumer: str, run: RunIdentity) -> CheckpointConflictError:
    """A committed run is replayed, never begun again."""
    return CheckpointConflictError(
        f"run {run} of consumer {consumer!r} has committed already and cannot begin a new capture",
        consequence="Its rows would be processed a second time under a new range",
        remedy="clear the capture task again, which replays the committed range",
    )


def moved_away(checkpoint: Checkpoint, pending: PendingCapture) -> CheckpointConflictError:
    """The pending range does not start where the consumer stands."""
    where = "; ".join(
        f"{r.source} stands at {shown(checkpoint.position_of(r.source, r.branch))}, captured from "
        f"{shown(r.from_exclusive)} to {r.to_inclusive}"
        for r in pending.ranges
    )
    return CheckpointConflictError(
        f"capture {pending.capture_id} of consumer {checkpoint.consumer!r} does not fit its checkpoint: {where}",
        consequence="Nothing was committed: moving from elsewhere would lose or repeat rows",
        remedy="see `airflow ips show`, then clear the capture task and what follows it",
    )


def unknown_capture(capture_id: str, run: RunIdentity, why: str) -> CheckpointConflictError:
    """A commit of something that the document does not know."""
    return CheckpointConflictError(
        f"capture {capture_id} of run {run} cannot be committed: {why}",
        consequence="It was abandoned, reset or rewound since it began, so nothing moves; its rows may come again",
        remedy="see `airflow ips history`, then clear the capture task and what follows it",
    )


def older_run(consumer: str, run: RunIdentity, newest: CommittedCapture) -> CheckpointConflictError:
    """A cleared run that newer ones have overtaken."""
    return CheckpointConflictError(
        f"run {run} of consumer {consumer!r} has committed, and run {newest.run} has committed after it",
        consequence="To process its range again now would write old rows over newer ones",
        remedy=f"go back to before it with `airflow ips rewind --consumer {consumer} --run-id {run.run_id}` and let "
        "the next run process everything since, or process its range detached, by `airflow ips replay`",
    )
