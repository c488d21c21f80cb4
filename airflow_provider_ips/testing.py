"""A table history and a checkpoint store that live in memory, for unit tests of your own DAG logic.

history = InMemoryHistory("db.playback")
first = history.append(files=3)
history.compact()
plan = plan_capture(history, committed=first, settings=CaptureSettings())
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.checkpoint.store import InMemoryStore
from airflow_provider_ips.core.history.files import DATA, DELETES, Content, FileFacts, ManifestFacts, Partition, Status
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, logged_head, position_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_provider_ips.core.positions import Position

__all__ = ["InMemoryHistory", "InMemoryStore"]

FILE_BYTES = 1000
FILE_ROWS = 10
ROW_LINEAGE_VERSION = 3


@dataclass(slots=True)
class InMemoryHistory:
    """A :class:`TableHistory` that grows by the operations of an Iceberg table."""

    name: str
    branch: str = "main"
    table_uuid: str = "00000000-0000-0000-0000-000000000001"
    format_version: int = 2
    snapshots: dict[int, SnapshotFacts] = field(default_factory=dict)
    manifests: dict[int, tuple[ManifestFacts, ...]] = field(default_factory=dict)
    head_id: int | None = None
    last_id: int = 0
    written: dict[int, SnapshotFacts] = field(default_factory=dict)
    """Every snapshot as its commit wrote it, which older metadata files hold."""

    log: list[tuple[int, int]] = field(default_factory=list)
    """When, in milliseconds, which snapshot became the head."""

    expired_after: dict[int, int] = field(default_factory=dict)
    metadata_since: int = 0
    entries: dict[str, tuple[FileFacts, ...]] = field(default_factory=dict)
    files_made: int = 0

    @property
    def head(self) -> SnapshotFacts | None:
        return None if self.head_id is None else self.snapshots[self.head_id]

    @property
    def log_since_ms(self) -> int:
        return 0

    def head_at(self, time_ms: int) -> int | None:
        return logged_head([(since, head) for since, head in self.log if head in self.snapshots], time_ms)

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        return self.snapshots.get(snapshot_id)

    def reads_manifests(self, snapshot_id: int) -> tuple[ManifestFacts, ...]:
        return self.manifests[snapshot_id]

    def reads_manifests_written_by(self, snapshot_id: int, writers: Collection[int]) -> list[ManifestFacts]:
        return [m for m in self.reads_manifests(snapshot_id) if m.added_snapshot_id in (*writers, None)]

    def reads_entries(self, manifest: ManifestFacts) -> tuple[FileFacts, ...]:
        return self.entries[manifest.path]

    def retained_snapshots(self) -> tuple[SnapshotFacts, ...]:
        return tuple(self.snapshots.values())

    def reads_old_metadata(self, snapshot_id: int, committed_at_ms: int) -> dict[int, SnapshotFacts]:  # noqa: ARG002 - ids are enough here
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
        return self.commit(operation, add=self._new(files))

    def merge_append(self, *, files: int = 1) -> Position:
        """Add data files and merge all manifests into one, as Spark's appends do from time to time."""
        return self.commit("append", add=self._new(files), merge=True)

    def remove(self, *, files: int = 1, operation: str = "delete") -> Position:
        """Remove whole data files, oldest first."""
        return self.commit(operation, remove=[f.path for f in self.live_files[:files]])

    def rewrite_rows(self, *, added: int = 1, removed: int = 1, operation: str = "overwrite") -> Position:
        """Replace data files by others with changed rows, as copy-on-write does."""
        return self.commit(operation, add=self._new(added), remove=[f.path for f in self.live_files[:removed]])

    def delete_rows(self, *, delete_files: int = 1) -> Position:
        """Add delete files for the oldest data file, as merge-on-read does."""
        oldest = self.live_files[0].path if self.live_files else None
        return self.commit("overwrite", add=[self.delete_file(oldest) for _ in range(delete_files)])

    def compact(self) -> Position:
        """Rewrite all live files into one."""
        live = [f.path for f in self.live_files]
        return self.commit("replace", add=self._new(1 if live else 0), remove=live, merge=True)

    def data_file(self, path: str | None = None, *, partition: Partition = (), records: int = FILE_ROWS) -> FileFacts:
        """A new data file to commit."""
        return self._file(path, Content.DATA, partition=partition, records=records)

    def delete_file(
        self,
        referenced_data_file: str | None = None,
        *,
        partition: Partition = (),
        content: Content = Content.POSITION_DELETES,
    ) -> FileFacts:
        """A new delete file to commit: for one data file, or for a partition."""
        return replace(
            self._file(None, content, partition=partition, records=1), referenced_data_file=referenced_data_file
        )

    @property
    def live_files(self) -> list[FileFacts]:
        """The data files of the head, oldest first."""
        return [f for f in self.live_entries(self.head_id) if f.content is Content.DATA]

    def live_entries(self, snapshot_id: int | None) -> list[FileFacts]:
        """All files that are live in a snapshot, in the order in which they were added."""
        listed = () if snapshot_id is None else self.manifests[snapshot_id]
        live = [f for m in listed for f in self.entries[m.path] if f.is_live]
        return sorted(live, key=lambda f: (f.snapshot_id or 0, f.path))

    def commit(
        self, operation: str, *, add: Sequence[FileFacts] = (), remove: Sequence[str] = (), merge: bool = False
    ) -> Position:
        """Commit a snapshot that adds files and removes others, given by path.

        ``merge`` writes one data manifest and one delete manifest. A file that has a sequence number keeps it, as those
        of a compaction do; the others get the commit's.
        """
        self.last_id += 1
        snapshot_id, parent = self.last_id, self.head
        number = snapshot_id if self.format_version > 1 else 0
        added = [
            replace(
                f,
                status=Status.ADDED,
                snapshot_id=snapshot_id,
                sequence_number=f.sequence_number or number,
                has_row_id=self.format_version >= ROW_LINEAGE_VERSION,
            )
            for f in add
        ]
        carried = (
            () if parent is None else tuple(m for m in self.manifests[parent.snapshot_id] if m.may_have_live_files)
        )
        paths = frozenset(remove)
        removed = [f for f in self.live_entries(self.head_id) if f.path in paths]
        listed = [m for kind in (DATA, DELETES) for m in self._written(snapshot_id, kind, added, carried, paths, merge)]
        self.manifests[snapshot_id] = tuple(listed)
        self.snapshots[snapshot_id] = self._facts(snapshot_id, parent, operation, added, removed)
        self.written[snapshot_id] = self.snapshots[snapshot_id]
        published_ms = self.snapshots[snapshot_id].committed_at_ms
        if parent is not None and parent.snapshot_id != self.log[-1][1]:
            self.log.append((published_ms - 1, parent.snapshot_id))  # the head was set to it in between
        self.log.append((published_ms, snapshot_id))
        self.head_id = snapshot_id
        return position_of(self, self.head)

    def rollback(self, to: Position) -> None:
        """Set the head back to an earlier snapshot."""
        self.head_id = to.snapshot_id

    def expire(self, position: Position) -> None:
        """Expire a snapshot; its child still names it as its parent."""
        if position.snapshot_id is not None:
            del self.snapshots[position.snapshot_id]
            del self.manifests[position.snapshot_id]
            self.expired_after[position.snapshot_id] = self.last_id

    def cut_parent(self, position: Position) -> None:
        """Clear the parent of a snapshot, as PyIceberg's expiry does."""
        if position.snapshot_id is not None:
            facts = self.snapshots[position.snapshot_id]
            self.snapshots[position.snapshot_id] = replace(facts, parent_id=None)

    def forget_metadata(self) -> None:
        """Lose all older metadata files."""
        self.metadata_since = self.last_id

    def _new(self, files: int) -> list[FileFacts]:
        return [self.data_file() for _ in range(files)]

    def _file(self, path: str | None, content: Content, *, partition: Partition, records: int) -> FileFacts:
        self.files_made += 1
        return FileFacts(
            path=path or f"memory://{self.name}/{content.name.lower()}-{self.files_made:08}.parquet",
            content=content,
            status=Status.ADDED,
            spec_id=0,
            partition=partition,
            snapshot_id=None,
            sequence_number=0,
            records=records,
            size_bytes=FILE_BYTES,
        )

    def _written(
        self,
        snapshot_id: int,
        kind: str,
        added: Sequence[FileFacts],
        carried: Sequence[ManifestFacts],
        removed: Collection[str],
        merge: bool,  # noqa: FBT001
    ) -> list[ManifestFacts]:
        """The new manifest, those that are carried over, and those that a removal made the commit rewrite."""
        new = [f for f in added if _kind(f) == kind]
        before = [m for m in carried if m.content == kind]
        if merge:
            entries = [e for m in before for e in self._entries_after(m, snapshot_id, removed)]
            return [self._manifest(snapshot_id, kind, 0, [*new, *entries])] if new or entries else []
        listed = [self._manifest(snapshot_id, kind, 0, new)] if new else []
        for manifest in before:
            if any(f.is_live and f.path in removed for f in self.entries[manifest.path]):
                entries = self._entries_after(manifest, snapshot_id, removed)
                listed.append(self._manifest(snapshot_id, kind, len(listed) + 1, entries))
            else:
                listed.append(manifest)
        return listed

    def _entries_after(self, manifest: ManifestFacts, snapshot_id: int, removed: Collection[str]) -> list[FileFacts]:
        return [
            replace(f, status=Status.DELETED, snapshot_id=snapshot_id)
            if f.path in removed
            else replace(f, status=Status.EXISTING)
            for f in self.entries[manifest.path]
            if f.is_live
        ]

    def _facts(
        self,
        snapshot_id: int,
        parent: SnapshotFacts | None,
        operation: str,
        added: Sequence[FileFacts],
        removed: Sequence[FileFacts],
    ) -> SnapshotFacts:
        live = self.live_entries(snapshot_id)
        data = [f for f in live if f.content is Content.DATA]
        new = [f for f in added if f.content is Content.DATA]
        removed_data = sum(f.content is Content.DATA for f in removed)
        summary = {"total-data-files": str(len(data)), "total-delete-files": str(len(live) - len(data))}
        summary |= {"total-files-size": str(len(data) * FILE_BYTES), "total-records": str(sum(f.records for f in data))}
        if new:
            summary |= {"added-data-files": str(len(new)), "added-files-size": str(len(new) * FILE_BYTES)}
        if removed_data:
            summary["deleted-data-files"] = str(removed_data)
        return SnapshotFacts(
            snapshot_id=snapshot_id,
            parent_id=parent.snapshot_id if parent else None,
            sequence_number=snapshot_id if self.format_version > 1 else 0,
            committed_at_ms=snapshot_id * 1000,
            operation=operation,
            summary=summary,
        )

    def _manifest(self, snapshot_id: int, kind: str, index: int, entries: Sequence[FileFacts]) -> ManifestFacts:
        path = f"memory://{self.name}/{snapshot_id}-{kind}-{index}.avro"
        self.entries[path] = tuple(entries)
        held = {status: [f for f in entries if f.status is status] for status in Status}
        return ManifestFacts(
            path=path,
            length=100,
            content=kind,
            spec_id=0,
            added_snapshot_id=snapshot_id,
            sequence_number=snapshot_id if self.format_version > 1 else 0,
            min_sequence_number=min((f.sequence_number for f in entries if f.is_live), default=0),
            added_files=len(held[Status.ADDED]),
            existing_files=len(held[Status.EXISTING]),
            deleted_files=len(held[Status.DELETED]),
            added_rows=sum(f.records for f in held[Status.ADDED]),
            existing_rows=sum(f.records for f in held[Status.EXISTING]),
            deleted_rows=sum(f.records for f in held[Status.DELETED]),
        )


def _kind(file: FileFacts) -> str:
    return DATA if file.content is Content.DATA else DELETES
