"""What runs that move no position leave in a checkpoint: replays, and captures detached from it.

detached capture   remember_detached   what its job may write from beyond the position, and whether it replaces all
its commit         commit_refresh      usual runs may go on
replay             begin_replay        other runs leave the target to it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import MAX_SUPERSEDED, PendingCapture, SourceRange
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.identifiers import Source, digest
from airflow_provider_ips.core.positions import is_past, is_same
from airflow_provider_ips.core.record import Kind


def remember_detached(
    checkpoint: Checkpoint | None,
    *,
    consumer: str,
    detached: PendingCapture,
    follows_changes: bool = True,
    refreshes: bool = False,
    moved_heads: Collection[Source] = (),
) -> Checkpoint | None:
    """Remember what the job of a detached run may write, because the checkpoint does not move.

    committed up to 10; a detached run writes rows of 11 to 20; a delete at 25 removes a row of 15
    the next range (10, 30] has no trace of that row, unless it knows that a run has written it

    committed up to 10; a detached run captures all rows, empties the target, and fails before it inserts
    the next range (10, 30] would be all that the target has, so a refresh is remembered until its own commit

    :param refreshes: its job may replace the whole target
    :param moved_heads: sources whose head does not descend from the checkpoint, so that an older end says nothing
    """
    current = Checkpoint.of(checkpoint, consumer)
    starting = [
        replace(r, from_exclusive=current.position_of(r.source), icdc_table=None, before_table=None)
        for r in detached.ranges
        if r.kind is not Kind.EMPTY or r.icdc_table is not None  # else there is no job
    ]
    ahead = [replace(r, kind=Kind.RANGE) for r in starting if follows_changes and _may_be_unknown(r, moved_heads)]
    whole = [replace(r, kind=Kind.FULL) for r in starting if refreshes]
    _refuse_older_than_pending(current, detached, (*ahead, *whole))
    known = {(c.capture_id, r.kind) for c in current.uncommitted for r in c.ranges}
    new = tuple(
        replace(detached, ranges=tuple(ranges))
        for ranges in (ahead, whole)
        if ranges and (detached.capture_id, ranges[0].kind) not in known
    )
    if not new:
        return checkpoint
    return replace(current, revision=current.revision + 1, uncommitted=(*current.uncommitted, *new))


def _may_be_unknown(taken: SourceRange, moved_heads: Collection[Source]) -> bool:
    """Whether rows up to the end of a range may be others than those up to the position that it starts at.

    committed up to 2, which removed a row of 1; rolled back to 1, and a refresh writes that row; 3 removes it again
    """
    start, end = taken.from_exclusive, taken.to_inclusive
    return start is None or is_past(end, start) or (taken.source in moved_heads and not is_same(start, end))


def commit_refresh(checkpoint: Checkpoint | None, *, capture_id: str) -> Checkpoint | None:
    """Let usual runs go on after a detached refresh of all rows: its job has done its work.

    A refresh before it that failed is repaired by it. What that one may have written stays known.

    Returns the very same checkpoint if nothing waits for this refresh.
    """
    found = () if checkpoint is None else checkpoint.uncommitted
    done = [c for c in found if capture_id in (c.capture_id, *c.supersedes) and c.refreshes]
    if checkpoint is None or not done:
        return checkpoint
    repaired = {r.source for c in done for r in c.ranges}
    rest = (
        replace(c, ranges=tuple(replace(r, kind=Kind.RANGE) if r.source in repaired else r for r in c.ranges))
        for c in found
        if c not in done
    )
    return replace(checkpoint, revision=checkpoint.revision + 1, uncommitted=tuple(rest))


def _refuse_older_than_pending(current: Checkpoint, detached: PendingCapture, ahead: Iterable[SourceRange]) -> None:
    """Refuse rows that a pending capture does not know of, because its range was fixed before they were written.

    a detached run captured up to 20 and failed; the pending capture (10, 30] followed; the detached run is cleared
    it would write a row of 15 that was deleted at 25, and the commit of (10, 30] would leave it in the target
    """
    pending = current.pending
    ends = {} if pending is None else {r.source: r.to_inclusive for r in pending.ranges}
    if pending is None or not any(r.source in ends and is_past(ends[r.source], r.to_inclusive) for r in ahead):
        return
    raise CheckpointConflictError(
        f"run {detached.run} captured rows as they were before run {pending.run} captured, which is not committed yet",
        consequence="Rows that were deleted or changed in between would be written again, and stay",
        remedy=f"let run {pending.run} commit first; then trigger a new run with the same request",
    )


def begin_replay(checkpoint: Checkpoint, replay: PendingCapture) -> Checkpoint:
    """Show other runs that a cleared run processes the newest committed range again, before it has any table.

    Until its commit the target may hold a part of that range twice, or lack it. What was captured since can no longer
    be committed:

    committed (0, 10]; (10, 20] was captured and written, and its run died; now the rows of (0, 10] are written over it
    a late commit of (10, 20] would leave them there; a new capture from 10 includes what that run has written

    Returns the very same checkpoint if it shows this replay already.
    """
    known = checkpoint.replaying
    if known is not None and (known.capture_id, known.ranges) == (replay.capture_id, replay.ranges):
        return checkpoint
    return replace(
        checkpoint,
        revision=checkpoint.revision + 1,
        pending=None,
        replaying=replay,
        uncommitted=tuple(without_commit(capture) for capture in checkpoint.begun),
        retained=checkpoint.retained_with(checkpoint.pending),
    )


def without_commit(capture: PendingCapture) -> PendingCapture:
    """Remember a capture under another id, so that its late commit fails. What its job may have written stays known."""
    return replace(
        capture,
        capture_id=digest(capture.capture_id, "undone", length=32),
        supersedes=(*capture.supersedes, capture.capture_id)[-MAX_SUPERSEDED:],
    )
