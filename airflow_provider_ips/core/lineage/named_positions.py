"""Which position of a branch a snapshot id or a time names.

A time means what readers of the branch saw at that moment. A snapshot's own time says only when it was written: it may
have been written to another branch, or staged for an audit, and published later; or it was rolled back meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, ancestors, position_of
from airflow_provider_ips.core.lineage.expired_history import holds_what_it_held, is_first_snapshot, known_ancestors
from airflow_provider_ips.core.lineage.walk import prove_lineage
from airflow_provider_ips.core.positions import Position, format_time


def starting_position(history: TableHistory, *, snapshot_id: int | None, time_ms: int | None) -> Position:
    """The position in the branch's lineage that a snapshot id or a time names; never one that was rolled back."""
    chain: list[SnapshotFacts] = []
    for snapshot in ancestors(history, history.head):
        if snapshot.snapshot_id == snapshot_id:
            return position_of(history, snapshot)
        chain.append(snapshot)
    if snapshot_id is not None:
        raise GapError(
            f"snapshot {snapshot_id} is not in the lineage of {history.name}, branch {history.branch!r}",
            consequence="It was expired, rolled back, or belongs elsewhere, so nothing can start there",
            remedy=f"use one of the {len(chain)} snapshots of the lineage, the oldest being "
            f"{chain[-1].snapshot_id if chain else 'none'}, or 'full'",
        )
    return _position_at(history, chain, time_ms or 0)


def retained_end(history: TableHistory, to: Position) -> SnapshotFacts | None:
    """The snapshot at which a range ended that is to be captured again; None if the table was empty then."""
    if to.table_uuid != history.table_uuid:
        prove_lineage(history, after=to, to=history.head)  # raises, because it is another table
    if to.snapshot_id is None:
        return None
    snapshot = history.snapshot(to.snapshot_id)
    if snapshot is None and holds_what_it_held(history, to, history.head):
        snapshot = history.head
    if snapshot is None:
        raise GapError(
            f"{history.name} no longer has {to}, the end of the range that this run captured before",
            consequence="The same range cannot be captured again: the snapshot was expired",
            remedy="trigger a new run: its range starts at the committed checkpoint, and so includes this one; if that "
            "snapshot was expired, too, the error lists the choices",
        )
    return snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class _BranchAt:
    """The snapshots that a branch consisted of at some time, as far as they are known."""

    ids: frozenset[int]
    is_complete: bool


def _position_at(history: TableHistory, chain: Sequence[SnapshotFacts], time_ms: int) -> Position:
    """The newest snapshot of the lineage (``chain``, newest first) that was part of the branch at a time.

    10:00  snapshot 1 is appended to main
    10:10  snapshot 2 is written, but to branch audit
    10:30  main is fast-forwarded to 2             so 10:20 on main is 1, and 10:40 is 2
    """
    then = _branch_at(history, time_ms)
    written = [snapshot for snapshot in chain if snapshot.committed_at_ms <= time_ms]
    for snapshot in written:
        if then is None or snapshot.snapshot_id in then.ids:
            return position_of(history, snapshot)
    if written and then is not None and not then.is_complete:
        raise _unknown_error(history, time_ms, written[0])
    if not chain or is_first_snapshot(history, chain[-1]):
        return position_of(history, None)
    raise GapError(
        f"{format_time(time_ms)} lies before the retained history of {history.name}, which begins at {chain[-1]}",
        consequence="Which files were added between the two is no longer known",
        remedy=f"use a time from {format_time(chain[-1].committed_at_ms)} on, or 'full'",
    )


def _branch_at(history: TableHistory, time_ms: int) -> _BranchAt | None:
    """None if the table keeps no log of the branch: then a snapshot's own time is all there is."""
    since = history.log_since_ms
    if since is None:
        return None
    head_id = history.head_at(time_ms) if time_ms >= since else None
    head = None if head_id is None else history.snapshot(head_id)
    if head is None:
        return _BranchAt(ids=frozenset(), is_complete=False)
    line = list(known_ancestors(history, head))
    return _BranchAt(ids=frozenset(s.snapshot_id for s in line), is_complete=_is_first(history, line[-1]))


def _is_first(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """An expired snapshot is known from an older metadata file, which has its parent as it was committed."""
    if history.snapshot(oldest.snapshot_id) is None:
        return oldest.parent_id is None
    return is_first_snapshot(history, oldest)


def _unknown_error(history: TableHistory, time_ms: int, written: SnapshotFacts) -> GapError:
    return GapError(
        f"what branch {history.branch!r} of {history.name} showed at {format_time(time_ms)} is no longer known: "
        f"{written} was written before that, and may have been published after it",
        consequence="A first run that starts there could leave out rows that were never processed",
        remedy=f"name the snapshot that was processed last, for example {written.snapshot_id}, or use 'full'",
    )
