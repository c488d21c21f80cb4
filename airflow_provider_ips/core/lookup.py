"""Finding files in a snapshot: named ones, those that deletes reach, and the deletes that reach given files."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from airflow_provider_ips.core.files import Content, Located, Reach, Targets
from airflow_provider_ips.core.gaps import may_hold_live
from airflow_provider_ips.core.history import DATA, DELETES
from airflow_provider_ips.core.selection import Selection, Take

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from airflow_provider_ips.core.course import Reached
    from airflow_provider_ips.core.files import FileFacts, FileKey, Partition
    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory


class Wanted:
    """Data files that are looked for: by path and sequence number, or because a delete reached them at some step."""

    def __init__(self, *, paths: Mapping[str, int], reached: Sequence[Reached]) -> None:
        self.paths = paths
        self.reached = reached
        self._numbers = sorted(set(paths.values()))
        self._names: dict[str, list[Reached]] = defaultdict(list)
        self._places: dict[tuple[int | None, Partition], list[Reached]] = defaultdict(list)
        for one in reached:
            if one.reach.names is not None:
                self._names[one.reach.names].append(one)
            else:
                self._places[one.reach.spec_id, one.reach.partition].append(one)

    @property
    def is_empty(self) -> bool:
        """Nothing is looked for."""
        return not (self.paths or self.reached)

    def covers(self, file: FileFacts, *, before: int | None = None) -> bool:
        """Tell whether a delete reached the file, in a step before the given one."""
        candidates = (
            *self._names.get(file.path, ()),
            *self._places.get((file.spec_id, file.partition), ()),
            *self._places.get((None, ()), ()),
        )
        return any((before is None or one.step < before) and one.reach.covers(file) for one in candidates)

    def may_be_in(self, manifest: ManifestFacts) -> bool:
        """Tell by specs and sequence numbers whether a manifest may name any of the files; 0 is no known number."""
        if self._numbers and self._numbers[0] == 0:
            return True
        first = bisect_left(self._numbers, manifest.min_sequence_number)
        if first < len(self._numbers) and self._numbers[first] <= manifest.sequence_number:
            return True
        return any(
            one.reach.spec_id in (manifest.spec_id, None) and manifest.min_sequence_number <= one.reach.up_to
            for one in self.reached
        )

    def has(self, file: FileFacts) -> bool:
        """Tell whether the file is looked for."""
        return file.path in self.paths or self.covers(file)


def find(
    history: TableHistory, snapshot: SnapshotFacts, wanted: Wanted, *, written_by: Collection[int] | None = None
) -> Iterator[Located]:
    """The wanted data files that are live in a snapshot; ``written_by`` limits the search to some manifests."""
    if wanted.is_empty:
        return
    for manifest in history.reads_manifests(snapshot.snapshot_id):
        if manifest.content != DATA or not may_hold_live(manifest) or not wanted.may_be_in(manifest):
            continue
        if written_by is not None and manifest.added_snapshot_id not in (*written_by, None):
            continue
        for file in history.reads_entries(manifest):
            if file.is_live and wanted.has(file):
                yield Located(manifest=manifest, file=file)


def deletes_for(history: TableHistory, snapshot: SnapshotFacts, files: Sequence[Located]) -> list[Located]:
    """The delete files of a snapshot that apply to any of the files."""
    reached = Targets(located.file for located in files)
    if reached.oldest is None:
        return []
    return [
        Located(manifest=manifest, file=file)
        for manifest in history.reads_manifests(snapshot.snapshot_id)
        if manifest.content == DELETES and may_hold_live(manifest) and manifest.sequence_number >= reached.oldest
        for file in history.reads_entries(manifest)
        if file.is_live and file.content is not Content.DATA and reached.by(Reach.of(file))
    ]


def selections_of(located: Iterable[Located]) -> tuple[Selection, ...]:
    """By manifest. One of which every live entry is wanted is taken as it is."""
    manifests: dict[str, ManifestFacts] = {}
    chosen: dict[str, set[FileKey]] = defaultdict(set)
    for one in located:
        manifests[one.manifest.path] = one.manifest
        chosen[one.manifest.path].add(one.file.key)
    return tuple(_selection(manifest, frozenset(chosen[path])) for path, manifest in manifests.items())


def _selection(manifest: ManifestFacts, chosen: frozenset[FileKey]) -> Selection:
    live = (manifest.added_files or 0) + (manifest.existing_files or 0)
    if manifest.counts_known and len(chosen) == live:
        return Selection(manifest=manifest, take=Take.WHOLE)
    return Selection(manifest=manifest, take=Take.CHOSEN, chosen=chosen)
