"""What the head's own manifests tell of snapshots that the catalog no longer shows.

Some catalogs give the current snapshot only, without its parent (Nessie). A manifest list still names who wrote each
manifest, and an entry who added its file. Both are handed on from snapshot to snapshot and never to a line of descent
that the writer is not part of: what another branch wrote, and what came after a rollback, bears other ids.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.history import DATA, position_of
from airflow_provider_ips.core.positions import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory


def is_known_ancestor(history: TableHistory, position: Position, to: SnapshotFacts) -> bool:
    """Tell whether something that the snapshot of ``position`` wrote is still part of ``to``. No proves nothing."""
    if position.snapshot_id is None:
        return False
    manifests = history.reads_manifests(to.snapshot_id)
    return any(m.added_snapshot_id == position.snapshot_id for m in manifests) or any(
        file.snapshot_id == position.snapshot_id
        for manifest in manifests
        if _may_hold_entries_of(manifest, position.sequence_number)
        for file in history.reads_entries(manifest)
    )


def _may_hold_entries_of(manifest: ManifestFacts, sequence_number: int) -> bool:
    """Merging hands entries on to a later manifest; only such a one need be opened."""
    return manifest.existing_files != 0 and manifest.min_sequence_number <= sequence_number < manifest.sequence_number


def is_written_behind(manifests: Sequence[ManifestFacts], position: Position) -> bool:
    """Tell whether each live data file was written after a position: then whoever takes all of them loses nothing.

    An entry that its manifest's own snapshot added was written then, whatever number it gives its rows: compaction
    hands the number of the rows' own time on to the files that it writes.
    """
    return all(
        m.sequence_number > position.sequence_number
        and (m.min_sequence_number > position.sequence_number or m.existing_files == 0)
        for m in manifests
        if m.content == DATA
    )


def findable_position(history: TableHistory, to: SnapshotFacts | None) -> Position:
    """Where a consumer that has taken all of ``to`` stands, so that its place can be found again.

    A commit of nothing leaves no trace. Where only the head is shown, and that is such a commit, the newest snapshot
    that left one is as good a place: no file came after it.
    """
    here = position_of(history, to)
    if to is None or to.parent_id is not None or any(s.snapshot_id != to.snapshot_id for s in history.retained()):
        return here
    listed = [m for m in history.reads_manifests(to.snapshot_id) if m.added_snapshot_id is not None]
    newest = max(listed, key=lambda m: m.sequence_number, default=None)
    if newest is None or newest.sequence_number <= 0:
        return here
    return replace(here, snapshot_id=newest.added_snapshot_id, sequence_number=newest.sequence_number)


def traced_position(history: TableHistory, snapshot_id: int) -> Position | None:
    """The position of a snapshot that is not shown any more, by a manifest of its own; its time is unknown, hence 0."""
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
