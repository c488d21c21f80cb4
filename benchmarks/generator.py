"""Tables that consist of metadata only: a million files with full statistics in a minute, kept for the next run.

    python -m benchmarks.generator --files 100000 --snapshots 100 --layout merged

Nothing of a data file exists but what manifests say about it. All contenders reach a table through one SQLite catalog.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from benchmarks.avro_records import FIRST_DAY, SCHEMA, SPEC, Container, EntryBytes, ListBytes
from benchmarks.shapes import LAYOUTS, Manifest, Piece, Shape
from scripts.local_spark import sqlite_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.typedef import TableVersion

CACHE: Final = (Path(__file__).parent.parent / ".cache" / "bench").resolve()
CATALOG: Final = "lake"
SOURCE: Final = "db.t"
ICDC: Final = "icdc"
SHORT_HISTORY: Final = 1_100
"""Up to so many snapshots each has its manifest list, as in life."""
LISTS_OF_A_LONG_HISTORY: Final = 20
"""Beyond, only the newest: all lists of 10,000 snapshots would be 50,000,000 records that nobody should read."""

_RELEASE: Final = 2  # of the generator: what it made before another one is made again
_FIRST_COMMIT_MS: Final = 1_767_225_600_000  # 2026-01-01
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A table that is there."""

    shape: Shape
    folder: Path

    @property
    def since(self) -> int:
        """The snapshot before the range."""
        return snapshot_id(self.shape.last_before)

    @property
    def until(self) -> int:
        """The table's newest snapshot."""
        return snapshot_id(self.shape.last)

    @property
    def expected(self) -> tuple[int, int]:
        """Files and records of the range."""
        stop = self.shape.total_before + self.shape.files
        entries = _entry_bytes(self.shape.format_version)
        return self.shape.files, entries.records(self.shape.total_before, stop)

    @property
    def database(self) -> Path:
        """The catalog's SQLite file."""
        return self.folder / "catalog.db"

    @property
    def warehouse(self) -> Path:
        """Where tables lie."""
        return self.folder / "warehouse"


def snapshot_id(number: int) -> int:
    """As long as those of engines."""
    return 1_000_000_000_000_000_000 + number * 7_919_000_000_000


def generate(shape: Shape, cache: Path = CACHE) -> Generated:
    """Make the table, unless an earlier run has."""
    made = Generated(shape=shape, folder=cache / shape.name)
    stamp = made.folder / "complete.json"
    # Manifests name their files by absolute path, so a folder that was moved holds another table's metadata.
    wanted = json.dumps({"release": _RELEASE, "shape": shape.as_dict(), "folder": str(made.folder)})
    if stamp.is_file() and stamp.read_text() == wanted:
        return made
    shutil.rmtree(made.folder, ignore_errors=True)
    made.folder.mkdir(parents=True)
    location = f"file://{made.warehouse}/db/t"
    _Table(shape, location, made.warehouse / "db" / "t" / "metadata").write()
    catalog = open_catalog(made.folder)
    for namespace in ("db", ICDC):
        catalog.create_namespace(namespace)
    catalog.register_table(SOURCE, f"{location}/metadata/00001-source.metadata.json")
    stamp.write_text(wanted)
    return made


def write_metadata(shape: Shape, location: str, folder: Path) -> None:
    """Write a table's metadata to a folder, as a store shows it at that location."""
    _Table(shape, location, folder).write()


def open_catalog(folder: Path) -> SqlCatalog:
    """The catalog that all contenders share."""
    return sqlite_catalog(folder, name=CATALOG)


@cache
def _entry_bytes(format_version: int) -> EntryBytes:
    """Encoding the statistics takes a second; they are the same for every table."""
    return EntryBytes(cast("TableVersion", format_version))


