"""Captures that were never committed: their runs may have written to the target, so the next capture includes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import SourceRange
from airflow_provider_ips.core.errors import CheckpointConflictError, GapError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.history.snapshots import TableHistory, ancestors
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind


@dataclass(frozen=True, slots=True)
class UncommittedCaptures:
    """Where captures ended that began at the checkpoint and were never committed: the first and the newest of them.

    Example: the checkpoint is at snapshot 3. A run captured up to 5 and failed, the next one up to 7 and failed, too.
    The target may hold rows of 4 to 7, so a capture of changes goes to 7 at least, whatever its limits say, and is
    refused if the table was rolled back to before 7.
    """

    ends: tuple[Position, ...] = ()

    @classmethod
    def of(cls, checkpoint: Checkpoint | None, source: Source) -> UncommittedCaptures:
        """Those of one source that a checkpoint remembers, with those that they superseded."""
        found = () if checkpoint is None else checkpoint.uncommitted_of(source)
        ends = {end for _, r in found for end in (r.attempted, r.to_inclusive) if end is not None}
        in_order = sorted(ends, key=lambda end: (end.sequence_number, end.committed_at_ms))
        return cls((*in_order[:1], *in_order[1:][-1:]))

    @classmethod
    def superseded_by(cls, taken: SourceRange) -> UncommittedCaptures:
        """Those that came before a range was captured, as far as it remembers them."""
        return cls() if taken.attempted is None else cls((taken.attempted,))

    @property
    def first_end(self) -> Position | None:
        return self.ends[0] if self.ends else None

    @property
    def last_end(self) -> Position | None:
        return self.ends[-1] if self.ends else None

    def then(self, end: Position) -> UncommittedCaptures:
        """These and a newer one."""
        return UncommittedCaptures((*self.ends[:1], end))

    def __bool__(self) -> bool:
        return bool(self.ends)


ALL_COMMITTED: Final = UncommittedCaptures()
"""Every capture so far was committed."""


def refuse_after_full_refresh(checkpoint: Checkpoint | None, source: Source, plan: CapturePlan) -> None:
    """Refuse a range where a refresh of all rows was never committed: its job may have emptied the target.

    committed up to 3; a run captured all rows up to 5, deleted them from the target, and failed before it inserted
    the next run would capture 4 and 5, and rows of 1 to 3 would be missing

    A first run may be corrected to start at a snapshot or time by ``initial``: to name one is to say that the target
    has the rows before it. "latest" names none, so it is refused, too.
    """
    found = () if checkpoint is None else checkpoint.uncommitted_of(source)
    names_start = plan.kind is not Kind.EMPTY
    pending = next(
        (c for c, r in found if r.kind is Kind.FULL and not (r.from_exclusive is None and names_start)), None
    )
    if pending is None or plan.kind is Kind.FULL:
        return
    raise CheckpointConflictError(
        f"run {pending.run} captured all rows of {source.label} and was never committed",
        consequence="Its job may have replaced a part of the target, and the range since the checkpoint does not have "
        "the other rows",
        remedy=f"clear run {pending.run}, or trigger a run with ips_run='full' and ips_move_checkpoint; if its job "
        "wrote nothing, `airflow ips abandon --wrote-nothing`",
    )


def refuse_after_replay(checkpoint: Checkpoint | None, plans: Sequence[CapturePlan]) -> None:
    """Refuse a range where a replay was never committed: its job may have removed rows, or have stopped halfway.

    committed (0, 10]; its run was cleared, deleted the keys of those rows from the target, and failed
    the next run would capture (10, 20], and rows of (0, 10] would be missing
    """
    replay = None if checkpoint is None else checkpoint.replaying
    if replay is None or all(plan.kind is Kind.FULL for plan in plans):
        return
    raise CheckpointConflictError(
        f"run {replay.run} was cleared after its commit, captured its range again, and did not commit that",
        consequence="Its job may have replaced a part of the target, and the range since the checkpoint does not have "
        "those rows",
        remedy=f"clear run {replay.run} again, or trigger a run with ips_run='full' and ips_move_checkpoint; if its "
        "job wrote nothing, `airflow ips abandon --wrote-nothing`",
    )


def refuse_rolled_back(history: TableHistory, uncommitted: UncommittedCaptures, lineage: Sequence[int | None]) -> None:
    """Refuse if one of them ended at a snapshot that is not among those of the lineage, given by id."""
    lost = next((end for end in uncommitted.ends if end.snapshot_id not in lineage), None)
    if lost is None:
        return
    raise GapError(
        f"a run that was never committed captured {history.name} up to {lost}, which is not in the lineage of "
        f"branch {history.branch!r}: the table was rolled back since",
        consequence="That run may have written rows, or removed some, that the table's history no longer accounts for",
        remedy="rebuild the target: `airflow ips reset`, then a run with initial='full'; if the job of that run wrote "
        "nothing, `airflow ips abandon`",
    )


def rolled_back_rows(history: TableHistory, uncommitted: UncommittedCaptures) -> tuple[str, ...]:
    """Warn of rows that a log of appends may keep, though they are not in the source any more.

    A log takes nothing back: neither what was inserted and committed nor what a failed run inserted.
    """
    line = {snapshot.snapshot_id for snapshot in ancestors(history, history.head)} if uncommitted else set()
    lost = next((end for end in uncommitted.ends if end.snapshot_id not in (None, *line)), None)
    if lost is None:
        return ()
    warning = (
        f"a run that was never committed captured up to {lost}, which the lineage of branch {history.branch!r} does "
        "not show any more. If that was rolled back, and not only expired, rows that its job inserted are not in the "
        "source any more, and stay in the target: remove them"
    )
    return (warning,)
