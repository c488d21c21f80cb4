"""What one snapshot of a range did: which data files and delete files it added and removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_ips.core.history.files import DATA, Content, DeleteScope, LocatedFile, ManifestFacts, Status
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEffect:
    """A snapshot with the files that it added and removed."""

    snapshot: SnapshotFacts
    is_compaction: bool
    added: tuple[LocatedFile, ...] = ()
    removed: tuple[LocatedFile, ...] = ()
    added_deletes: tuple[LocatedFile, ...] = ()
    removed_deletes: tuple[LocatedFile, ...] = ()
    min_data_sequence_number: int = 0
    """The lowest sequence number among the data files that are live in the snapshot; 0 if it removed no delete file."""

    def deleted(self) -> Iterator[DeleteScope]:
        """Where this snapshot deleted rows. Compaction deletes none: its delete files repeat earlier deletes."""
        if not self.is_compaction:
            yield from (DeleteScope.of(d.file) for d in self.added_deletes)

    def restoring(self) -> Iterator[LocatedFile]:
        """The delete files by whose removal rows that had been deleted may be live again.

        A delete file for data file ``f`` restores nothing if the snapshot also
            removed ``f``, or
            added a deletion vector for ``f`` with at least as many positions: it includes the older ones.
        A delete file for a partition restores nothing if every live data file is newer than it.
        """
        if self.is_compaction:
            return
        removed = {located.file.path for located in self.removed}
        for delete in self.removed_deletes:
            scope = DeleteScope.of(delete.file)
            if scope.referenced_data_file is None:
                if scope.max_sequence_number >= self.min_data_sequence_number:
                    yield delete
            elif scope.referenced_data_file not in removed and not self._is_replaced(scope.referenced_data_file):
                yield delete

    def _is_replaced(self, data_file: str) -> bool:
        return _positions(self.added_deletes, data_file) >= _positions(self.removed_deletes, data_file)


def _positions(deletes: Iterable[LocatedFile], data_file: str) -> int:
    return sum(d.file.records for d in deletes if d.file.referenced_data_file == data_file)


def read_effect(history: TableHistory, snapshot: SnapshotFacts, manifests: Sequence[ManifestFacts]) -> SnapshotEffect:
    """Read what a snapshot did from the manifests that it wrote."""
    entries = [e for manifest in manifests if _has_changes(manifest) for e in _own_entries(history, manifest, snapshot)]
    data = [e for e in entries if e.file.content is Content.DATA]
    deletes = [e for e in entries if e.file.content is not Content.DATA]
    removed_deletes = tuple(e for e in deletes if not e.file.is_live)
    return SnapshotEffect(
        snapshot=snapshot,
        is_compaction=snapshot.operation == "replace",
        added=tuple(e for e in data if e.file.is_live),
        removed=tuple(e for e in data if not e.file.is_live),
        added_deletes=tuple(e for e in deletes if e.file.is_live),
        removed_deletes=removed_deletes,
        min_data_sequence_number=_min_data_sequence_number(history, snapshot) if removed_deletes else 0,
    )


def _has_changes(manifest: ManifestFacts) -> bool:
    """A manifest that was only rewritten lists files of earlier snapshots alone."""
    return not manifest.counts_known or bool(manifest.added_files or manifest.deleted_files)


def _own_entries(history: TableHistory, manifest: ManifestFacts, snapshot: SnapshotFacts) -> Iterator[LocatedFile]:
    for file in history.reads_entries(manifest):
        if file.status is not Status.EXISTING and file.snapshot_id == snapshot.snapshot_id:
            yield LocatedFile(manifest=manifest, file=file)


def _min_data_sequence_number(history: TableHistory, snapshot: SnapshotFacts) -> int:
    listed = history.reads_manifests(snapshot.snapshot_id)
    live = [m for m in listed if m.content == DATA and m.may_have_live_files]
    return min((m.min_sequence_number for m in live), default=snapshot.sequence_number + 1)
