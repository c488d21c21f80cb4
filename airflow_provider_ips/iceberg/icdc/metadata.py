"""What the metadata of an ICDC table says: every ``ips.*`` property, and what is copied from its source with ids."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.typedef import IcebergBaseModel

from airflow_provider_ips.core.errors import IcdcConflictError
from airflow_provider_ips.core.identifiers import (
    HELD_UNTIL,
    CapturedBranch,
    CapturedRange,
    Source,
    TableIdentifier,
    digest,
)
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.results.capture_record import BranchRecord
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.manifests.lists import ManifestList

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot

    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource


PREFIX: Final = "ips."
IDENTITY: Final = f"{PREFIX}identity"
"""A hash over all other properties but ``ips.written``: the same for the same capture, in any process."""

SOURCE: Final = f"{PREFIX}source"
BRANCH: Final = f"{PREFIX}branch"
KIND: Final = f"{PREFIX}kind"
TABLE_UUID: Final = f"{PREFIX}table-uuid"
FROM_SNAPSHOT_ID: Final = f"{PREFIX}from-snapshot-id"
TO_SNAPSHOT_ID: Final = f"{PREFIX}to-snapshot-id"
CAPTURE_ID: Final = f"{PREFIX}capture-id"
CONSUMER: Final = f"{PREFIX}consumer"
SELECTION: Final = f"{PREFIX}selection"
"""Identifies the manifest entries that were taken."""

SETTINGS: Final = f"{PREFIX}settings"
"""The settings that chose them."""

READ_AS: Final = f"{PREFIX}read-as"
"""Identifies what readers go by: the source's schema, partitioning and properties as they are copied."""

WRITTEN: Final = f"{PREFIX}written"
"""Hashes of schema, partitioning, properties and manifests as they were written: a later change shows by them."""

