"""How a checkpoint moves: what a capture and its commit change in it.

All of it is pure. A transition takes the document that was read and returns the document to write; the store then
refuses the write if another writer was faster.

    resolve_capture ─ Fresh ──▶ begin ──▶ commit        the position moves to the captured end
                    │         └▶ settle_empty           nothing to process: it moves at once
                    ├ Retry(pending) ─────▶ commit      the same range as the attempt before
                    └ Replay(committed) ─ begin_replay ──▶ commit
                                                        the range of the newest committed run again, nothing moves
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import (
    CommittedCapture,
    PendingCapture,
    SourcePosition,
    SourceRange,
    is_made_by,
)
from airflow_provider_ips.core.checkpoint.resolution import new_capture_id
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.identifiers import Source, digest
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

DEFAULT_HISTORY_LENGTH: Final = 50
MAX_SUPERSEDED: Final = 50
"""How many superseded captures are remembered by their id: a commit of one of them succeeds and changes nothing."""


class CommitOutcome(StrEnum):
    """What a commit did."""

    ADVANCED = "advanced"
    ALREADY_DONE = "already_done"
    SUPERSEDED = "superseded"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The document after a commit; it is the one that was read unless the outcome is ADVANCED."""

    outcome: CommitOutcome
    checkpoint: Checkpoint
    drop: tuple[str, ...] = ()
    """ICDC tables to drop once the document is written."""


