"""What people do to a checkpoint by hand: the transitions behind `airflow ips seed`, `rewind`, `reset`, `abandon`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.checkpoint import (
    Checkpoint,
    CommittedCapture,
    PendingCapture,
    SourcePosition,
    SourceRange,
)
from airflow_provider_ips.core.errors import CheckpointConflictError, InputError
from airflow_provider_ips.core.identifiers import digest
from airflow_provider_ips.core.interventions import MAX_INTERVENTIONS, Intervention
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.transitions import is_past

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_provider_ips.core.positions import Position


def seed(
    checkpoint: Checkpoint | None, *, consumer: str, positions: Sequence[SourcePosition], now_ms: int
) -> Checkpoint:
    """Set the first position of sources that have none: what lies up to it counts as processed."""
    current = Checkpoint(consumer=consumer, revision=0) if checkpoint is None else checkpoint
    if current.pending is not None:
        raise _while_pending(current, current.pending, "seeded")
    for entry in positions:
        held = current.position_of(entry.source, entry.branch)
        if held is not None:
            raise CheckpointConflictError(
                f"consumer {consumer!r} has a position in {entry.source!r} (branch {entry.branch!r}) already, {held}",
                consequence="To overwrite it would skip or repeat whatever lies between the two positions",
                remedy="go back to an earlier commit with `airflow ips rewind`; to move elsewhere pause the DAG, then "
                f"`airflow ips reset --consumer {consumer} --table {entry.source} --branch {entry.branch}` and seed",
            )
    ranges = tuple(
        SourceRange(
            source=entry.source,
            branch=entry.branch,
            kind=Kind.EMPTY,
            from_exclusive=None,
            to_inclusive=entry.position,
            icdc_table=None,
        )
        for entry in positions
    )
    capture_id = digest(consumer, "seed", str(current.revision), length=32)
    marker = CommittedCapture(capture_id=capture_id, run=None, committed_at_ms=now_ms, ranges=ranges)
    everything = (*current.positions, *positions)
    return replace(
        current,
        revision=current.revision + 1,
        positions=tuple(sorted(everything, key=lambda p: (p.source, p.branch))),
        history=(*current.history, marker),
    )


def rewind(checkpoint: Checkpoint, *, capture_id: str) -> Checkpoint:
    """Go back to where the consumer stood before a committed capture; the next run takes everything since."""
    ids = [capture.capture_id for capture in checkpoint.history]
    if capture_id not in ids:
        raise InputError(
            f"consumer {checkpoint.consumer!r} remembers no committed capture {capture_id!r}",
            consequence="It cannot be rewound to a place that is not remembered",
            remedy="choose one from `airflow ips history`; for an older place, `airflow ips reset` and then `seed`",
        )
    undone = checkpoint.history[ids.index(capture_id) :]
    places = {(p.source, p.branch): p for p in checkpoint.positions}
    for capture in reversed(undone):
        for r in capture.ranges:
            name = (r.source, r.branch)
            if r.from_exclusive is None:
                places.pop(name, None)
            elif name in places:
                places[name] = replace(places[name], position=r.from_exclusive)
    return replace(
        _without_pending(checkpoint),
        revision=checkpoint.revision + 1,
        positions=tuple(places[name] for name in sorted(places)),
        history=checkpoint.history[: ids.index(capture_id)],
    )


def rewind_source(checkpoint: Checkpoint, *, source: str, branch: str, position: Position) -> Checkpoint:
    """Go back to a place between commits, in one source; its commits that reach beyond count as never made."""
    held = checkpoint.position_of(source, branch)
    if held is None:
        raise _no_position(checkpoint.consumer, source, branch, "rewound")
    if not is_past(held, position):
        raise CheckpointConflictError(
            f"{position} does not lie behind where consumer {checkpoint.consumer!r} stands in {source!r}, {held}",
            consequence="To go there would skip whatever lies between the two, or lead into another table",
            remedy="name an earlier place; to skip rows on purpose pause the DAG, then "
            f"`airflow ips reset --consumer {checkpoint.consumer} --table {source} --branch {branch}` and seed",
        )
    moved = SourcePosition(source=source, branch=branch, position=position)
    return replace(
        _without_pending(checkpoint),
        revision=checkpoint.revision + 1,
        positions=tuple(moved if (p.source, p.branch) == (source, branch) else p for p in checkpoint.positions),
        history=tuple(c for c in checkpoint.history if not _reaches_beyond(c, moved)),
    )


def _reaches_beyond(capture: CommittedCapture, place: SourcePosition) -> bool:
    return any(
        (r.source, r.branch) == (place.source, place.branch) and is_past(r.to_inclusive, place.position)
        for r in capture.ranges
    )


def reset(checkpoint: Checkpoint, *, sources: Collection[tuple[str, str]] | None = None) -> Checkpoint:
    """Forget the position of some sources (table and branch), or of all: the next run starts them by ``initial``."""
    if sources is None:
        cleared = replace(_without_pending(checkpoint), revision=checkpoint.revision + 1, positions=(), history=())
        tables = (table for capture in checkpoint.history[-1:] for table in capture.released)
        return replace(cleared, retained=tuple(dict.fromkeys((*cleared.retained, *tables))))
    if checkpoint.pending is not None:
        raise _while_pending(checkpoint, checkpoint.pending, "reset for single sources")
    for source, branch in sources:
        if checkpoint.position_of(source, branch) is None:
            raise _no_position(checkpoint.consumer, source, branch, "reset")
    kept = tuple(p for p in checkpoint.positions if (p.source, p.branch) not in sources)
    return replace(checkpoint, revision=checkpoint.revision + 1, positions=kept)


def abandon(checkpoint: Checkpoint) -> Checkpoint:
    """Give up the pending capture; the position stays, so the next run takes its range again."""
    if checkpoint.pending is None:
        raise InputError(
            f"consumer {checkpoint.consumer!r} has no pending capture",
            consequence="There is nothing to abandon",
            remedy=f"see where it stands with `airflow ips show --consumer {checkpoint.consumer}`",
        )
    return replace(_without_pending(checkpoint), revision=checkpoint.revision + 1)


def noted(changed: Checkpoint, *, who: str, verb: str, now_ms: int) -> Checkpoint:
    """Say in the document itself who changed it by hand."""
    entry = Intervention(at_ms=now_ms, who=who, verb=verb, revision=changed.revision)
    return replace(changed, interventions=(*changed.interventions, entry)[-MAX_INTERVENTIONS:])


def _without_pending(checkpoint: Checkpoint) -> Checkpoint:
    """Its ICDC tables are let go by the next commit."""
    if checkpoint.pending is None:
        return checkpoint
    tables = dict.fromkeys((*checkpoint.retained, *checkpoint.pending.icdc_tables))
    return replace(checkpoint, pending=None, retained=tuple(tables))


def _no_position(consumer: str, source: str, branch: str, what: str) -> InputError:
    return InputError(
        f"consumer {consumer!r} has no position for {source!r} (branch {branch!r})",
        consequence=f"There is nothing that could be {what}",
        remedy=f"see its sources with `airflow ips show --consumer {consumer}`",
    )


def _while_pending(checkpoint: Checkpoint, pending: PendingCapture, what: str) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"consumer {checkpoint.consumer!r} cannot be {what} while run {pending.run} has a pending capture",
        consequence="Its commit would find the checkpoint elsewhere and fail",
        remedy=f"let that run finish, or give it up with `airflow ips abandon --consumer {checkpoint.consumer}`",
    )
