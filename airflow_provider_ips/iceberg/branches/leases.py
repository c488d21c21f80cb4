"""What captures in branches hold: since when, until when, and how many bytes that no other snapshot lists.

    main   1 ── 2 ── 3      2 compacted the files of 1, which has expired
           └─ 9             ips_db_t_1f0c… captured them: nothing else holds their bytes

A file that two captures hold counts for each of them. What is read is bounded. An entry names the snapshot that added
its file: if that one is retained, it holds the file. If not, every snapshot that has the file got it from its parent,
so that only snapshots without a retained parent are looked at, mostly one. Of their manifests those are read that are
old enough for the file, and are not the very ones that were captured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.identifiers import BRANCH_PREFIX, HELD_UNTIL, CapturedBranch, Source
from airflow_provider_ips.iceberg.branches.branch import BranchFiles
from airflow_provider_ips.iceberg.foreign_errors import foreign_errors
from airflow_provider_ips.iceberg.icdc.metadata import (
    CAPTURE_ID,
    CONSUMER,
    PREFIX,
    properties_of,
    snapshot_of_branch,
)
from airflow_provider_ips.iceberg.manifests.entry_facts import read_entries
from airflow_provider_ips.iceberg.manifests.lists import ManifestList
from airflow_provider_ips.iceberg.source.iceberg_source import open_source_if_exists

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from airflow_provider_ips.core.history.files import FileFacts


MAX_READS: Final = 100
"""Manifest lists and manifests that are read to count the bytes of one table's branches: 3 s at 30 ms a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBranch:
    """A branch of a table that holds a capture, by the summary of its snapshot."""

    name: str
    """As engines read it."""

    consumer: str
    capture_id: str
    made_at_ms: int
    held_until_ms: int
    is_detached: bool
    held_bytes: int | None = None
    """The size of the files that are held by captures alone; None if that is unknown."""

    def is_ending(self, now_ms: int) -> bool:
        """Whether less than a quarter of the lease is left."""
        return (self.held_until_ms - now_ms) * 4 < self.held_until_ms - self.made_at_ms


def find_branches(table: str, metadata: TableMetadata) -> Iterator[FoundBranch]:
    """The captures that branches of a table hold, oldest first; no request is made, and no byte is counted."""
    found = ((name, snapshot_of_branch(metadata, name)) for name in metadata.refs if name.startswith(BRANCH_PREFIX))
    for name, snapshot in sorted(found, key=lambda pair: 0 if pair[1] is None else pair[1].timestamp_ms):
        if snapshot is not None and (properties := properties_of(snapshot)):
            yield FoundBranch(
                name=str(CapturedBranch(table, name)),
                consumer=properties.get(CONSUMER, ""),
                capture_id=properties.get(CAPTURE_ID, ""),
                made_at_ms=snapshot.timestamp_ms,
                held_until_ms=int(properties[HELD_UNTIL]),
                is_detached=f"{PREFIX}detached" in properties,
            )


def find_leases(catalog: Catalog, table: str) -> list[FoundBranch] | None:
    """The same with the bytes that each branch holds; None if the table cannot be loaded."""
    try:
        source = open_source_if_exists(catalog, Source(table))
    except IpsError:  # it belongs to another connection, or this one may not read it
        return None
    return (
        [] if source is None else count_bytes(source.table.io, source.metadata, find_branches(table, source.metadata))
    )


def count_bytes(io: FileIO, metadata: TableMetadata, branches: Iterator[FoundBranch]) -> list[FoundBranch]:
    """Count the bytes that each branch of one table holds."""
    count = _Count(io, metadata)
    return [replace(branch, held_bytes=count.bytes_of(branch)) for branch in branches]


def total_bytes(branches: Sequence[FoundBranch]) -> int | None:
    """Add up the bytes of some branches; None if those of one are unknown."""
    known = [branch.held_bytes for branch in branches if branch.held_bytes is not None]
    return sum(known) if len(known) == len(branches) else None


class _TooManyReadsError(Exception):
    """More would have to be read than is allowed."""


class _Count:
    """Counts the bytes of all branches of one table, with one allowance of requests."""

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io = io
        self._metadata = metadata
        self._retained = {s.snapshot_id: s for s in metadata.snapshots if not properties_of(s)}
        self._reads_left = MAX_READS
        self._live: dict[str, Collection[str]] = {}

    def bytes_of(self, branch: FoundBranch) -> int | None:
        captured = CapturedBranch.parse(branch.name)
        snapshot = None if captured is None else snapshot_of_branch(self._metadata, captured.branch)
        try:
            return None if snapshot is None else self._bytes_of(snapshot)
        except (_TooManyReadsError, IpsError):
            return None
        except foreign_errors():
            return None

    def _bytes_of(self, snapshot: Snapshot) -> int:
        own = BranchFiles.of_snapshot(snapshot)
        listed = {manifest.manifest_path: manifest for manifest in self._list(snapshot)}
        doubtful = [m for path, m in listed.items() if (own and own.has(path)) or not self._is_listed_by_writer(m)]
        if doubtful:
            doubtful = [m for m in doubtful if m.manifest_path not in self._listed_by_first]
        entries = [entry for manifest in doubtful for entry in self._entries(manifest)]
        # One Puffin file has the deletes of many data files, each in an entry of its own.
        alone = {entry.path: entry for entry in entries if entry.snapshot_id not in self._retained}
        oldest = max((entry.sequence_number for entry in alone.values()), default=0)
        for path, manifest in self._listed_by_first.items() if alone else ():
            if path not in listed and (manifest.min_sequence_number or 0) <= oldest:
                for held in self._live_paths(manifest):
                    alone.pop(held, None)
        return sum(entry.size_bytes for entry in alone.values())

    def _is_listed_by_writer(self, manifest: ManifestFile) -> bool:
        """Whether the snapshot that wrote a manifest, and so lists it, is retained."""
        return manifest.added_snapshot_id in self._retained

    @cached_property
    def _listed_by_first(self) -> dict[str, ManifestFile]:
        """The manifests of all snapshots without a retained parent, by path."""
        first = [s for s in self._retained.values() if s.parent_snapshot_id not in self._retained]
        return {manifest.manifest_path: manifest for snapshot in first for manifest in self._list(snapshot)}

    def _list(self, snapshot: Snapshot) -> list[ManifestFile]:
        self._count_read()
        return ManifestList(self._io, snapshot.manifest_list).all()

    def _entries(self, manifest: ManifestFile) -> list[FileFacts]:
        self._count_read()
        return [entry for entry in read_entries(self._io, manifest) if entry.is_live]

    def _live_paths(self, manifest: ManifestFile) -> Collection[str]:
        if manifest.manifest_path not in self._live:
            self._live[manifest.manifest_path] = {entry.path for entry in self._entries(manifest)}
        return self._live[manifest.manifest_path]

    def _count_read(self) -> None:
        if not self._reads_left:
            raise _TooManyReadsError
        self._reads_left -= 1
