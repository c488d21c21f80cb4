"""The log table of one consumer: an Iceberg table without rows, each of whose snapshots carries one checkpoint.

A snapshot is committed against the head that was read, so the catalog's own compare-and-set decides between two
writers. All snapshots name one empty manifest list: an engine that reads the table finds no rows, and no error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.schema import Schema
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.types import NestedField, StringType

from airflow_provider_ips.core.identifiers import MAX_TABLE_NAME, name_digest, readable
from airflow_provider_ips.iceberg.icdc.leftovers import FileNames, find_unreferenced_files
from airflow_provider_ips.iceberg.manifests.lists import write_manifest_list
from airflow_provider_ips.iceberg.storage.requests import StoredFile

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


OWNER: Final = "ips.checkpoint-consumer"
"""The table property that marks a log, and names its consumer."""

DOCUMENT: Final = "ips.document"
REVISION: Final = "ips.revision"
WRITE_ID: Final = "ips.write-id"
"""Names the attempt that wrote a snapshot: of two writers with the same document, only one has committed it."""

KEEP_SNAPSHOTS: Final = 100
KEEP_BYTES: Final = 1_000_000
"""At every commit a catalog reads and writes the table's metadata as a whole, with the documents in it."""

LOG_NAME: Final = re.compile(r"[a-z0-9_]+_[0-9a-f]{20}")
_FILE_NAMES: Final = FileNames(LOG_NAME, re.compile(r"[0-9]{5}-[0-9a-f\-]{36}\.metadata\.json"))
"""How PyIceberg names metadata files, in the folder of a table that is named like a log."""

_EMPTY_LIST: Final = "no-rows.avro"
_SCHEMA: Final = Schema(
    NestedField(1, "note", StringType(), required=False, doc="no rows: the snapshots' summaries are the log")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One snapshot of a log, whether it holds a document or not."""

    snapshot_id: int
    revision: int | None
    text: str | None
    write_id: str | None

    @property
    def size_bytes(self) -> int:
        return len((self.text or "").encode())


def log_name(consumer: str) -> str:
    """Derive the log's name from the consumer: a readable part, then a hash that makes it unique."""
    tail = "_" + name_digest(consumer)
    return readable(consumer, limit=MAX_TABLE_NAME - len(tail)) + tail


def create_log(catalog: Catalog, identifier: tuple[str, ...], consumer: str) -> Table:
    """Create the table. It has no snapshot yet, and so no document."""
    return catalog.create_table(
        identifier,
        schema=_SCHEMA,
        properties={
            OWNER: consumer,
            "comment": "A checkpoint of airflow-provider-ips, in the summaries of its snapshots",
            # Its own commits keep it small; an engine's expiry would delete the manifest list that all snapshots share.
            "gc.enabled": "false",
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "10",
        },
    )


def entries(table: Table) -> list[Entry]:
    """Read all retained snapshots, oldest first."""
    ordered = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    return [_entry(snapshot) for snapshot in ordered]


def head_entry(table: Table) -> Entry | None:
    """Read the current snapshot; None if there is none."""
    snapshot = table.current_snapshot()
    return None if snapshot is None else _entry(snapshot)


def append_entry(table: Table, text: str, revision: int, *, write_id: str) -> None:
    """Commit one document over the head that ``table`` was loaded with, or raise.

    The same commit expires older snapshots, so nothing else has to keep the log small.
    """
    head = table.current_snapshot()
    if head is None:
        _write_empty_list(table)
    snapshot = _snapshot(table, head, {DOCUMENT: text, REVISION: str(revision), WRITE_ID: write_id})
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId.model_validate(
            {"ref": MAIN_BRANCH, "snapshot-id": None if head is None else head.snapshot_id}
        ),
    )
    move = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot.snapshot_id}
    expired = _to_expire(entries(table), len(text.encode()), None if head is None else head.snapshot_id)
    expiry = (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired}),) if expired else ()
    updates = (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(move), *expiry)
    table._do_commit(updates, requirements)  # noqa: SLF001 - the only call that also deletes old metadata files


def has_lost_its_head(table: Table) -> bool:
    """Whether the table has had snapshots and has no current one."""
    return table.metadata.current_snapshot_id is None and _last_sequence_number(table) > 0


def find_log_leftovers(catalog: Catalog, namespace: str, logs: Sequence[Table]) -> Iterator[StoredFile]:
    """Find metadata files that no log names, where PyIceberg writes them. A REST catalog cleans up its own files."""
    if not isinstance(catalog, MetastoreCatalog):
        return
    known = {log.name()[-1]: log.metadata.location.rstrip("/") for log in logs}
    named = {file for log in logs for file in _metadata_files(log)}
    yield from find_unreferenced_files(catalog, namespace, known, named, file_names=_FILE_NAMES)


def _metadata_files(log: Table) -> Iterator[str]:
    yield log.metadata_location
    yield from (entry.metadata_file for entry in log.metadata.metadata_log)


def _last_sequence_number(table: Table) -> int:
    return int(getattr(table.metadata, "last_sequence_number", 0))


def _entry(snapshot: Snapshot) -> Entry:
    facts = {} if snapshot.summary is None else snapshot.summary.additional_properties
    number = facts.get(REVISION, "")
    return Entry(
        snapshot_id=snapshot.snapshot_id,
        revision=int(number) if number.isascii() and number.isdigit() else None,
        text=facts.get(DOCUMENT),
        write_id=facts.get(WRITE_ID),
    )


def _snapshot(table: Table, head: Snapshot | None, facts: Mapping[str, str]) -> Snapshot:
    now_ms = time.time_ns() // 1_000_000
    return Snapshot.model_validate(
        {
            "snapshot-id": table.metadata.new_snapshot_id(),
            "parent-snapshot-id": None if head is None else head.snapshot_id,
            "sequence-number": _last_sequence_number(table) + 1,
            # The clocks of two machines differ, and engines refuse a table whose time runs backwards.
            "timestamp-ms": max(now_ms, table.metadata.last_updated_ms),
            "manifest-list": _empty_list(table),
            "schema-id": table.metadata.current_schema_id,
            "summary": Summary(Operation.APPEND, **facts, **{"total-data-files": "0", "total-records": "0"}),
        }
    )


def _empty_list(table: Table) -> str:
    return f"{table.metadata.location.rstrip('/')}/metadata/{_EMPTY_LIST}"


def _write_empty_list(table: Table) -> None:
    output = table.io.new_output(_empty_list(table))
    if not output.exists():
        write_manifest_list(output, [], format_version=table.format_version, snapshot_id=0, sequence_number=0)


def _to_expire(retained: Sequence[Entry], new_bytes: int, head_id: int | None) -> list[int]:
    """Choose the oldest snapshots, beyond either limit; never the head, which is current until this commit."""
    total, kept, expired = new_bytes, 1, []
    for entry in reversed(retained):
        total, kept = total + entry.size_bytes, kept + 1
        if entry.snapshot_id != head_id and (total > KEEP_BYTES or kept > KEEP_SNAPSHOTS):
            expired.append(entry.snapshot_id)
    return expired
