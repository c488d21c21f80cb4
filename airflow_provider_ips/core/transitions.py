"""How a checkpoint moves: what a capture may take, and what a commit may change.

All of it is pure. A transition takes the document that was read and returns the document to write; the store then
refuses the write if somebody else has written meanwhile.

    resolve_capture ─ Fresh ──▶ begin ──▶ commit        the position moves to the captured end
                    │         └▶ settle_empty           nothing to process: it moves at once
                    ├ Retry(pending) ─────▶ commit      the same range as the attempt before
                    └ Replay(committed) ──▶ commit      the range of the newest committed run again, nothing moves
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.checkpoint import (
    Checkpoint,
    CommittedCapture,
    PendingCapture,
    SourcePosition,
    SourceRange,
)
from airflow_provider_ips.core.conflicts import (
    begun_after_commit,
    capture_starts_elsewhere,
    moved_away,
    older_run,
    pending_under_another_range,
    unknown_capture,
)
from airflow_provider_ips.core.identifiers import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_ips.core.positions import Position, RunIdentity

DEFAULT_HISTORY_LENGTH: Final = 50
MAX_SUPERSEDED: Final = 50
"""How many superseded captures are remembered by their id; a commit of one of these ends well, others fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """A range that starts at the committed position. ``superseded`` is the uncommitted capture that it will cover."""

    superseded: PendingCapture | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """The same run again before it committed: the same range."""

    pending: PendingCapture


@dataclass(frozen=True, slots=True)
class Replay:
    """The newest committed run again: its range, never pending, and its commit moves nothing."""

    committed: CommittedCapture


class CommitOutcome(StrEnum):
    """What a commit found and did."""

    ADVANCED = "advanced"
    ALREADY_DONE = "already_done"
    SUPERSEDED = "superseded"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The document after a commit, unchanged unless ADVANCED. ``drop`` may go once the document is written."""

    outcome: CommitOutcome
    checkpoint: Checkpoint
    drop: tuple[str, ...] = ()


def resolve_capture(checkpoint: Checkpoint | None, run: RunIdentity) -> Fresh | Retry | Replay:
    """Decide what this run may capture, from what the document remembers about it."""
    if checkpoint is None:
        return Fresh()
    if checkpoint.pending is not None and checkpoint.pending.run == run:
        return Retry(checkpoint.pending)
    wrote = [capture for capture in checkpoint.history if capture.wrote]
    if any(capture.run == run for capture in wrote):
        if wrote[-1].run == run:
            return Replay(wrote[-1])
        raise older_run(checkpoint.consumer, run, wrote[-1])
    return Fresh(superseded=checkpoint.pending, note=_note(checkpoint.pending, wrote, run))


def new_capture_id(checkpoint: Checkpoint | None, *, consumer: str, run: RunIdentity) -> str:
    """Name a fresh capture.

    The revision is part of it, because a run may capture afresh twice (superseded, then cleared): another range must
    not get the ICDC tables of the first.
    """
    revision = 0 if checkpoint is None else checkpoint.revision
    return digest(consumer, run.dag_id, run.run_id, str(run.map_index), run.run_after, str(revision), length=32)


def begin(checkpoint: Checkpoint | None, *, consumer: str, pending: PendingCapture) -> Checkpoint:
    """Make a fresh capture the pending one, before anything is built for it."""
    current = _current(checkpoint, consumer)
    if current.pending is not None and current.pending.capture_id == pending.capture_id:
        return _begun_already(current, current.pending, pending)
    if any(capture.wrote and capture.run == pending.run for capture in current.history):
        raise begun_after_commit(consumer, pending.run)
    _refuse_moved(current, pending.ranges)
    superseded = current.pending
    return replace(
        current,
        revision=current.revision + 1,
        pending=replace(pending, supersedes=_supersedes(superseded)),
        retained=_union(current.retained, () if superseded is None else superseded.icdc_tables),
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
    """Move past a range that holds nothing, so that snapshot expiry cannot strand an idle consumer.

    Returns the very same checkpoint if there is nothing to write.
    """
    current = _current(checkpoint, consumer)
    _refuse_moved(current, ranges)
    if (
        checkpoint is not None
        and current.pending is None
        and all(_same(r.from_exclusive, r.to_inclusive) for r in ranges)
    ):
        return checkpoint
    capture = CommittedCapture(
        capture_id=new_capture_id(checkpoint, consumer=consumer, run=run),
        run=run,
        committed_at_ms=now_ms,
        ranges=tuple(ranges),
        supersedes=_supersedes(current.pending),
    )
    return replace(
        current,
        revision=current.revision + 1,
        positions=_moved(current.positions, ranges),
        pending=None,
        history=_remember(current.history, capture, history_length),
        retained=_union(current.retained, () if current.pending is None else current.pending.icdc_tables),
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

    ``keep_icdc`` leaves this capture's ICDC tables alone for good; otherwise the next commit lets them go. ``replay``
    says that the capture was a :class:`Replay`, whose commit moves nothing.
    """
    if checkpoint is None:
        raise unknown_capture(capture_id, run, "there is no checkpoint")
    pending = checkpoint.pending
    if pending is not None and pending.capture_id == capture_id:
        return _commit_pending(checkpoint, pending, now_ms=now_ms, keep_icdc=keep_icdc, history_length=history_length)
    if replay:
        return CommitResult(outcome=CommitOutcome.REPLAYED, checkpoint=checkpoint)
    done = next((c for c in reversed(checkpoint.history) if c.capture_id == capture_id), None)
    if done is not None:
        return CommitResult(outcome=CommitOutcome.ALREADY_DONE, checkpoint=checkpoint, drop=done.released)
    superseded = [*(c.supersedes for c in checkpoint.history), () if pending is None else pending.supersedes]
    if any(capture_id in ids for ids in superseded):
        return CommitResult(outcome=CommitOutcome.SUPERSEDED, checkpoint=checkpoint)
    raise unknown_capture(capture_id, run, f"the checkpoint of {checkpoint.consumer!r} does not know it")