READER_PROPERTIES: Final = ("schema.name-mapping.default", "comment")
READER_PREFIXES: Final = ("read.",)
_NAMESPACE: Final = uuid.UUID("6b1d0c52-6f0a-5b1e-9c59-1c7f2f0f3a11")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The source and range of an ICDC table, and in ``extra`` (names without prefix) the consumer, capture and run."""

    source: Source
    kind: str
    from_exclusive: Position | None
    to_inclusive: Position
    selection: str
    settings: str
    read_as: str
    extra: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        facts = {name.removeprefix(PREFIX): value for name, value in self._facts().items()}
        return digest(json.dumps(facts, sort_keys=True), length=32)

    def properties(self) -> dict[str, str]:
        """The table's properties. None of them is secret, and none lets an engine delete the source's files."""
        return {**self.summary(), "gc.enabled": "false"}

    def summary(self) -> dict[str, str]:
        """The same in the summary of a snapshot, where it says nothing of a table."""
        return {**self._facts(), IDENTITY: self.fingerprint}

    def _facts(self) -> dict[str, str]:
        start = self.from_exclusive
        return {
            **{f"{PREFIX}{key}": str(value) for key, value in self.extra.items()},
            SOURCE: self.source.table,
            BRANCH: self.source.branch,
            KIND: self.kind,
            SELECTION: self.selection,
            SETTINGS: self.settings,
            READ_AS: self.read_as,
            TABLE_UUID: self.to_inclusive.table_uuid,
            FROM_SNAPSHOT_ID: (start and start.snapshot_text) or "",
            TO_SNAPSHOT_ID: str(self.to_inclusive.snapshot_id),
        }


def load_if_exists(catalog: Catalog, name: str) -> Table | None:
    """Load a table by its dotted name; None if there is no such table."""
    try:
        return catalog.load_table(TableIdentifier.parse(name).parts)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def snapshot_of_branch(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """The snapshot at which a branch is; None if there is no such branch."""
    ref = metadata.refs.get(branch)
    return metadata.snapshot_by_id(ref.snapshot_id) if ref and ref.snapshot_ref_type is SnapshotRefType.BRANCH else None


def properties_of(snapshot: Snapshot) -> dict[str, str]:
    """What a capture has written into the summary of its snapshot; nothing for a snapshot of anybody else."""
    found = snapshot.summary.additional_properties if snapshot.summary else {}
    return {key: str(value) for key, value in found.items()} if IDENTITY in found else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCapture:
    """What a capture has made: a table of its own, or the source with a branch, and the snapshot that has the rows."""

    table: Table
    name: str

    @property
    def properties(self) -> Mapping[str, str]:
        return capture_properties(self.table.metadata, self.name)

    @property
    def snapshot(self) -> Snapshot | None:
        branch, metadata = CapturedBranch.parse(self.name), self.table.metadata
        return metadata.current_snapshot() if branch is None else snapshot_of_branch(metadata, branch.branch)


def load_capture(catalog: Catalog, name: str) -> LoadedCapture | None:
    """Load a capture by the name that engines read; None if there is no such table or branch, as for a range."""
    if CapturedRange.parse(name) is not None:
        return None
    branch = CapturedBranch.parse(name)
    table = load_if_exists(catalog, name if branch is None else branch.table)
    if table is None or (branch is not None and snapshot_of_branch(table.metadata, branch.branch) is None):
        return None
    return LoadedCapture(table=table, name=name)


def capture_properties(metadata: TableMetadata, name: str) -> dict[str, str]:
    """What a capture says of itself, in the properties of its table or in the summary of its snapshot."""
    branch = CapturedBranch.parse(name)
    if branch is None:
        return dict(metadata.properties)
    snapshot = snapshot_of_branch(metadata, branch.branch)
    return {} if snapshot is None else properties_of(snapshot)


def branch_record(metadata: TableMetadata, name: str | None) -> BranchRecord | None:
    """Where a branch is, for the record; None for a table, or if no branch of that name holds a capture any more."""
    branch = None if name is None else CapturedBranch.parse(name)
    snapshot = None if branch is None else snapshot_of_branch(metadata, branch.branch)
    if branch is None or snapshot is None or (held_until := properties_of(snapshot).get(HELD_UNTIL)) is None:
        return None
    return BranchRecord(branch=branch.branch, snapshot_id=snapshot.snapshot_id, held_until_ms=int(held_until))


def refuse_other_table(name: str, properties: Mapping[str, str], *, consequence: str, remedy: str) -> None:
    """Refuse a table that no capture made."""
    if IDENTITY not in properties:
        raise IcdcConflictError(
            f"{name} is not an ICDC table: it has no property {IDENTITY!r}", consequence=consequence, remedy=remedy
        )


def icdc_snapshot_id(fingerprint: str) -> int:
    """The id of an ICDC table's only snapshot: positive, and the same at a retry."""
    return int(digest(fingerprint, "snapshot", length=15), 16)


