"""A source as a history: its manifest lists are read when needed, and older metadata files where it was cut off."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyiceberg.table.metadata import TableMetadataUtil

from airflow_provider_ips.core.errors import InputError, IpsError, UnsupportedTableError
from airflow_provider_ips.core.history.files import FileFacts, ManifestFacts, Status
from airflow_provider_ips.core.history.selections import Selection, Take
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, head_position, live_volume, logged_head
from airflow_provider_ips.core.identifiers import CapturedBranch, CapturedRange, Source, TableIdentifier
from airflow_provider_ips.core.lineage.named_positions import starting_position
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.iceberg.foreign_errors import parsing, translate_errors
from airflow_provider_ips.iceberg.manifests.entry_facts import read_entries
from airflow_provider_ips.iceberg.manifests.lists import ManifestList, first_row_id_of, manifest_facts
from airflow_provider_ips.iceberg.source.catalog_table import check_branch, is_view, load_table
from airflow_provider_ips.iceberg.storage.files import read_text

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


CACHED_LISTS: Final = 4
"""Manifest lists that stay in memory. A range over merged or rewritten manifests reads one for each snapshot, once."""

MAX_METADATA_FILES: Final = 3
"""Older files that are read for one commit: commits may share a millisecond, and some writers then add one."""


class IcebergSource:
    """A table and one of its branches as they were when the table was loaded; commits after that are not seen."""

    def __init__(self, table: Table, name: str, branch: str) -> None:
        self.table = table
        self.name = name
        self.branch = branch
        self._lists: dict[int, ManifestList] = {}
        self._listed: dict[str, ManifestFile] = {}
        self._listed_by: dict[str, set[int]] = {}
        self._facts: dict[int, SnapshotFacts] = {}
        self._old_metadata: dict[int, Mapping[int, SnapshotFacts]] = {}

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def table_uuid(self) -> str:
        return str(self.metadata.table_uuid)

    @property
    def format_version(self) -> int:
        return self.metadata.format_version

    @cached_property
    def _snapshots(self) -> dict[int, Snapshot]:
        return {s.snapshot_id: s for s in self.metadata.snapshots}

    @property
    def head(self) -> SnapshotFacts | None:
        if self.branch == "main":
            head_id = self.metadata.current_snapshot_id
        else:
            head_id = self.metadata.refs[self.branch].snapshot_id
        return None if head_id is None else self.snapshot(head_id)

    @property
    def log_since_ms(self) -> int | None:
        """The time of the oldest entry in the snapshot log; None for other branches than main, which have no log.

        Expiry removes the entries of the snapshots that it removes, and Java's also removes all older entries.
        """
        log = self.metadata.snapshot_log
        return log[0].timestamp_ms if log and self.branch == "main" else None

    def head_at(self, time_ms: int) -> int | None:
        if self.branch != "main":
            return None
        return logged_head([(e.timestamp_ms, e.snapshot_id) for e in self.metadata.snapshot_log], time_ms)

    @property
    def volume(self) -> Volume:
        """How much the whole table holds, by the summary of its head; None for a count that it lacks."""
        return live_volume(self.head)

    @property
    def position(self) -> Position:
        return head_position(self)

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        known = self._facts.get(snapshot_id)
        if known is not None:
            return known
        found = self._snapshots.get(snapshot_id)
        if found is None:
            return None
        self._facts[snapshot_id] = _snapshot_facts(found)
        return self._facts[snapshot_id]

    def retained_snapshots(self) -> list[SnapshotFacts]:
        return [_snapshot_facts(found) for found in self._snapshots.values()]

    def reads_manifests(self, snapshot_id: int) -> list[ManifestFacts]:
        return [manifest_facts(m) for m in self.manifests_of(snapshot_id)]

    def reads_manifests_written_by(self, snapshot_id: int, writers: Collection[int]) -> list[ManifestFacts]:
        return [
            manifest_facts(m) for m in self._remember(snapshot_id, self._manifest_list(snapshot_id).written_by(writers))
        ]

    def reads_entries(self, manifest: ManifestFacts) -> Iterator[FileFacts]:
        with translate_errors(f"reading {manifest.path}"):
            yield from read_entries(self.table.io, self.listed(manifest))

    def reads_selected(self, selection: Selection) -> Iterator[FileFacts]:
        """The live files that a selection takes of its manifest. Costs a file read."""
        return (file for file in self.reads_entries(selection.manifest) if file.is_live and _is_taken(selection, file))

    def listed(self, manifest: ManifestFacts) -> ManifestFile:
        """A manifest with all fields of its manifest list, which the ICDC table's list must carry over.

        A list from before an upgrade to v3 has no row ids, and a later one assigns them to the same manifest: of
        several lists the one with row ids counts.
        """
        return self._listed[manifest.path]

    def snapshots_that_list(self, manifest: ManifestFacts) -> Collection[int]:
        """The snapshots in whose lists a manifest was found: while one of them is retained, its files are."""
        return self._listed_by[manifest.path]

    def reads_old_metadata(self, snapshot_id: int, committed_at_ms: int) -> Mapping[int, SnapshotFacts]:
        if snapshot_id not in self._old_metadata:
            found = _snapshots_when_committed(self.table, snapshot_id, committed_at_ms)
            self._old_metadata[snapshot_id] = {s.snapshot_id: _snapshot_facts(s) for s in found}
        return self._old_metadata[snapshot_id]

    def manifests_of(self, snapshot_id: int) -> list[ManifestFile]:
        """The manifests of a retained snapshot, with all fields of its manifest list."""
        return self._remember(snapshot_id, self._manifest_list(snapshot_id).all())

    def _manifest_list(self, snapshot_id: int) -> ManifestList:
        if snapshot_id not in self._lists:
            path = self._snapshots[snapshot_id].manifest_list
            if not path:
                raise UnsupportedTableError(
                    f"{self.name}: snapshot {snapshot_id} lists its manifests inline, as early v1 tables did",
                    consequence="It is not known which files it has",
                    remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests)",
                )
            with translate_errors(f"reading the manifest list of {self.name}, snapshot {snapshot_id} ({path})"):
                found = ManifestList(self.table.io, path)
            while len(self._lists) >= CACHED_LISTS:
                del self._lists[next(iter(self._lists))]
            self._lists[snapshot_id] = found
        else:
            self._lists[snapshot_id] = self._lists.pop(snapshot_id)  # the list that was used last is dropped last
        return self._lists[snapshot_id]

    def _remember(self, snapshot_id: int, manifests: list[ManifestFile]) -> list[ManifestFile]:
        for manifest in manifests:
            self._listed_by.setdefault(manifest.manifest_path, set()).add(snapshot_id)
            if manifest.manifest_path not in self._listed or first_row_id_of(manifest) is not None:
                self._listed[manifest.manifest_path] = manifest
        return manifests


def _is_taken(selection: Selection, file: FileFacts) -> bool:
    match selection.take:
        case Take.WHOLE:
            return True
        case Take.ADDED:
            return file.status is Status.ADDED
        case Take.NEWER:
            return file.sequence_number > (selection.newer_than or 0)
        case Take.CHOSEN:
            return file.key in selection.chosen


def _snapshot_facts(found: Snapshot) -> SnapshotFacts:
    summary = found.summary
    return SnapshotFacts(
        snapshot_id=found.snapshot_id,
        parent_id=None if found.parent_snapshot_id in (None, -1) else found.parent_snapshot_id,
        sequence_number=found.sequence_number or 0,
        committed_at_ms=found.timestamp_ms,
        operation=None if summary is None else summary.operation.value,
        summary={} if summary is None else {name: str(value) for name, value in summary.additional_properties.items()},
    )


def open_source(catalog: Catalog, source: Source) -> IcebergSource:
    """Load a source, and refuse a table that cannot be captured."""
    return IcebergSource(load_table(catalog, source), source.table, source.branch)


def open_captured(catalog: Catalog, name: str) -> IcebergSource:
    """Load what a capture has made by the name that engines read: an ICDC table, or a branch of the source."""
    branch, captured_range = CapturedBranch.parse(name), CapturedRange.parse(name)
    if captured_range is not None:
        raise InputError(
            f"{name} is a range of {captured_range.table}, which engines read directly",
            consequence="There is no table or branch that could be opened",
            remedy="take the ranges of partitions from the record, or capture with mode ICDC or BRANCH",
        )
    return open_source(catalog, Source(name) if branch is None else Source(branch.table, branch.branch))


def open_source_if_exists(catalog: Catalog, source: Source) -> IcebergSource | None:
    """Load a source; None if its table, namespace or branch does not exist yet. A view is refused: it stays one."""
    try:
        return open_source(catalog, source)
    except InputError:
        if is_view(catalog, TableIdentifier.parse(source.table)):
            raise
        return None


def open_branches(catalog: Catalog, sources: Sequence[Source]) -> list[IcebergSource | IpsError]:
    """Load a table once for several of its branches. One that is missing hides no other."""
    found: list[IcebergSource | IpsError] = []
    table = load_table(catalog, Source(sources[0].table))
    for source in sources:
        try:
            check_branch(table, source)
            found.append(IcebergSource(table, source.table, source.branch))
        except IpsError as error:
            found.append(error)
    return found


def position_at(source: IcebergSource, *, snapshot_id: int | None = None, time_ms: int | None = None) -> Position:
    """The position at a snapshot or at a time of the branch's history; the head if neither is given."""
    if snapshot_id is None and time_ms is None:
        return source.position
    return starting_position(source, snapshot_id=snapshot_id, time_ms=time_ms)