def _commit_pending(
    checkpoint: Checkpoint, pending: PendingCapture, *, now_ms: int, keep_icdc: bool, history_length: int
) -> CommitResult:
    standings = {_standing(checkpoint, r) for r in pending.ranges}
    if _Standing.ELSEWHERE in standings or standings >= {_Standing.FROM, _Standing.PAST}:
        raise moved_away(checkpoint, pending)
    if _Standing.FROM not in standings:
        past = _Standing.PAST in standings
        outcome = CommitOutcome.SUPERSEDED if past else CommitOutcome.ALREADY_DONE
        return CommitResult(outcome=outcome, checkpoint=checkpoint)
    released = tuple(table for table in checkpoint.retained if table not in pending.icdc_tables)
    capture = CommittedCapture(
        capture_id=pending.capture_id,
        run=pending.run,
        committed_at_ms=now_ms,
        ranges=pending.ranges,
        supersedes=pending.supersedes,
        released=released,
    )
    moved = replace(
        checkpoint,
        revision=checkpoint.revision + 1,
        positions=_moved(checkpoint.positions, pending.ranges),
        pending=None,
        history=_remember(checkpoint.history, capture, history_length),
        retained=() if keep_icdc else pending.icdc_tables,
    )
    return CommitResult(outcome=CommitOutcome.ADVANCED, checkpoint=moved, drop=released)


class _Standing(StrEnum):
    FROM = "from"
    TO = "to"
    PAST = "past"
    ELSEWHERE = "elsewhere"


def _standing(checkpoint: Checkpoint, taken: SourceRange) -> _Standing:
    position = checkpoint.position_of(taken.source, taken.branch)
    if _same(position, taken.from_exclusive):
        return _Standing.FROM
    if _same(position, taken.to_inclusive):
        return _Standing.TO
    if position is not None and is_past(position, taken.to_inclusive):
        return _Standing.PAST
    return _Standing.ELSEWHERE


