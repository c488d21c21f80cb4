"""How far a walk along the parents can be trusted once it runs out of them.

Expiry removes snapshots, and some writers clear the parent of the snapshots that stay. What table metadata no longer
says may still stand in the older metadata files that it names: ``reads_past`` opens one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.history import position_of, walk_back
from airflow_provider_ips.core.traces import is_known_ancestor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.core.history import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.positions import Position

MAX_OLD_METADATA = 20
"""How many older metadata files one question may open. Each reaches back as far as snapshots were kept then."""


def is_proven_root(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """Tell the table's first snapshot from one whose parents were expired.

    A first snapshot lists only what it added itself. So does one that was written after everything before it had been
    removed; that one is told by the metadata file of its own commit, or by numbers that nothing retained accounts for.
    """
    if oldest.parent_id is not None or not _lists_only_itself(history, oldest):
        return False
    written = history.reads_past(oldest.snapshot_id, oldest.committed_at_ms).get(oldest.snapshot_id)
    if written is not None:
        return written.parent_id is None
    return _leaves_no_number_out(history, oldest)


def follows_directly(history: TableHistory, child: SnapshotFacts, parent_id: int) -> bool:
    """Tell whether a snapshot whose parent is gone from the metadata was committed right behind ``parent_id``."""
    if child.parent_id is not None:
        return child.parent_id == parent_id
    written = history.reads_past(child.snapshot_id, child.committed_at_ms).get(child.snapshot_id)
    return written is not None and written.parent_id == parent_id


def shows_no_expiry(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """Guess, without reading a file, whether a lineage begins where it was begun. For advice; it proves nothing."""
    return oldest.parent_id is None and (oldest.sequence_number == 0 or _leaves_no_number_out(history, oldest))


def has_seen_older_files(history: TableHistory, position: Position, to: SnapshotFacts) -> bool:
    """Tell whether every file of ``to`` that is not newer by number was in the lineage of ``position``.

    Numbers count the commits of all branches. Where the head was set to another branch, it holds files with smaller
    numbers that ``position`` never saw. So the head's newest older snapshot must be an ancestor of ``position``.
    """
    older, oldest = None, to
    for oldest in walk_past(history, to):
        if oldest.sequence_number <= position.sequence_number:
            older = oldest
            break
    if older is not None and older.snapshot_id in _ancestors(history, position):
        return True
    if older is None and is_proven_root(history, oldest):
        return True  # the head begins anew, behind the checkpoint
    return is_known_ancestor(history, position, to)


def remembered_position(history: TableHistory, snapshot_id: int) -> Position | None:
    """The position of an expired snapshot that the branch descends from, as an older metadata file has it."""
    if history.head is None:
        return None
    line = walk_past(history, history.head)
    return next((position_of(history, snapshot) for snapshot in line if snapshot.snapshot_id == snapshot_id), None)


def walk_past(history: TableHistory, start: SnapshotFacts) -> Iterator[SnapshotFacts]:
    """Follow parents, newest first, and on through older metadata files where expiry has ended the walk."""
    chain = walk_back(history, start)
    yield from chain
    seen = {snapshot.snapshot_id for snapshot in chain}
    oldest = chain[-1]
    for _ in range(MAX_OLD_METADATA):
        past = history.reads_past(oldest.snapshot_id, oldest.committed_at_ms)
        before = oldest
        current = past.get(oldest.snapshot_id)
        while current is not None and current.parent_id is not None:
            current = past.get(current.parent_id)
            if current is None or current.snapshot_id in seen:
                break
            seen.add(current.snapshot_id)
            yield current
            oldest = current
        if oldest is before:
            return


def _ancestors(history: TableHistory, position: Position) -> set[int]:
    """What was in the lineage of a position, itself included; it may be expired and known from an older file only."""
    if position.snapshot_id is None:
        return set()
    there = history.snapshot(position.snapshot_id)
    if there is None:
        there = history.reads_past(position.snapshot_id, position.committed_at_ms).get(position.snapshot_id)
    if there is None:
        return {position.snapshot_id}
    return {snapshot.snapshot_id for snapshot in walk_past(history, there)}


def _lists_only_itself(history: TableHistory, oldest: SnapshotFacts) -> bool:
    return all(
        manifest.added_snapshot_id == oldest.snapshot_id
        and manifest.existing_files == 0
        and manifest.deleted_files == 0
        for manifest in history.reads_manifests(oldest.snapshot_id)
    ) and _counts_only_itself(oldest)


def _counts_only_itself(oldest: SnapshotFacts) -> bool:
    """A first snapshot's totals are what it added. A cut-off snapshot that emptied the table lists nothing either."""
    removed = oldest.count("deleted-data-files") or 0
    total, added = oldest.count("total-data-files"), oldest.count("added-data-files")
    return removed == 0 and (total is None or added is None or total == added)


def _leaves_no_number_out(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """Every commit takes a number, from 1 on, so a parent that was expired leaves one that nothing retained has.

    Snapshots of branches and of the table before it was replaced count as well. Format v1 numbers nothing.
    """
    before = {s.sequence_number for s in history.retained() if 0 < s.sequence_number < oldest.sequence_number}
    return oldest.sequence_number > 0 and len(before) == oldest.sequence_number - 1