def begin(checkpoint: Checkpoint | None, *, consumer: str, pending: PendingCapture) -> Checkpoint:
    """Make a new capture the pending one, before any table is made for it."""
    current = _current(checkpoint, consumer)
    if current.pending is not None and current.pending.capture_id == pending.capture_id:
        return _already_pending(current, current.pending, pending)
    if any(capture.wrote and is_made_by(capture, pending.run, pending.task_id) for capture in current.history):
        raise _committed_already(consumer, pending.run)
    _check_starts(current, pending.ranges)
    return replace(
        current,
        revision=current.revision + 1,
        pending=replace(pending, supersedes=_superseded_ids(current.pending)),
        replaying=None,
        uncommitted=_left_uncommitted(current, pending.ranges),
        retained=_union(current.retained, _tables(current.pending)),
    )


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
    the next range (10, 30] has no trace of that row, unless it knows that somebody has written it

    committed up to 10; a detached run captures all rows, empties the target, and fails before it inserts
    the next range (10, 30] would be all that the target has, so a refresh is remembered until its own commit

    :param refreshes: its job may replace the whole target
    :param moved_heads: sources whose head does not descend from the checkpoint, so that an older end says nothing
    """
    current = _current(checkpoint, consumer)
    starting = [
        replace(r, from_exclusive=current.position_of(r.source), icdc_table=None, before_table=None)
        for r in detached.ranges
        if r.icdc_table is not None  # else there is no job
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
    return start is None or is_past(end, start) or (taken.source in moved_heads and not _is_same(start, end))


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
        retained=_union(checkpoint.retained, _tables(checkpoint.pending)),
    )


def without_commit(capture: PendingCapture) -> PendingCapture:
    """Remember a capture under another id, so that its late commit fails. What its job may have written stays known."""
    return replace(
        capture,
        capture_id=digest(capture.capture_id, "undone", length=32),
        supersedes=(*capture.supersedes, capture.capture_id)[-MAX_SUPERSEDED:],
    )


def settle_empty(
    checkpoint: Checkpoint | None,
    *,
    consumer: str,
    run: RunIdentity,
    ranges: Sequence[SourceRange],
    now_ms: int,
    history_length: int = DEFAULT_HISTORY_LENGTH,
) -> Checkpoint:
    """Move to the end of a range without rows at once, so that snapshot expiry cannot strand an idle consumer.

    Returns the very same checkpoint if there is nothing to write.
    """
    current = _current(checkpoint, consumer)
    _check_starts(current, ranges)
    if (
        checkpoint is not None
        and current.pending is None
        and all(_is_same(r.from_exclusive, r.to_inclusive) for r in ranges)
    ):
        return checkpoint
    capture = CommittedCapture(
        capture_id=new_capture_id(checkpoint, consumer=consumer, run=run),
        run=run,
        committed_at_ms=now_ms,
        ranges=tuple(ranges),
        supersedes=_superseded_ids(current.pending),
    )
    return replace(
        current,
        revision=current.revision + 1,
        positions=_advanced(current.positions, ranges),
        pending=None,
        uncommitted=_left_uncommitted(current, ranges),
        history=_append(current.history, capture, history_length),
        retained=_union(current.retained, _tables(current.pending)),
    )


def commit(
    checkpoint: Checkpoint | None,
    *,
    capture_id: str,
    run: RunIdentity,
    now_ms: int,
    keep_icdc: bool = False,
    history_length: int = DEFAULT_HISTORY_LENGTH,
    replay: bool = False,
) -> CommitResult:
    """Move the checkpoint to the end of its pending capture, in all sources at once.

    :param keep_icdc: keep this capture's ICDC tables for good; by default the next commit releases them
    :param replay: the capture was a :class:`Replay`, whose commit moves nothing
    """
    if checkpoint is None:
        raise _unknown_capture(capture_id, run, "there is no checkpoint")
    pending = checkpoint.pending
    held = next((c for c in checkpoint.begun if c.capture_id == capture_id), None)
    if held is not None:
        return _commit_pending(checkpoint, held, now_ms=now_ms, keep_icdc=keep_icdc, history_length=history_length)
    if replay:
        return CommitResult(outcome=CommitOutcome.REPLAYED, checkpoint=_without_replay(checkpoint, capture_id))
    done = next((c for c in reversed(checkpoint.history) if c.capture_id == capture_id), None)
    if done is not None:
        return CommitResult(outcome=CommitOutcome.ALREADY_DONE, checkpoint=checkpoint, drop=done.released)
    superseded = [*(c.supersedes for c in checkpoint.history), () if pending is None else pending.supersedes]
    if any(capture_id in ids for ids in superseded):
        return CommitResult(outcome=CommitOutcome.SUPERSEDED, checkpoint=checkpoint)
    raise _unknown_capture(capture_id, run, f"the checkpoint of {checkpoint.consumer!r} does not contain it")


def _without_replay(checkpoint: Checkpoint, capture_id: str) -> Checkpoint:
    """Other runs may capture again. Nothing is written if the replay was not shown to them."""
    if checkpoint.replaying is None or checkpoint.replaying.capture_id != capture_id:
        return checkpoint
    retained = _union(checkpoint.retained, _tables(checkpoint.replaying))
    return replace(checkpoint, revision=checkpoint.revision + 1, replaying=None, retained=retained)


def _commit_pending(
    checkpoint: Checkpoint, pending: PendingCapture, *, now_ms: int, keep_icdc: bool, history_length: int
) -> CommitResult:
    places = {_place(checkpoint.position_of(r.source), r) for r in pending.ranges}
    if _Place.ELSEWHERE in places or places >= {_Place.START, _Place.PAST}:
        raise _position_differs(checkpoint, pending)
    if _Place.START not in places:
        outcome = CommitOutcome.SUPERSEDED if _Place.PAST in places else CommitOutcome.ALREADY_DONE
        return CommitResult(outcome=outcome, checkpoint=checkpoint)
    released = tuple(table for table in checkpoint.retained if table not in pending.icdc_tables)
    capture = CommittedCapture(
        capture_id=pending.capture_id,
        run=pending.run,
        committed_at_ms=now_ms,
        ranges=pending.ranges,
        supersedes=pending.supersedes,
        released=released,
        task_id=pending.task_id,
    )
    moved = replace(
        checkpoint,
        revision=checkpoint.revision + 1,
        positions=_advanced(checkpoint.positions, pending.ranges),
        pending=None if checkpoint.pending is pending else checkpoint.pending,
        uncommitted=tuple(c for c in checkpoint.uncommitted if c is not pending),
        history=_append(checkpoint.history, capture, history_length),
        retained=() if keep_icdc else pending.icdc_tables,
    )
    return CommitResult(outcome=CommitOutcome.ADVANCED, checkpoint=moved, drop=released)


class _Place(StrEnum):
    """Where the committed position of a source is, relative to a captured range.

    For the range (10, 20]:

    10   START       a commit moves it to 20
    20   END         the range is committed already
    30   PAST        a later range is committed already
    15   ELSEWHERE   it was changed by hand: to move it would lose or repeat rows, so the commit is refused
    """

    START = "start"
    END = "end"
    PAST = "past"
    ELSEWHERE = "elsewhere"


def _place(position: Position | None, taken: SourceRange) -> _Place:
    if _is_same(position, taken.from_exclusive):
        return _Place.START
    if _is_same(position, taken.to_inclusive):
        return _Place.END
    if position is not None and is_past(position, taken.to_inclusive):
        return _Place.PAST
    return _Place.ELSEWHERE


def is_past(position: Position, other: Position) -> bool:
    """Whether a position is later than another of the same table. Format v1 has no sequence numbers: time decides."""
    if position.table_uuid != other.table_uuid:
        return False
    mine, theirs = (position.sequence_number, other.sequence_number)
    return mine > theirs if mine != theirs else position.committed_at_ms > other.committed_at_ms


def _is_same(one: Position | None, other: Position | None) -> bool:
    """Positions are equal if table and snapshot are; their other fields only describe the snapshot."""
    if one is None or other is None:
        return one is other
    return (one.table_uuid, one.snapshot_id) == (other.table_uuid, other.snapshot_id)


def _current(checkpoint: Checkpoint | None, consumer: str) -> Checkpoint:
    return Checkpoint(consumer=consumer, revision=0) if checkpoint is None else checkpoint


def _advanced(positions: tuple[SourcePosition, ...], ranges: Iterable[SourceRange]) -> tuple[SourcePosition, ...]:
    """Set the position of every source of a capture to the end of its range; other sources keep theirs."""
    moved = {p.source: p for p in positions}
    for r in ranges:
        moved[r.source] = SourcePosition(source=r.source, position=r.to_inclusive)
    return tuple(moved[source] for source in sorted(moved))


def _append(
    history: tuple[CommittedCapture, ...], capture: CommittedCapture, length: int
) -> tuple[CommittedCapture, ...]:
    """Keep the latest ``length`` captures that wrote; consecutive empty ones become a single entry.

    Otherwise an idle consumer would push the runs that wrote out of the history.
    """
    kept = tuple(replace(c, released=()) if capture.wrote else c for c in history)
    if kept and not capture.wrote and (merged := _merged_empty(kept[-1], capture)):
        return (*kept[:-1], merged)
    everything = (*kept, capture)
    wrote = [index for index, entry in enumerate(everything) if entry.wrote]
    return everything[wrote[-length] :] if len(wrote) > length else everything


def _merged_empty(earlier: CommittedCapture, later: CommittedCapture) -> CommittedCapture | None:
    starts = {r.source: r.from_exclusive for r in earlier.ranges}
    if earlier.run is None or earlier.wrote or set(starts) != {r.source for r in later.ranges}:
        return None
    return replace(
        later,
        ranges=tuple(replace(r, from_exclusive=starts[r.source]) for r in later.ranges),
        supersedes=_union(earlier.supersedes, later.supersedes)[-MAX_SUPERSEDED:],
    )


def _left_uncommitted(current: Checkpoint, ranges: Iterable[SourceRange]) -> tuple[PendingCapture, ...]:
    """Supersede uncommitted captures source by source, and return what is left of them.

    pending of two sources, then a capture of the first only: the range of the second is left, and the next capture of
    that source knows that a job may have written its rows.
    """
    taken = {r.source for r in ranges}
    rest = (replace(c, ranges=tuple(r for r in c.ranges if r.source not in taken)) for c in current.begun)
    return tuple(c for c in rest if c.ranges)


def _superseded_ids(pending: PendingCapture | None) -> tuple[str, ...]:
    return () if pending is None else (*pending.supersedes, pending.capture_id)[-MAX_SUPERSEDED:]


def _tables(pending: PendingCapture | None) -> tuple[str, ...]:
    return () if pending is None else pending.icdc_tables


def _union(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry for part in parts for entry in part))


def _already_pending(current: Checkpoint, known: PendingCapture, begun: PendingCapture) -> Checkpoint:
    if (known.run, known.ranges) == (begun.run, begun.ranges):
        return current
    raise CheckpointConflictError(
        f"capture {begun.capture_id} of consumer {current.consumer!r} is pending already with another range",
        consequence="Two ranges under one name would share an ICDC table",
        remedy="clear the capture task: it captures the pending range again",
    )


def _check_starts(current: Checkpoint, ranges: Iterable[SourceRange]) -> None:
    for r in ranges:
        position = current.position_of(r.source)
        if not _is_same(position, r.from_exclusive):
            raise CheckpointConflictError(
                f"the capture of {r.source.label!r} starts after {_shown(r.from_exclusive)}, "
                f"but consumer {current.consumer!r} is at {_shown(position)}",
                consequence="Another run or a command has moved the checkpoint; the range would repeat or miss rows",
                remedy="let the capture task run again: it starts from the new position",
            )


def _committed_already(consumer: str, run: RunIdentity) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"run {run} of consumer {consumer!r} has committed already and cannot begin a new capture",
        consequence="Its rows would be processed a second time under a new range",
        remedy="clear the capture task again, which replays the committed range",
    )


def _position_differs(checkpoint: Checkpoint, pending: PendingCapture) -> CheckpointConflictError:
    where = "; ".join(
        f"{r.source} is at {_shown(checkpoint.position_of(r.source))}, captured from "
        f"{_shown(r.from_exclusive)} to {r.to_inclusive}"
        for r in pending.ranges
    )
    return CheckpointConflictError(
        f"capture {pending.capture_id} of consumer {checkpoint.consumer!r} does not fit its checkpoint: {where}",
        consequence="Nothing was committed: to move the checkpoint from there would lose or repeat rows",
        remedy="see `airflow ips show`, then clear the capture task and all tasks after it",
    )


def _unknown_capture(capture_id: str, run: RunIdentity, why: str) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"capture {capture_id} of run {run} cannot be committed: {why}",
        consequence="Since it began it was abandoned, reset or rewound, or the run before it was cleared and wrote its "
        "older rows again; so nothing moves, and its rows may be captured again",
        remedy="see `airflow ips history`, then clear the capture task and all tasks after it",
    )


def _shown(position: Position | None) -> str:
    return "no committed position" if position is None else str(position)
