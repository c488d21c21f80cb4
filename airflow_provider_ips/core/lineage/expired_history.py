"""What is still known of snapshots that were expired, or that the catalog does not show.

They leave two traces. Older metadata files hold the snapshots of their time, with their parents; a table names the
latest of these files. And a manifest list names the snapshot that wrote each manifest, a manifest the snapshot that
added each file. Such ids are inherited from parent to child only: those of another branch, or of a commit that was
rolled back, are not among them. Where a catalog shows the current snapshot alone, without its parent (Nessie), they are
the only trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_provider_ips.core.history.files import ManifestFacts
from airflow_provider_ips.core.history.snapshots import (
    SnapshotFacts,
    TableHistory,
    ancestors,
    digest_of_live_manifests,
    position_of,
)
from airflow_provider_ips.core.positions import Position

MAX_OLD_METADATA: Final = 20
"""How many older metadata files one walk may open. Each holds the snapshots that were retained when it was written."""


def known_ancestors(history: TableHistory, start: SnapshotFacts) -> Iterator[SnapshotFacts]:
    """Follow parents from ``start``, newest first, through older metadata files where expiry ends the walk.

    Retained is 9, whose parent 8 was expired. The metadata file that the commit of 9 wrote still holds 6, 7 and 8, and
    the one that the commit of 6 wrote holds 4 and 5: the walk gives 9, 8, 7, 6, 5, 4.
    """
    chain = list(ancestors(history, start))
    yield from chain
    seen = {snapshot.snapshot_id for snapshot in chain}
    oldest = chain[-1]
    for _ in range(MAX_OLD_METADATA):
        snapshots = history.reads_old_metadata(oldest.snapshot_id, oldest.committed_at_ms)
        before = oldest
        current = snapshots.get(oldest.snapshot_id)
        while current is not None and current.parent_id is not None:
            current = snapshots.get(current.parent_id)
            if current is None or current.snapshot_id in seen:
                break
            seen.add(current.snapshot_id)
            yield current
            oldest = current
        if oldest is before:
            return


def is_child_of(history: TableHistory, child: SnapshotFacts, parent_id: int) -> bool:
    """Whether ``parent_id`` is the parent of a snapshot, also where expiry cleared it from the table's metadata."""
    if child.parent_id is not None:
        return child.parent_id == parent_id
    written = _as_committed(history, child)
    return written is not None and written.parent_id == parent_id


def is_first_snapshot(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """Whether a snapshot without parent is proven to be the table's first; false also where nothing proves it.

    A first snapshot lists only files that it added itself. So does one that was written when the table was empty:

        1 append, 2 delete all, 3 append; 1 and 2 expired, and the parent of 3 cleared

    Then the metadata file that the commit of 3 wrote still names the parent. If that file is lost as well, sequence
    numbers decide: 3 has number 3, and no retained snapshot has the numbers 1 and 2.
    """
    if oldest.parent_id is not None or not _lists_only_own_files(history, oldest):
        return False
    written = _as_committed(history, oldest)
    if written is not None:
        return written.parent_id is None
    return _has_no_unknown_predecessor(history, oldest)


def is_probably_first_snapshot(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """Whether a snapshot seems to be the table's first, judged without opening a file. It proves nothing."""
    return oldest.parent_id is None and (oldest.sequence_number == 0 or _has_no_unknown_predecessor(history, oldest))


def _as_committed(history: TableHistory, snapshot: SnapshotFacts) -> SnapshotFacts | None:
    return history.reads_old_metadata(snapshot.snapshot_id, snapshot.committed_at_ms).get(snapshot.snapshot_id)


def _lists_only_own_files(history: TableHistory, oldest: SnapshotFacts) -> bool:
    manifests = history.reads_manifests(oldest.snapshot_id)
    return _counts_only_own_files(oldest) and all(
        m.added_snapshot_id == oldest.snapshot_id and m.existing_files == 0 and m.deleted_files == 0 for m in manifests
    )


def _counts_only_own_files(oldest: SnapshotFacts) -> bool:
    """A snapshot that removed the last files lists nothing either; its summary shows what it removed."""
    removed = oldest.count("deleted-data-files") or 0
    total, added = oldest.count("total-data-files"), oldest.count("added-data-files")
    return removed == 0 and (total is None or added is None or total == added)


def _has_no_unknown_predecessor(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """Whether retained snapshots account for every sequence number below a snapshot's.

    Each commit takes the next number, from 1 on, whatever its branch; so an expired one leaves a hole. Format v1 has no
    numbers.
    """
    before = {s.sequence_number for s in history.retained_snapshots() if 0 < s.sequence_number < oldest.sequence_number}
    return oldest.sequence_number > 0 and len(before) == oldest.sequence_number - 1


def is_known_ancestor(history: TableHistory, position: Position, to: SnapshotFacts) -> bool:
    """Whether ``to`` still lists a manifest or a file that the snapshot of ``position`` wrote, or one with its rows.

    If so, that snapshot is an ancestor of ``to``. If not, nothing is proven: it may have written none, or its files may
    have been compacted. What any other ancestor wrote proves nothing either: a delete may lie between the two.
    """
    writer, number = position.snapshot_id, position.sequence_number
    if position.evidence is not None:
        writer, number = position.evidence.writer, position.evidence.writer_number
    if writer is None:
        return False
    manifests = history.reads_manifests(to.snapshot_id)
    return any(m.added_snapshot_id == writer for m in manifests) or any(
        file.snapshot_id == writer
        for manifest in manifests
        if _may_list_files_of(manifest, number)
        for file in history.reads_entries(manifest)
    )


def _may_list_files_of(manifest: ManifestFacts, sequence_number: int) -> bool:
    """Merging moves entries to a later manifest, which then has existing files."""
    return manifest.existing_files != 0 and manifest.min_sequence_number <= sequence_number < manifest.sequence_number


def holds_what_it_held(history: TableHistory, position: Position, head: SnapshotFacts | None) -> bool:
    """Whether the rows of ``head`` are proven to be those of ``position``, though nothing shows what lies between.

    5 append, stored; 6 empty commit; 5 expired                     6 lists the live manifests of 5: the same rows
    5 append, stored; 6 delete a file; 7 empty commit; 5, 6 expired  7 lists fewer than 5 did: not the same
    """
    if head is None or position.evidence is None or position.table_uuid != history.table_uuid:
        return False
    return digest_of_live_manifests(history.reads_manifests(head.snapshot_id)) == position.evidence.live_manifests


def position_from_old_metadata(history: TableHistory, snapshot_id: int) -> Position | None:
    """The position of an expired snapshot that is an ancestor of the branch's head by an older metadata file."""
    if history.head is None:
        return None
    line = known_ancestors(history, history.head)
    return next((position_of(history, snapshot) for snapshot in line if snapshot.snapshot_id == snapshot_id), None)


def position_from_manifests(history: TableHistory, snapshot_id: int) -> Position | None:
    """The position of a snapshot that wrote a manifest of the head. Its commit time is unknown, and given as 0."""
    if history.head is None:
        return None
    own = (m for m in history.reads_manifests(history.head.snapshot_id) if m.added_snapshot_id == snapshot_id)
    found = next(own, None)
    if found is None or found.sequence_number <= 0:
        return None
    return Position(
        table_uuid=history.table_uuid,
        snapshot_id=snapshot_id,
        sequence_number=found.sequence_number,
        committed_at_ms=0,
    )
