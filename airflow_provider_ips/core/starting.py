"""Where a range begins and ends: a snapshot or a time that somebody named, or the end that a run has had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history import ancestors, position_of
from airflow_provider_ips.core.lineage import prove_lineage
from airflow_provider_ips.core.published import position_shown_at
from airflow_provider_ips.core.traces import findable_position

if TYPE_CHECKING:
    from airflow_provider_ips.core.history import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.positions import Position


def starting_position(history: TableHistory, *, snapshot_id: int | None, time_ms: int | None) -> Position:
    """Resolve a snapshot id or a time to a position in the branch's lineage; never one that was rolled back."""
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
    return position_shown_at(history, chain, time_ms or 0)


def before_everything(history: TableHistory) -> Position:
    """The table before its first snapshot."""
    return position_of(history, None)


def pinned_snapshot(history: TableHistory, to: Position) -> SnapshotFacts | None:
    """Find the end that a run has had before; None where that was the empty table."""
    if to.table_uuid != history.table_uuid:
        prove_lineage(history, after=to, to=history.head)  # raises, and says that it is another table
    if to.snapshot_id is None:
        return None
    snapshot = history.snapshot(to.snapshot_id)
    if snapshot is None and findable_position(history, history.head).snapshot_id == to.snapshot_id:
        snapshot = history.head
    if snapshot is None:
        raise GapError(
            f"{history.name} no longer has {to}, the end of the range that this run captured before",
            consequence="The same range cannot be captured again: the snapshot was expired",
            remedy="trigger a new run, whose range starts at the committed checkpoint and so covers this one; "
            "if that is gone too, its error names the choices",
        )
    return snapshot