def is_past(position: Position, other: Position) -> bool:
    """Only within one table; format v1 has no sequence numbers, so time tells there."""
    if position.table_uuid != other.table_uuid:
        return False
    mine, theirs = (position.sequence_number, other.sequence_number)
    return mine > theirs if mine != theirs else position.committed_at_ms > other.committed_at_ms


def _same(one: Position | None, other: Position | None) -> bool:
    """Positions are the same if table and snapshot are; the rest describes them."""
    if one is None or other is None:
        return one is other
    return (one.table_uuid, one.snapshot_id) == (other.table_uuid, other.snapshot_id)


def _current(checkpoint: Checkpoint | None, consumer: str) -> Checkpoint:
    return Checkpoint(consumer=consumer, revision=0) if checkpoint is None else checkpoint


def _moved(positions: tuple[SourcePosition, ...], ranges: Iterable[SourceRange]) -> tuple[SourcePosition, ...]:
    """Sources that are not in the capture stay where they are."""
    places = {(p.source, p.branch): p for p in positions}
    for r in ranges:
        places[r.source, r.branch] = SourcePosition(source=r.source, branch=r.branch, position=r.to_inclusive)
    return tuple(places[name] for name in sorted(places))


def _remember(
    history: tuple[CommittedCapture, ...], capture: CommittedCapture, length: int
) -> tuple[CommittedCapture, ...]:
    """Append, with consecutive empty captures as one: an idle consumer must not push out the runs that wrote."""
    kept = tuple(replace(c, released=()) if capture.wrote else c for c in history)
    if kept and not capture.wrote and (joined := _joined(kept[-1], capture)):
        return (*kept[:-1], joined)
    everything = (*kept, capture)
    wrote = [index for index, entry in enumerate(everything) if entry.wrote]
    return everything[wrote[-length] :] if len(wrote) > length else everything


def _joined(earlier: CommittedCapture, later: CommittedCapture) -> CommittedCapture | None:
    starts = {(r.source, r.branch): r.from_exclusive for r in earlier.ranges}
    if earlier.run is None or earlier.wrote or set(starts) != {(r.source, r.branch) for r in later.ranges}:
        return None
    return replace(
        later,
        ranges=tuple(replace(r, from_exclusive=starts[r.source, r.branch]) for r in later.ranges),
        supersedes=_union(earlier.supersedes, later.supersedes)[-MAX_SUPERSEDED:],
    )


def _supersedes(pending: PendingCapture | None) -> tuple[str, ...]:
    return () if pending is None else (*pending.supersedes, pending.capture_id)[-MAX_SUPERSEDED:]


def _union(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry for part in parts for entry in part))


def _begun_already(current: Checkpoint, known: PendingCapture, asked: PendingCapture) -> Checkpoint:
    if (known.run, known.ranges) == (asked.run, asked.ranges):
        return current
    raise pending_under_another_range(current.consumer, asked.capture_id)


def _refuse_moved(current: Checkpoint, ranges: Iterable[SourceRange]) -> None:
    for r in ranges:
        position = current.position_of(r.source, r.branch)
        if not _same(position, r.from_exclusive):
            raise capture_starts_elsewhere(current.consumer, r, position)


def _note(pending: PendingCapture | None, wrote: Sequence[CommittedCapture], run: RunIdentity) -> str:
    notes = []
    if pending is not None:
        notes.append(
            f"Run {pending.run} captured and never committed; this capture starts where that did and covers its range."
        )
    newest = wrote[-1].run if wrote else None
    if newest is not None and _is_earlier(run.run_after, newest.run_after):
        notes.append(
            f"Run {run} is older than {newest}, which has committed, and is not remembered as committed itself: "
            "it captures as new, from the committed position."
        )
    return " ".join(notes)


def _is_earlier(one: str, other: str) -> bool:
    try:
        return datetime.fromisoformat(one) < datetime.fromisoformat(other)
    except (TypeError, ValueError):
        return False
