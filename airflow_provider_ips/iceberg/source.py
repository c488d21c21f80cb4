"""A source table behind one catalog load, answering as a history."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table.refs import SnapshotRefType

from airflow_provider_ips.core.errors import InputError, UnsupportedTableError
from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, head_position
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.core.published import logged_head
from airflow_provider_ips.core.starting import starting_position
from airflow_provider_ips.iceberg.collector import paused_collector
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.listing import ManifestList
from airflow_provider_ips.iceberg.manifest_lists import FIRST_ROW_ID as LISTED_FIRST_ROW_ID
from airflow_provider_ips.iceberg.manifest_lists import facts_of
from airflow_provider_ips.iceberg.past import snapshots_when_committed
from airflow_provider_ips.iceberg.reading import read_entries
from airflow_provider_ips.iceberg.views import is_view

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from airflow_provider_ips.core.files import FileFacts
    from airflow_provider_ips.core.positions import Position

KNOWN_FORMAT_VERSIONS = (1, 2, 3)

LISTS_AT_HAND = 4
"""Manifest lists that stay in memory. A range over merged or rewritten manifests opens one a snapshot, once each."""


class IcebergSource:
    """One source and branch. Loaded once; its head stays where it was then."""

    def __init__(self, table: Table, name: str, branch: str) -> None:
        self.table = table
        self.name = name
        self.branch = branch
        self._lists: dict[int, ManifestList] = {}
        self._listed: dict[str, ManifestFile] = {}
        self._facts: dict[int, SnapshotFacts] = {}
        self._past: dict[int, Mapping[int, SnapshotFacts]] = {}

    @property
    def metadata(self) -> TableMetadata:
        """As the catalog had it at the load."""
        return self.table.metadata

    @property
    def table_uuid(self) -> str:
        """The table's identity."""
        return str(self.metadata.table_uuid)

    @property
    def format_version(self) -> int:
        """1, 2 or 3."""
        return self.metadata.format_version

    @cached_property
    def _snapshots(self) -> dict[int, Snapshot]:
        return {s.snapshot_id: s for s in self.metadata.snapshots}

    @property
    def head(self) -> SnapshotFacts | None:
        """The branch's newest snapshot."""
        if self.branch == "main":
            head_id = self.metadata.current_snapshot_id
        else:
            head_id = self.metadata.refs[self.branch].snapshot_id
        return None if head_id is None else self.snapshot(head_id)

    @property
    def log_since_ms(self) -> int | None:
        """The log's oldest entry. Expiry takes those of what it removes, and Java's all that are older."""
        log = self.metadata.snapshot_log
        return log[0].timestamp_ms if log and self.branch == "main" else None

    def head_at(self, time_ms: int) -> int | None:
        """As the table's log has it, which is kept for main only and cut by expiry."""
        if self.branch != "main":
            return None
        return logged_head([(e.timestamp_ms, e.snapshot_id) for e in self.metadata.snapshot_log], time_ms)

    @property
    def position(self) -> Position:
        """Where the branch stands."""
        return head_position(self)

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        """A retained snapshot."""
        known = self._facts.get(snapshot_id)
        if known is not None:
            return known
        found = self._snapshots.get(snapshot_id)
        if found is None:
            return None
        self._facts[snapshot_id] = _snapshot_facts(found)
        return self._facts[snapshot_id]

    def retained(self) -> list[SnapshotFacts]:
        """All retained snapshots, of whatever branch."""
        return [_snapshot_facts(found) for found in self._snapshots.values()]

    def reads_manifests(self, snapshot_id: int) -> list[ManifestFacts]:
        """The manifest list of a retained snapshot, read once."""
        return [facts_of(m) for m in self.manifests_of(snapshot_id)]

    def reads_manifests_written_by(self, snapshot_id: int, writers: Collection[int]) -> list[ManifestFacts]:
        """Only those that one of the writers wrote, or nobody knows who; all others stay undecoded."""
        return [facts_of(m) for m in self._remembered(self._list_of(snapshot_id).written_by(writers))]

    def reads_entries(self, manifest: ManifestFacts) -> Iterator[FileFacts]:
        """The entries of a manifest that some list named."""
        with mapped(f"reading {manifest.path}"):
            yield from read_entries(self.table.io, self.listed(manifest))

    def listed(self, manifest: ManifestFacts) -> ManifestFile:
        """A manifest with all that a list said of it.

        A list from before an upgrade to v3 has no row ids; a later one assigns them to the same manifest.
        """
        return self._listed[manifest.path]

    def reads_past(self, snapshot_id: int, committed_at_ms: int) -> Mapping[int, SnapshotFacts]:
        """What the metadata file of a snapshot's own commit says, read once."""
        if snapshot_id not in self._past:
            found = snapshots_when_committed(self.table, snapshot_id, committed_at_ms)
            self._past[snapshot_id] = {s.snapshot_id: _snapshot_facts(s) for s in found}
        return self._past[snapshot_id]

    def manifests_of(self, snapshot_id: int) -> list[ManifestFile]:
        """The same with everything that a new manifest list must carry over."""
        return self._remembered(self._list_of(snapshot_id).all())

    def _list_of(self, snapshot_id: int) -> ManifestList:
        if snapshot_id not in self._lists:
            path = self._snapshots[snapshot_id].manifest_list
            if not path:
                raise UnsupportedTableError(
                    f"{self.name}: snapshot {snapshot_id} lists its manifests inline, as early v1 tables did",
                    consequence="Its files cannot be told from here",
                    remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests)",
                )
            with mapped(f"reading the manifest list of {self.name}, snapshot {snapshot_id} ({path})"):
                found = ManifestList(self.table.io, path)
            while len(self._lists) >= LISTS_AT_HAND:
                del self._lists[next(iter(self._lists))]
            self._lists[snapshot_id] = found
        else:
            self._lists[snapshot_id] = self._lists.pop(snapshot_id)  # asked last, forgotten last
        return self._lists[snapshot_id]

    def _remembered(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        for manifest in manifests:
            if manifest.manifest_path not in self._listed or manifest[LISTED_FIRST_ROW_ID] is not None:
                self._listed[manifest.manifest_path] = manifest
        return manifests


def _snapshot_facts(found: Snapshot) -> SnapshotFacts:
    summary = found.summary
    return SnapshotFacts(
        snapshot_id=found.snapshot_id,
        parent_id=None if found.parent_snapshot_id in (None, -1) else found.parent_snapshot_id,
        sequence_number=found.sequence_number or 0,
        committed_at_ms=found.timestamp_ms,
        operation=None if summary is None else summary.operation.value,
        summary={} if summary is None else dict(summary.additional_properties),
    )


def open_source(catalog: Catalog, table: str, branch: str = "main") -> IcebergSource:
    """Load a source once, and refuse what cannot be captured."""
    identifier = TableIdentifier.parse(table)
    with mapped(f"loading {table}"):
        try:
            with paused_collector():
                loaded = catalog.load_table(identifier.parts)
        except (NoSuchTableError, NoSuchNamespaceError, NoSuchIcebergTableError) as error:
            raise _absent(catalog, identifier) from error
    _check_supported(loaded, table)
    _check_branch(loaded, table, branch)
    return IcebergSource(loaded, table, branch)


def _check_branch(loaded: Table, table: str, branch: str) -> None:
    refs = loaded.metadata.refs
    if branch == "main" or (branch in refs and refs[branch].snapshot_ref_type is SnapshotRefType.BRANCH):
        return
    branches = {name for name, ref in refs.items() if ref.snapshot_ref_type is SnapshotRefType.BRANCH}
    raise InputError(
        f"{branch!r} is a tag of {table}, not a branch" if branch in refs else f"{table} has no branch {branch!r}",
        consequence="A tag stays where it is, so nothing would ever be new"
        if branch in refs
        else "There is nothing to capture from",
        remedy=f"use one of {sorted(branches | {'main'})}",
    )


def position_at(source: IcebergSource, *, snapshot_id: int | None = None, time_ms: int | None = None) -> Position:
    """The position at a snapshot or a time of the lineage; the head where neither is given."""
    if snapshot_id is None and time_ms is None:
        return source.position
    return starting_position(source, snapshot_id=snapshot_id, time_ms=time_ms)


def _absent(catalog: Catalog, identifier: TableIdentifier) -> InputError:
    if is_view(catalog, identifier):
        return InputError(
            f"{identifier} is a view, not a table",
            consequence="A view has no files, so nothing tells what was added to it",
            remedy="capture the tables that the view reads",
        )
    return InputError(
        f"table {identifier} does not exist in catalog {catalog.name!r}",
        consequence="There is nothing to capture",
        remedy="check the spelling, the namespace and the catalog that iceberg_conn_id names",
    )


def _check_supported(table: Table, name: str) -> None:
    metadata = table.metadata
    if metadata.format_version not in KNOWN_FORMAT_VERSIONS:
        raise UnsupportedTableError(
            f"{name} has format version {metadata.format_version}",
            consequence="This release does not know what its metadata means",
            remedy="upgrade airflow-provider-ips",
        )
    if any("encryption" in key and key.endswith("key-id") for key in metadata.properties):
        raise UnsupportedTableError(
            f"{name} is encrypted",
            consequence="An ICDC table would lack the keys, and its reader would fail or read noise",
            remedy="this table cannot be captured; process it in full",
        )