class _Table:
    def __init__(self, shape: Shape, location: str, folder: Path) -> None:
        self._shape, self._location, self._folder = shape, location, folder
        self._entries = _entry_bytes(shape.format_version)
        self._lists = ListBytes(cast("TableVersion", shape.format_version))
        self._entry_schema, self._list_schema = self._entries.avro_schema, self._lists.avro_schema
        self._has_sequence_numbers = shape.format_version > 1
        self._has_row_ids = shape.format_version > 2  # noqa: PLR2004 - v3

    def write(self) -> None:
        self._folder.mkdir(parents=True)
        long = self._shape.last > SHORT_HISTORY + 1
        first_list = self._shape.last - LISTS_OF_A_LONG_HISTORY if long else 0
        live: dict[Manifest, bytes] = {}
        snapshots = []
        for number, written, replaced in self._shape.commits():
            for manifest in replaced:
                del live[manifest]
            fresh = {m: self._manifest(m, f"{number:06d}-m{i}.avro") for i, m in enumerate(written)}
            live |= fresh
            if number > first_list:
                self._list(number, live)
            snapshots.append(self._snapshot(number))
        document = json.dumps(self._metadata(snapshots))
        (self._folder / "00001-source.metadata.json").write_text(document)

    def _day(self, number: int) -> int:
        return FIRST_DAY + number * 24 // max(24, self._shape.last)

    def _manifest(self, manifest: Manifest, name: str) -> bytes:
        """Write it, and give its record for manifest lists."""
        meta = {
            "schema": SCHEMA.model_dump_json(),
            "partition-spec": json.dumps([f.model_dump(by_alias=True, mode="json") for f in SPEC.fields]),
            "partition-spec-id": "0",
            "format-version": str(self._shape.format_version),
            "content": "data",
        }
        with Container((self._folder / name).open("wb"), self._entry_schema, meta) as container:
            for piece in manifest.pieces:
                self._piece(container, manifest, piece)
        return self._listed(manifest, name, container.length)

    def _piece(self, container: Container, manifest: Manifest, piece: Piece) -> None:
        adds = piece.snapshot == manifest.snapshot
        own_id = snapshot_id(piece.snapshot)
        head = self._entries.head(1, own_id, None) if adds else self._entries.head(0, own_id, piece.snapshot)
        day, folder, entries = self._day(piece.snapshot), f"{self._location}/data", self._entries
        for number in range(piece.start, piece.stop):
            row_id = entries.records(0, number) if self._has_row_ids and not adds else None
            container.add(head + entries.file(number, day, folder, row_id))

    def _listed(self, manifest: Manifest, name: str, length: int) -> bytes:
        days = [self._day(p.snapshot) for p in manifest.pieces]
        first = (manifest.added or manifest.pieces)[0].start
        values = {
            "manifest_path": f"{self._location}/metadata/{name}",
            "manifest_length": length,
            "partition_spec_id": 0,
            "content": 0,
            "sequence_number": manifest.snapshot,
            "min_sequence_number": min(p.snapshot for p in manifest.pieces),
            "added_snapshot_id": snapshot_id(manifest.snapshot),
            "added_files_count": sum(len(p) for p in manifest.added),
            "existing_files_count": sum(len(p) for p in manifest.existing),
            "deleted_files_count": 0,
            "added_rows_count": sum(self._entries.records(p.start, p.stop) for p in manifest.added),
            "existing_rows_count": sum(self._entries.records(p.start, p.stop) for p in manifest.existing),
            "deleted_rows_count": 0,
            "first_row_id": self._entries.records(0, first) if self._has_row_ids else None,
        }
        return self._lists.record(values, (min(days), max(days)))

    def _list(self, number: int, live: dict[Manifest, bytes]) -> None:
        meta = {
            "snapshot-id": str(snapshot_id(number)),
            "parent-snapshot-id": str(snapshot_id(number - 1)) if number > 1 else "null",
            "format-version": str(self._shape.format_version),
        }
        if self._has_sequence_numbers:
            meta["sequence-number"] = str(number)
        with Container((self._folder / f"snap-{number:06d}.avro").open("wb"), self._list_schema, meta) as container:
            for record in reversed(live.values()):  # engines list the newest first
                container.add(record)

    def _snapshot(self, number: int) -> dict[str, Any]:
        piece = self._shape.files_of(number)
        records = self._entries.records(piece.start, piece.stop)
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id(number),
            "timestamp-ms": _FIRST_COMMIT_MS + number * _HOUR_MS,
            "manifest-list": f"{self._location}/metadata/snap-{number:06d}.avro",
            "schema-id": 0,
            "summary": {
                "operation": "append" if len(piece) else "replace",
                "spark.app.id": f"app-20260101000000-{number:04d}",
                "added-data-files": str(len(piece)),
                "added-records": str(records),
                "added-files-size": str(self._entries.size_bytes(piece.start, piece.stop)),
                "changed-partition-count": "5",
                "total-records": str(self._entries.records(0, piece.stop)),
                "total-data-files": str(piece.stop),
                "total-delete-files": "0",
                "total-position-deletes": "0",
                "total-equality-deletes": "0",
                "engine-version": "4.1.3",
                "app-id": "local-1767225600000",
                "engine-name": "spark",
                "iceberg-version": "Apache Iceberg 1.12.0",
            },
        }
        if number > 1:
            snapshot["parent-snapshot-id"] = snapshot_id(number - 1)
        if self._has_sequence_numbers:
            snapshot["sequence-number"] = number
        if self._has_row_ids:
            snapshot |= {"first-row-id": self._entries.records(0, piece.start), "added-rows": records}
        return snapshot

    def _metadata(self, snapshots: list[dict[str, Any]]) -> dict[str, Any]:
        schema, spec = json.loads(SCHEMA.model_dump_json()), json.loads(SPEC.model_dump_json())
        last = snapshots[-1]
        document: dict[str, Any] = {
            "format-version": self._shape.format_version,
            "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, self._location)),
            "location": self._location,
            "last-updated-ms": last["timestamp-ms"],
            "last-column-id": len(SCHEMA.fields),
            "current-schema-id": 0,
            "schemas": [schema],
            "default-spec-id": 0,
            "partition-specs": [spec],
            "last-partition-id": 1001,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {},
            "current-snapshot-id": last["snapshot-id"],
            "refs": {"main": {"snapshot-id": last["snapshot-id"], "type": "branch"}},
            "snapshots": snapshots,
            "snapshot-log": [{k: s[k] for k in ("snapshot-id", "timestamp-ms")} for s in snapshots],
            "metadata-log": [],
        }
        if self._has_sequence_numbers:
            document["last-sequence-number"] = last["sequence-number"]
        else:
            document |= {"schema": schema, "partition-spec": spec["fields"]}
        if self._has_row_ids:
            document["next-row-id"] = last["first-row-id"] + last["added-rows"]
        return document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, required=True, help="data files in the range")
    parser.add_argument("--snapshots", type=int, required=True, help="snapshots in the range")
    parser.add_argument("--layout", choices=LAYOUTS, default="pure")
    parser.add_argument("--format-version", type=int, default=2, choices=(1, 2, 3))
    parser.add_argument("--files-before", type=int, default=0)
    parser.add_argument("--snapshots-before", type=int, default=1)
    shape = Shape(**vars(parser.parse_args()))
    start = time.perf_counter()
    made = generate(shape)
    print(f"{made.folder} since {made.since} until {made.until}: {time.perf_counter() - start:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
