"""Whether a range is complete: the walk along parents from its end back to its start, and the error if it is not.

There are three ways on over a gap. ``on_gap='full'`` captures all live files: no row is lost, all come again.
``on_gap='resync'`` captures the files that are newer by sequence number: no row is lost, and few come again, but it is
not always possible. And a person may set the checkpoint by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_ips.core.errors import CatalogError, GapError
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, ancestors
from airflow_provider_ips.core.lineage.expired_history import is_child_of, is_first_snapshot
from airflow_provider_ips.core.lineage.resync import amount, preview_resync
from airflow_provider_ips.core.positions import Position

NUMBERS_SHOW_NO_REMOVALS: Final = (
    "All three operations are captured, and sequence numbers show which files are new, never which rows were removed"
)
OLD_ROWS_IN_TARGET: Final = (
    "rows that were changed or removed since the checkpoint are still in the target as they were: empty it before the "
    "job of this run writes"
)
_BY_HAND: Final = "or set the checkpoint by `airflow ips reset` and `airflow ips seed`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The snapshots of a proven range, oldest first: each is the parent of the next, the start that of the first."""

    snapshots: tuple[SnapshotFacts, ...]

    def ids_from(self, after: Position) -> list[int | None]:
        """The ids of the range's start and of its snapshots."""
        return [after.snapshot_id, *(snapshot.snapshot_id for snapshot in self.snapshots)]


def prove_lineage(history: TableHistory, *, after: Position, to: SnapshotFacts | None) -> Lineage:
    """Walk from ``to`` back to ``after``, or raise :class:`GapError` with the reason why the walk never got there.

    To walk until parents run out proves nothing. With the checkpoint at snapshot 3:

        walk from the head      why it does not meet 3               what it would give
        5, 2, 1                 rolled back to 2, 5 written then     1 and 2, which were processed, again
        6, 5                    1 to 4 were expired                  4 would be lost
    """
    _refuse_other_table(history, after)
    newest_first: list[SnapshotFacts] = []
    for snapshot in ancestors(history, to):
        if snapshot.snapshot_id == after.snapshot_id:
            return _lineage(newest_first)
        newest_first.append(snapshot)
    if _starts_at(history, newest_first, after):
        return _lineage(newest_first)
    raise gap_error(history, after, newest_first)


def _starts_at(history: TableHistory, newest_first: list[SnapshotFacts], after: Position) -> bool:
    """Whether ``after`` is the parent of the last snapshot that the walk found, though it is expired itself."""
    if after.snapshot_id is None:
        return not newest_first or is_first_snapshot(history, newest_first[-1])
    return bool(newest_first) and is_child_of(history, newest_first[-1], after.snapshot_id)


def _lineage(newest_first: list[SnapshotFacts]) -> Lineage:
    return Lineage(snapshots=tuple(reversed(newest_first)))


def _refuse_other_table(history: TableHistory, position: Position) -> None:
    if position.table_uuid != history.table_uuid:
        raise GapError(
            f"{history.name} is another table now: the checkpoint belongs to uuid {position.table_uuid}, "
            f"the catalog has {history.table_uuid}",
            consequence="It was dropped and created again, or replaced, so no range connects the two",
            remedy="if the new table continues the old one, start again from it: on_gap='full' for one run, "
            "or `airflow ips reset` and then `airflow ips seed`",
        )


def gap_error(history: TableHistory, after: Position, chain: Sequence[SnapshotFacts]) -> GapError:
    """The walk along parents (``chain``, newest first) ended without reaching the checkpoint ``after``."""
    end = f"the walk ended at {chain[-1]}" if chain else f"branch {history.branch!r} has no snapshots"
    return GapError(
        f"the checkpoint of {history.name} at {after} is not in the lineage of branch {history.branch!r} "
        f"({_why(history, after, chain)}; {end})",
        consequence="Which files were added since is unknown, so nothing was captured",
        remedy=f"set one for the next run: {_full_choice(history.head)}; {_resync_choice(history, after)}; {_BY_HAND}",
    )


def gap_error_for_changes(history: TableHistory, gap: GapError) -> GapError:
    """The same gap for a capture of changes, which cannot be resynchronised."""
    return GapError(
        gap.problem,
        consequence=gap.consequence,
        remedy=f"for the next run set {_full_choice(history.head)}; {OLD_ROWS_IN_TARGET}; on_gap='resync' is not "
        f"possible here ({NUMBERS_SHOW_NO_REMOVALS}); {_BY_HAND}",
    )


def resync_error(history: TableHistory, committed: Position, to: SnapshotFacts | None, *, why: str) -> GapError:
    """``on_gap='resync'`` is set, and would lose rows, or might."""
    return GapError(
        f"{history.name} cannot be resynchronised: sequence numbers prove nothing between {committed} "
        f"(number {committed.sequence_number}) and the head (number {to.sequence_number if to else 0})",
        consequence=why,
        remedy=f"for one run set {_full_choice(to)}; {_BY_HAND}",
    )


def _why(history: TableHistory, after: Position, chain: Sequence[SnapshotFacts]) -> str:
    """Conclude from where the walk ended what happened.

    With the checkpoint at 3, the walk found
    5, 4, and 4 has the expired parent 3: no gap
    6, 5, and 5 has the expired parent 4: 4 has the parent 3, or 3 was rolled back and 4 has the parent 2
    4, 2, 1, and 3 is retained: 3 was rolled back
    """
    if chain and chain[-1].parent_id is not None:
        return "snapshots between it and the head were expired, or the table was rolled back before that"
    if after.snapshot_id is not None and history.snapshot(after.snapshot_id) is not None:
        return "it is retained but not an ancestor of the head: the table was rolled back or the branch moved elsewhere"
    if after.snapshot_id is None:
        return "nothing proves that the oldest retained snapshot is the table's first: older ones may have been expired"
    return "it was expired, or the table was rolled back"


def _full_choice(head: SnapshotFacts | None) -> str:
    files = head.count("total-data-files") if head else 0
    size_bytes = head.count("total-files-size") if head else 0
    return (
        f"on_gap='full' captures the whole table ({amount(files, 'file')}, {amount(size_bytes, 'byte')}; no loss; "
        "a superset: with all rows that were processed before)"
    )


def _resync_choice(history: TableHistory, after: Position) -> str:
    try:
        resync = preview_resync(history, after, history.head)
    except CatalogError as error:  # the gap itself must be reported even if the storage does not answer
        return f"on_gap='resync' could not be looked into ({error.problem})"
    if resync.refusal:
        return f"on_gap='resync' is not possible here, because sequence numbers prove nothing ({resync.refusal})"
    return f"on_gap='resync' captures the live files newer than sequence number {after.sequence_number} ({resync})"