def icdc_metadata(
    source: TableMetadata,
    identity: Identity,
    *,
    location: str,
    manifest_list: str,
    manifests: Sequence[ManifestFile],
    totals: Mapping[str, str],
) -> bytes:
    """Copy what readers look up by id, and replace uuid, location, snapshots and properties."""
    bare = source.model_copy(
        update={
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "statistics": [],
            "partition_statistics": [],
            "current_snapshot_id": None,
        }
    )
    # PyIceberg refuses to serialise v3 metadata because it cannot write v3 tables. Here nothing of v3 is written.
    document: dict[str, Any] = json.loads(IcebergBaseModel.model_dump_json(bare))
    snapshot = _snapshot(source, identity, manifest_list, totals)
    properties = _properties(source) | identity.properties()
    now = max(int(time.time() * 1000), snapshot["timestamp-ms"])
    document |= {
        "table-uuid": str(uuid.uuid5(_NAMESPACE, identity.fingerprint)),
        "location": location,
        "last-updated-ms": now,
        "properties": properties | {WRITTEN: json.dumps(written_parts(source, properties, manifests))},
        "current-snapshot-id": snapshot["snapshot-id"],
        "snapshots": [snapshot],
        "snapshot-log": [{"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]}],
        "refs": {"main": {"snapshot-id": snapshot["snapshot-id"], "type": "branch"}},
    }
    return json.dumps(document).encode()


def _snapshot(
    source: TableMetadata, identity: Identity, manifest_list: str, totals: Mapping[str, str]
) -> dict[str, Any]:
    snapshot: dict[str, Any] = {
        "snapshot-id": icdc_snapshot_id(identity.fingerprint),
        "timestamp-ms": identity.to_inclusive.committed_at_ms,
        "manifest-list": manifest_list,
        "summary": {"operation": "append", **totals},
        "schema-id": source.current_schema_id,
    }
    if source.format_version > 1:
        snapshot["sequence-number"] = identity.to_inclusive.sequence_number
    if source.format_version > 2:  # noqa: PLR2004 - v3 counts row ids, and this snapshot assigns none
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    return snapshot


def _properties(source: TableMetadata) -> dict[str, str]:
    """Only what readers need: a source's properties may include write paths, rules of retention, or secrets."""
    return {
        key: value
        for key, value in source.properties.items()
        if key in READER_PROPERTIES or key.startswith(READER_PREFIXES)
    }


def read_as(source: IcebergSource) -> str:
    """Identify what an ICDC table made now would copy of its source besides files.

    A column is renamed between two attempts: the table of the first has the old name, so it is not what the second
    would make.
    """
    return digest(json.dumps(written_parts(source.metadata, _properties(source.metadata), ()), sort_keys=True))


_OF_CATALOGS: Final = "nessie."
"""Nessie shows its own properties among those of a table."""


def written_parts(
    metadata: TableMetadata, properties: Mapping[str, str], manifests: Sequence[ManifestFile]
) -> dict[str, str]:
    """Hash what readers go by, part by part: of the metadata that is about to be written, or of what is there."""
    schema = metadata.schema()
    fields = [[str(f), f.required, repr(f.initial_default), repr(f.write_default)] for f in schema.fields]
    spec = metadata.spec()
    partitioning = [[f.source_id, f.field_id, str(f.transform), f.name] for f in spec.fields]
    kept = {key: text for key, text in properties.items() if key != WRITTEN and not key.startswith(_OF_CATALOGS)}
    listed = [[m.manifest_path, m.manifest_length, m.added_files_count, m.existing_files_count] for m in manifests]
    parts: dict[str, object] = {
        "schema": [schema.schema_id, sorted(schema.identifier_field_ids), fields],
        "partitioning": [spec.spec_id, partitioning],
        "properties": kept,
        "manifests": listed,
    }
    return {name: digest(json.dumps(part, sort_keys=True)) for name, part in parts.items()}


def changes_since_written(table: Table) -> list[str]:
    """Say what was changed in an ICDC table since its capture wrote it; nothing if it is exactly as it was written."""
    metadata, properties = table.metadata, table.metadata.properties
    changed = []
    own_id = icdc_snapshot_id(properties.get(IDENTITY, ""))
    others = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id != own_id]
    if others:
        operations = [s.summary.operation.value if s.summary else "unknown" for s in others]
        changed.append(f"it has {len(others)} more snapshots ({', '.join(sorted(set(operations)))})")
    if metadata.current_snapshot_id != own_id:
        changed.append("its current snapshot is not the one that capture wrote")
    refs = {name for name, ref in metadata.refs.items() if name != "main" or not _is_branch_at(ref, own_id)}
    if refs:
        changed.append(f"its branches or tags were changed ({', '.join(sorted(refs))})")
    try:
        before = dict(json.loads(properties[WRITTEN]))
    except (KeyError, ValueError, TypeError):
        return [*changed, f"it has no readable property {WRITTEN}"]
    own = metadata.snapshot_by_id(own_id)
    with translate_errors("reading the manifest list of an ICDC table"):
        manifests = ManifestList(table.io, own.manifest_list).all() if own else []
    now = written_parts(metadata, properties, manifests)
    return [*changed, *(f"its {part} changed" for part in now if now[part] != before.get(part))]


def _is_branch_at(ref: SnapshotRef, snapshot_id: int) -> bool:
    return ref.snapshot_ref_type is SnapshotRefType.BRANCH and ref.snapshot_id == snapshot_id
