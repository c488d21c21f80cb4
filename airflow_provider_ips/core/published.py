"""What readers of a branch saw at a moment.

A snapshot's own time says when it was written. It may have been written to another branch, or aside for an audit, and
published long after; or it was published then, and rolled back since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history import position_of
from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.core.roots import is_proven_root, walk_past

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.core.history import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.positions import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The snapshots that made up the branch then, as far as they are known."""

    ids: frozenset[int]
    is_complete: bool


def position_shown_at(history: TableHistory, chain: Sequence[SnapshotFacts], time_ms: int) -> Position:
    """The newest snapshot of the lineage (``chain``, newest first) that was part of the branch at a time."""
    shown = _shown_at(history, time_ms)
    written = [snapshot for snapshot in chain if snapshot.committed_at_ms <= time_ms]
    for snapshot in written:
        if shown is None or snapshot.snapshot_id in shown.ids:
            return position_of(history, snapshot)
    if written and shown is not None and not shown.is_complete:
        raise _unknown(history, time_ms, written[0])
    if not chain or is_proven_root(history, chain[-1]):
        return position_of(history, None)
    raise GapError(
        f"{format_time(time_ms)} lies before the retained history of {history.name}, which begins at {chain[-1]}",
        consequence="Which files were added between the two can no longer be told",
        remedy=f"use a time from {format_time(chain[-1].committed_at_ms)} on, or 'full'",
    )


def logged_head(log: Sequence[tuple[int, int]], time_ms: int) -> int | None:
    """Read a log, oldest entry first, of when (in milliseconds) which snapshot became the branch's newest.

    A head is logged when it becomes another one. So where two entries in a row name the same snapshot, one between
    them is missing: expiry takes the entries of the snapshots that it removes. What was shown meanwhile nobody knows.
    """
    begun = [index for index, (since, _) in enumerate(log) if since <= time_ms]
    if not begun:
        return None
    head = log[begun[-1]][1]
    following = log[begun[-1] + 1 : begun[-1] + 2]
    return None if any(next_head == head for _, next_head in following) else head


def _shown_at(history: TableHistory, time_ms: int) -> _Shown | None:
    """None where no log is kept: then a snapshot's own time is all there is."""
    since = history.log_since_ms
    if since is None:
        return None
    head_id = history.head_at(time_ms) if time_ms >= since else None
    head = None if head_id is None else history.snapshot(head_id)
    if head is None:
        return _Shown(ids=frozenset(), is_complete=False)
    line = list(walk_past(history, head))
    return _Shown(ids=frozenset(s.snapshot_id for s in line), is_complete=_is_first(history, line[-1]))


def _is_first(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """A snapshot known from an older metadata file only is told as it was written there."""
    if history.snapshot(oldest.snapshot_id) is None:
        return oldest.parent_id is None
    return is_proven_root(history, oldest)


def _unknown(history: TableHistory, time_ms: int, written: SnapshotFacts) -> GapError:
    return GapError(
        f"what branch {history.branch!r} of {history.name} showed at {format_time(time_ms)} cannot be told any more: "
        f"{written} was written before that, and may have been published after it",
        consequence="A first run that starts there could leave out rows that nobody has processed",
        remedy=f"name the snapshot that was processed last, for example {written.snapshot_id}, or use 'full'",
    )
