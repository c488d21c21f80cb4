"""A table history in memory, to test DAG logic and this package's own laws without a table.

history = InMemoryHistory("db.playback")
first = history.append(files=3)
history.compact()
plan = plan_capture(history, committed=first, settings=CaptureSettings())
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.history import DATA, DELETES, ManifestFacts, SnapshotFacts, position_of

if TYPE_CHECKING:
    from airflow_provider_ips.core.positions import Position

FILE_BYTES = 1000
FILE_ROWS = 10


@dataclass(slots=True)
class InMemoryHistory:
    """Grows by the operations an Iceberg table knows, and answers as :class:`TableHistory`."""

    name: str
    branch: str = "main"
    table_uuid: str = "00000000-0000-0000-0000-000000000001"
    format_version: int = 2
    snapshots: dict[int, SnapshotFacts] = field(default_factory=dict)
    manifests: dict[int, tuple[ManifestFacts, ...]] = field(default_factory=dict)
    head_id: int | None = None
    last_id: int = 0
    written: dict[int, SnapshotFacts] = field(default_factory=dict)
    """Every snapshot as its commit wrote it. Older metadata files tell it, as far back as they are named."""
    expired_after: dict[int, int] = field(default_factory=dict)
    metadata_since: int = 0

    @property
    def head(self) -> SnapshotFacts | None:
        """The branch's newest snapshot."""
        return None if self.head_id is None else self.snapshots[self.head_id]

    def head_at(self, time_ms: int) -> int | None:
        """The branch's newest snapshot at a time; every snapshot is published as it is committed."""
        return max((s.snapshot_id for s in self.snapshots.values() if s.committed_at_ms <= time_ms), default=None)

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        """A retained snapshot."""
        return self.snapshots.get(snapshot_id)

    def reads_manifests(self, snapshot_id: int) -> tuple[ManifestFacts, ...]:
        """The manifest list of a retained snapshot."""
        return self.manifests[snapshot_id]

    def retained(self) -> tuple[SnapshotFacts, ...]:
        """All retained snapshots."""
        return tuple(self.snapshots.values())

    def reads_past(self, snapshot_id: int, committed_at_ms: int) -> dict[int, SnapshotFacts]:  # noqa: ARG002 - ids are enough here
        """What was retained when a snapshot was committed, as far as older metadata is kept."""
        if snapshot_id <= self.metadata_since:
            return {}
        then = range(1, snapshot_id + 1)
        return {
            i: self.written[i]
            for i in then
            if i in self.written and self.expired_after.get(i, then.stop) >= snapshot_id
        }

    def append(self, *, files: int = 1, operation: str = "append") -> Position:
        """Add data files."""
        return self._commit(operation, added=files)

    def merge_append(self, *, files: int = 1) -> Position:
        """Add data files and merge all manifests into one, as Spark's default append does now and then."""
        return self._commit("append", added=files, merge=True)

    def remove(self, *, files: int = 1, operation: str = "delete") -> Position:
        """Remove whole data files."""
        return self._commit(operation, removed=files)

    def rewrite_rows(self, *, added: int = 1, removed: int = 1, operation: str = "overwrite") -> Position:
        """Replace files by others with changed rows, as copy-on-write does."""
        return self._commit(operation, added=added, removed=removed)

    def delete_rows(self, *, delete_files: int = 1) -> Position:
        """Add delete files, as merge-on-read does."""
        return self._commit("overwrite", added_deletes=delete_files)

    def compact(self) -> Position:
        """Rewrite all live files into one."""
        live = self._live()
        return self._commit("replace", added=1 if live else 0, removed=live, merge=True)

    def rollback(self, to: Position) -> None:
        """Set the head back to an earlier snapshot."""
        self.head_id = to.snapshot_id

    def expire(self, position: Position) -> None:
        """Forget a snapshot; its child keeps naming it as parent, as Iceberg leaves it."""
        if position.snapshot_id is not None:
            del self.snapshots[position.snapshot_id]
            del self.manifests[position.snapshot_id]
            self.expired_after[position.snapshot_id] = self.last_id

    def cut_parent(self, position: Position) -> None:
        """Forget who the parent was, as some expiry does."""
        if position.snapshot_id is not None:
            facts = self.snapshots[position.snapshot_id]
            self.snapshots[position.snapshot_id] = replace(facts, parent_id=None)

    def forget_metadata(self) -> None:
        """Lose the older metadata files, as a table does that names only so many of them."""
        self.metadata_since = self.last_id

    def _live(self) -> int:
        return (self.head.count("total-data-files") or 0) if self.head else 0

    def _commit(
        self, operation: str, *, added: int = 0, removed: int = 0, added_deletes: int = 0, merge: bool = False
    ) -> Position:
        self.last_id += 1
        snapshot_id, parent = self.last_id, self.head
        carried = self.manifests[parent.snapshot_id] if parent else ()
        carried = tuple(m for m in carried if m.added_files or m.existing_files)
        existing = sum((m.added_files or 0) + (m.existing_files or 0) for m in carried if m.content == DATA)
        own = self._own(snapshot_id, added, removed, max(existing - removed, 0) if merge else 0)
        kept = tuple(m for m in carried if m.content == DELETES) if merge else carried
        deletes = self._deletes(snapshot_id, added_deletes)
        self.manifests[snapshot_id] = (*own, *deletes, *kept)
        self.snapshots[snapshot_id] = self._facts(snapshot_id, parent, operation, added, removed, added_deletes)
        self.written[snapshot_id] = self.snapshots[snapshot_id]
        self.head_id = snapshot_id
        return position_of(self, self.head)

    def _facts(
        self, snapshot_id: int, parent: SnapshotFacts | None, operation: str, added: int, removed: int, deletes: int
    ) -> SnapshotFacts:
        total = self._live() + added - removed
        delete_total = ((parent.count("total-delete-files") or 0) if parent else 0) + deletes
        summary = {"total-data-files": str(total), "total-delete-files": str(delete_total)}
        summary |= {"total-files-size": str(total * FILE_BYTES), "total-records": str(total * FILE_ROWS)}
        if added:
            summary |= {"added-data-files": str(added), "added-files-size": str(added * FILE_BYTES)}
        if removed:
            summary["deleted-data-files"] = str(removed)
        return SnapshotFacts(
            snapshot_id=snapshot_id,
            parent_id=parent.snapshot_id if parent else None,
            sequence_number=snapshot_id if self.format_version > 1 else 0,
            committed_at_ms=snapshot_id * 1000,
            operation=operation,
            summary=summary,
        )

    def _own(self, snapshot_id: int, added: int, removed: int, existing: int) -> tuple[ManifestFacts, ...]:
        """Additions and removals come in manifests of their own, unless manifests are merged."""
        if existing:
            return (self._manifest(snapshot_id, DATA, added, existing, removed),)
        counts = ((added, 0), (0, removed))
        return tuple(self._manifest(snapshot_id, DATA, a, 0, r) for a, r in counts if a or r)

    def _deletes(self, snapshot_id: int, added: int) -> tuple[ManifestFacts, ...]:
        return (self._manifest(snapshot_id, DELETES, added, 0, 0),) if added else ()

    def _manifest(self, snapshot_id: int, content: str, added: int, existing: int, deleted: int) -> ManifestFacts:
        number = snapshot_id if self.format_version > 1 else 0
        return ManifestFacts(
            path=f"memory://{self.name}/{snapshot_id}-{content}.avro",
            length=100,
            content=content,
            spec_id=0,
            added_snapshot_id=snapshot_id,
            sequence_number=number,
            min_sequence_number=1 if existing and number else number,
            added_files=added,
            existing_files=existing,
            deleted_files=deleted,
            added_rows=added * FILE_ROWS,
            existing_rows=existing * FILE_ROWS,
            deleted_rows=deleted * FILE_ROWS,
        )
