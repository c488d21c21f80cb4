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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import (
    MAX_SUPERSEDED,
    CommittedCapture,
    PendingCapture,
    SourcePosition,
    SourceRange,
    is_made_by,
)
from airflow_provider_ips.core.checkpoint.resolution import new_capture_id
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.positions import Position, RunIdentity, is_past, is_same

DEFAULT_HISTORY_LENGTH: Final = 50


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
    current = Checkpoint.of(checkpoint, consumer)
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
        retained=current.retained_with(current.pending),
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
    current = Checkpoint.of(checkpoint, consumer)
    _check_starts(current, ranges)
    if (
        checkpoint is not None
        and current.pending is None
        and all(is_same(r.from_exclusive, r.to_inclusive) for r in ranges)
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
        retained=current.retained_with(current.pending),
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
    retained = checkpoint.retained_with(checkpoint.replaying)
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
    released = tuple(table for table in checkpoint.retained if table not in pending.made)
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
        retained=() if keep_icdc else pending.made,
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
    if is_same(position, taken.from_exclusive):
        return _Place.START
    if is_same(position, taken.to_inclusive):
        return _Place.END
    if position is not None and is_past(position, taken.to_inclusive):
        return _Place.PAST
    return _Place.ELSEWHERE


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
        supersedes=tuple(dict.fromkeys((*earlier.supersedes, *later.supersedes)))[-MAX_SUPERSEDED:],
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
        if not is_same(position, r.from_exclusive):
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
