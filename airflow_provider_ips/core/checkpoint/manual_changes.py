"""How people change a checkpoint by hand: `airflow ips seed`, `rewind`, `reset`, `abandon` and `move`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import (
    CommittedCapture,
    Intervention,
    PendingCapture,
    SourcePosition,
    SourceRange,
)
from airflow_provider_ips.core.checkpoint.traces import without_commit
from airflow_provider_ips.core.errors import CheckpointConflictError, InputError
from airflow_provider_ips.core.identifiers import Source, did_you_mean, digest
from airflow_provider_ips.core.positions import Position, RunIdentity, is_past
from airflow_provider_ips.core.record import Kind

MAX_INTERVENTIONS: Final = 50
"""How many changes by hand a checkpoint remembers."""


def seed(
    checkpoint: Checkpoint | None, *, consumer: str, positions: Sequence[SourcePosition], now_ms: int
) -> Checkpoint:
    """Set the first position of sources that have none: rows up to it count as processed."""
    if not consumer.strip():
        raise InputError(
            f"consumer {consumer!r} has no name",
            consequence="No capture could find its checkpoint",
            remedy="name it: <dag_id>.<capture task_id>, unless the capture names another",
        )
    current = Checkpoint(consumer=consumer, revision=0) if checkpoint is None else checkpoint
    if current.pending is not None:
        raise _has_pending(current, current.pending, "seeded")
    for entry in positions:
        present = current.position_of(entry.source)
        if present is not None:
            raise CheckpointConflictError(
                f"consumer {consumer!r} has a position in {entry.source.label!r} already, {present}",
                consequence="To overwrite it would skip or repeat the rows between the two positions",
                remedy="go back to an earlier commit with `airflow ips rewind`; to move elsewhere pause the DAG, then "
                f"`airflow ips reset --consumer {consumer} {_options(entry.source)}` and seed",
            )
    ranges = tuple(
        SourceRange(
            source=entry.source,
            kind=Kind.EMPTY,
            from_exclusive=None,
            to_inclusive=entry.position,
            icdc_table=None,
        )
        for entry in positions
    )
    capture_id = digest(consumer, "seed", str(current.revision), length=32)
    mark = CommittedCapture(capture_id=capture_id, run=None, committed_at_ms=now_ms, ranges=ranges)
    everything = (*current.positions, *positions)
    return replace(
        current,
        revision=current.revision + 1,
        positions=tuple(sorted(everything, key=lambda p: p.source)),
        history=(*current.history, mark),
        uncommitted=tuple(_under_new_names(capture, positions) for capture in current.uncommitted),
    )


def _under_new_names(capture: PendingCapture, positions: Sequence[SourcePosition]) -> PendingCapture:
    """Remember what a table's job may have written under the name that the table has now, too.

    A run captured db.t and failed; db.t was renamed to db.u    the next capture of db.u corrects what that run wrote
    """
    renamed = (
        replace(r, source=entry.source)
        for entry in positions
        for r in capture.ranges
        if (r.to_inclusive.table_uuid, r.source.branch) == (entry.position.table_uuid, entry.source.branch)
        and r.source != entry.source
    )
    return replace(capture, ranges=(*capture.ranges, *renamed))


def rewind(checkpoint: Checkpoint, *, capture_id: str) -> Checkpoint:
    """Go back to the position before a committed capture, so that the next run processes everything since.

    Example: the history is (0, 10], (10, 20], (20, 30]. A rewind of the second capture sets the position to 10 and
    forgets the second and the third; the next run captures from 10. The target has the rows up to 30, so that one is
    remembered as the end of a range that was never committed.
    """
    ids = [capture.capture_id for capture in checkpoint.history]
    if capture_id not in ids:
        raise InputError(
            f"the checkpoint of consumer {checkpoint.consumer!r} contains no committed capture {capture_id!r}",
            consequence="The position before it is not known",
            remedy="choose one from `airflow ips history`; for an older position, `airflow ips reset` and then `seed`",
        )
    undone = checkpoint.history[ids.index(capture_id) :]
    by_source = {p.source: p for p in checkpoint.positions}
    for capture in reversed(undone):
        for r in capture.ranges:
            if r.from_exclusive is None:
                by_source.pop(r.source, None)
            elif r.source in by_source:
                by_source[r.source] = replace(by_source[r.source], position=r.from_exclusive)
    positions = tuple(by_source[source] for source in sorted(by_source))
    return _went_back(checkpoint, positions, checkpoint.history[: ids.index(capture_id)])


def rewind_source(checkpoint: Checkpoint, *, source: Source, position: Position) -> Checkpoint:
    """Go back to a position between commits, in one source. Its commits that end after it count as never made."""
    present = checkpoint.position_of(source)
    if present is None:
        raise _no_position(checkpoint, source, "rewound")
    if not is_past(present, position):
        raise CheckpointConflictError(
            f"{position} is not earlier than the position of consumer {checkpoint.consumer!r} in {source.label!r}, "
            f"{present}",
            consequence="To go there would skip the rows between the two, or lead into another table",
            remedy="name an earlier snapshot or time; to skip rows on purpose pause the DAG, then "
            f"`airflow ips reset --consumer {checkpoint.consumer} {_options(source)}` and seed",
        )
    moved = SourcePosition(source=source, position=position)
    positions = tuple(moved if p.source == source else p for p in checkpoint.positions)
    return _went_back(checkpoint, positions, tuple(c for c in checkpoint.history if not _ends_after(c, moved)))


def _ends_after(capture: CommittedCapture, entry: SourcePosition) -> bool:
    return any(r.source == entry.source and is_past(r.to_inclusive, entry.position) for r in capture.ranges)


def reset(checkpoint: Checkpoint, *, sources: Collection[Source] | None = None) -> Checkpoint:
    """Forget the position of some sources, or of all: the next run starts them by ``initial``."""
    if sources is None:
        cleared = replace(_without_pending(checkpoint), revision=checkpoint.revision + 1, positions=(), history=())
        tables = (table for capture in checkpoint.history[-1:] for table in capture.released)
        return replace(cleared, retained=tuple(dict.fromkeys((*cleared.retained, *tables))))
    if checkpoint.pending is not None:
        raise _has_pending(checkpoint, checkpoint.pending, "reset for single sources")
    for source in sources:
        if checkpoint.position_of(source) is None:
            raise _no_position(checkpoint, source, "reset")
    kept = tuple(p for p in checkpoint.positions if p.source not in sources)
    rest = (replace(c, ranges=tuple(r for r in c.ranges if r.source not in sources)) for c in checkpoint.uncommitted)
    left = tuple(c for c in rest if c.ranges)
    return replace(checkpoint, revision=checkpoint.revision + 1, positions=kept, uncommitted=left)


def abandon(checkpoint: Checkpoint, *, wrote_nothing: bool = False) -> Checkpoint:
    """Give up what is pending. The position stays, so the next run captures its rows again.

    What its job may have written stays remembered, unless ``wrote_nothing``: then a replay is given up, too.
    """
    if not checkpoint.begun and checkpoint.replaying is None:
        raise InputError(
            f"consumer {checkpoint.consumer!r} has no pending capture",
            consequence="There is nothing to abandon",
            remedy=f"see its positions with `airflow ips show --consumer {checkpoint.consumer}`",
        )
    if wrote_nothing:
        return replace(_without_pending(checkpoint), revision=checkpoint.revision + 1)
    if checkpoint.pending is None:
        raise InputError(
            f"consumer {checkpoint.consumer!r} has no pending capture, but one that was not committed and may have "
            "written to the target",
            consequence="Without knowing of it, the next runs would leave its rows as they are",
            remedy="let a run process them; if its job wrote nothing, or the target was repaired: --wrote-nothing",
        )
    return _went_back(checkpoint, checkpoint.positions, checkpoint.history)


def with_intervention(changed: Checkpoint, *, who: str, verb: str, now_ms: int) -> Checkpoint:
    """Record in the document itself who changed it by hand."""
    entry = Intervention(at_ms=now_ms, who=who, verb=verb, revision=changed.revision)
    return replace(changed, interventions=(*changed.interventions, entry)[-MAX_INTERVENTIONS:])


def _went_back(
    checkpoint: Checkpoint, positions: tuple[SourcePosition, ...], history: tuple[CommittedCapture, ...]
) -> Checkpoint:
    """Go back to earlier positions, and remember that the target may have rows from beyond them.

    committed up to 20, with a row that 15 added; back to 10; 25 deletes that row from the source
    the next range (10, 30] has no trace of it, unless it knows that a run has written it
    """
    starts = {p.source: p.position for p in positions}
    _refuse_after_start_of_replay(checkpoint, starts)
    undone = PendingCapture(
        capture_id=digest(checkpoint.consumer, "undone", str(checkpoint.revision), length=32),
        run=RunIdentity(dag_id=checkpoint.consumer, run_id="undone", map_index=-1, run_after=""),
        started_at_ms=0,
        ranges=tuple(
            SourceRange(
                source=p.source,
                kind=Kind.RANGE,
                from_exclusive=starts.get(p.source),
                to_inclusive=p.position,
                icdc_table=None,
            )
            for p in checkpoint.positions
            if p.position != starts.get(p.source)
        ),
    )
    begun = (
        replace(
            without_commit(c),
            ranges=tuple(
                replace(r, from_exclusive=starts.get(r.source), icdc_table=None, before_table=None) for r in c.ranges
            ),
        )
        for c in (*checkpoint.begun, *_replays(checkpoint))
    )
    return replace(
        _without_pending(checkpoint),
        revision=checkpoint.revision + 1,
        positions=positions,
        uncommitted=(*begun, *((undone,) if undone.ranges else ())),
        history=history,
    )


def _refuse_after_start_of_replay(checkpoint: Checkpoint, starts: Mapping[Source, Position]) -> None:
    """Refuse a position from which the next run would not capture all that an unfinished replay may have removed.

    committed (0, 10]; its run was cleared, deleted the keys of those rows from the target, and failed
    back to 5, or to 10 if only empty captures followed: rows of (0, 5] would be missing
    """
    for r in (r for replay in _replays(checkpoint) for r in replay.ranges):
        position = starts.get(r.source)
        start = r.from_exclusive
        if position != start and not (position is None or (start is not None and is_past(start, position))):
            raise CheckpointConflictError(
                f"the run of consumer {checkpoint.consumer!r} that committed up to {r.to_inclusive} in "
                f"{r.source.label!r} was cleared, captured its range again, and did not commit that",
                consequence=f"Its job may have removed rows from before {position}, which the next run would not "
                "capture",
                remedy="clear that run again and let it commit, or go back to before its range by `airflow ips rewind "
                f"--run-id`; if its job wrote nothing, `airflow ips abandon --consumer {checkpoint.consumer} "
                "--wrote-nothing`",
            )


def _replays(checkpoint: Checkpoint) -> tuple[PendingCapture, ...]:
    return () if checkpoint.replaying is None else (checkpoint.replaying,)


def _without_pending(checkpoint: Checkpoint) -> Checkpoint:
    """Remove all captures that are not committed; the next commit releases their ICDC tables."""
    begun = (*checkpoint.begun, *_replays(checkpoint))
    tables = dict.fromkeys((*checkpoint.retained, *(table for c in begun for table in c.made)))
    return replace(checkpoint, pending=None, replaying=None, uncommitted=(), retained=tuple(tables))


def _options(source: Source) -> str:
    return f"--table {source.table} --branch {source.branch}"


def _no_position(checkpoint: Checkpoint, source: Source, what: str) -> InputError:
    known = [p.source.label for p in checkpoint.positions]
    look = f"see its sources with `airflow ips show --consumer {checkpoint.consumer}`"
    return InputError(
        f"consumer {checkpoint.consumer!r} has no position for {source.label!r}",
        consequence=f"There is no position that could be {what}",
        remedy=did_you_mean(source.label, known, otherwise=look),
    )


def _has_pending(checkpoint: Checkpoint, pending: PendingCapture, what: str) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"consumer {checkpoint.consumer!r} cannot be {what} while run {pending.run} has a pending capture",
        consequence="The commit of that run would find another position and fail",
        remedy=f"let that run finish, or give it up with `airflow ips abandon --consumer {checkpoint.consumer}`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The documents to write when a checkpoint moves to another store, in this order."""

    at_origin: Checkpoint | None
    """None if an earlier move that died has written it already."""

    at_target: Checkpoint