def _snapshots_when_committed(table: Table, snapshot_id: int, committed_at_ms: int) -> Sequence[Snapshot]:
    """The snapshots in the first metadata file that had ``snapshot_id``; none if that file is no longer known."""
    for path in _metadata_files_since(table, committed_at_ms):
        with translate_errors(f"reading the older metadata file {path}"):
            try:
                with parsing(path):
                    metadata = TableMetadataUtil.parse_raw(read_text(table.io, path))
            except FileNotFoundError:
                return ()
        if any(snapshot.snapshot_id == snapshot_id for snapshot in metadata.snapshots):
            return metadata.snapshots
    return ()


def _metadata_files_since(table: Table, time_ms: int) -> Iterator[str]:
    """Yield the metadata files since a time, oldest first; none if one of that time may have left the log already.

    log: 10:00 a, 10:05 b, 10:10 c    since 10:05    b, c
                                      since 09:00    none: a file from 09:00 may have been removed from the log
    """
    log = [(entry.timestamp_ms, entry.metadata_file) for entry in table.metadata.metadata_log]
    if table.metadata_location:  # some catalogs do not say where the newest one is
        log.append((table.metadata.last_updated_ms, table.metadata_location))
    later = [(at_ms, path) for at_ms, path in log if at_ms >= time_ms]
    if len(later) == len(log) and (not log or log[0][0] != time_ms):
        return
    yield from (path for _, path in later[:MAX_METADATA_FILES])
