"""A range step by step: which files each of its snapshots added and removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.files import Content, Located, Reach, Status
from airflow_provider_ips.core.history import DATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One snapshot of the range and what it did."""

    snapshot: SnapshotFacts
    replaces: bool
    added: tuple[Located, ...] = ()
    removed: tuple[Located, ...] = ()
    added_deletes: tuple[Located, ...] = ()
    removed_deletes: tuple[Located, ...] = ()
    oldest_data: int = 0
    """Lowest sequence number among the live data files; known only where delete files were removed."""

    def deletes(self) -> Iterator[Reach]:
        """Where this snapshot removed rows. Compaction removes none: it writes deletes down in another form."""
        if not self.replaces:
            yield from (Reach.of(d.file) for d in self.added_deletes)

    def returns(self) -> Iterator[Reach]:
        """Where this snapshot may have brought deleted rows back, by taking delete files away without a successor."""
        if self.replaces:
            return
        gone = {located.file.path for located in self.removed}
        for delete in self.removed_deletes:
            reach = Reach.of(delete.file)
            if reach.names is None:
                if reach.up_to >= self.oldest_data:
                    yield reach
            elif reach.names not in gone and not self._succeeded(reach.names):
                yield reach

    def _succeeded(self, name: str) -> bool:
        """A file's new deletion vector takes its older deletes up, so it holds at least as many positions."""
        return _positions(self.added_deletes, name) >= _positions(self.removed_deletes, name)


def _positions(deletes: Iterable[Located], name: str) -> int:
    return sum(d.file.records for d in deletes if d.file.names == name)


def read_step(history: TableHistory, snapshot: SnapshotFacts, manifests: Sequence[ManifestFacts]) -> Step:
    """Read what one snapshot did from the manifests that it wrote."""
    entries = [entry for manifest in manifests if _was_changed(manifest) for entry in _own(history, manifest, snapshot)]
    data = [e for e in entries if e.file.content is Content.DATA]
    deletes = [e for e in entries if e.file.content is not Content.DATA]
    gone = tuple(e for e in deletes if not e.file.is_live)
    return Step(
        snapshot=snapshot,
        replaces=snapshot.operation == "replace",
        added=tuple(e for e in data if e.file.is_live),
        removed=tuple(e for e in data if not e.file.is_live),
        added_deletes=tuple(e for e in deletes if e.file.is_live),
        removed_deletes=gone,
        oldest_data=_oldest_data(history, snapshot) if gone else 0,
    )


def _was_changed(manifest: ManifestFacts) -> bool:
    """Rewritten manifests hold nothing that their snapshot did."""
    return not manifest.counts_known or bool(manifest.added_files or manifest.deleted_files)


def _own(history: TableHistory, manifest: ManifestFacts, snapshot: SnapshotFacts) -> Iterator[Located]:
    for file in history.reads_entries(manifest):
        if file.status is not Status.EXISTING and file.snapshot_id == snapshot.snapshot_id:
            yield Located(manifest=manifest, file=file)


def _oldest_data(history: TableHistory, snapshot: SnapshotFacts) -> int:
    listed = history.reads_manifests(snapshot.snapshot_id)
    live = [m for m in listed if m.content == DATA and (not m.counts_known or m.added_files or m.existing_files)]
    return min((m.min_sequence_number for m in live), default=snapshot.sequence_number + 1)