def plan_move(consumer: str, here: Checkpoint | None, there: Checkpoint | None, *, to: str) -> Move:
    """Plan the move of what is ``here`` to the store named ``to``, which holds ``there``."""
    if here is None:
        raise InputError(
            f"consumer {consumer!r} has no checkpoint in the store to move it from",
            consequence="There is nothing to move",
            remedy="see the names of all consumers with `airflow ips list`",
        )
    if there is not None and there.moved_to is None:
        raise _target_exists(consumer, here, to)
    if here.moved_to not in (None, to):
        raise InputError(
            f"the checkpoint of consumer {consumer!r} was moved to {here.moved_to!r}, not to {to!r}",
            consequence="This copy may be out of date",
            remedy=f"move it from there: `airflow ips move --consumer {consumer} --to {to}`",
        )
    left = here if here.moved_to else replace(here, revision=here.revision + 1, moved_to=to)
    revision = max(left.revision, 0 if there is None else there.revision) + 1
    return Move(
        at_origin=None if left is here else left,
        at_target=replace(left, revision=revision, moved_to=None),
    )


def _target_exists(consumer: str, here: Checkpoint, to: str) -> CheckpointConflictError:
    done = here.moved_to == to
    return CheckpointConflictError(
        f"consumer {consumer!r} has a checkpoint in the store {to!r} already",
        consequence="It was moved before"
        if done
        else "One of the two would be overwritten, and which is right is unknown",
        remedy="nothing is left to do"
        if done
        else f"compare both (`airflow ips show --consumer {consumer}` with --store), and remove the one that is wrong",
    )
