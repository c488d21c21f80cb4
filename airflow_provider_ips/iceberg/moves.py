"""Moving manifests into an ICDC table: a byte copy where every entry is wanted, a splice where only some are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.plan import Take
from airflow_provider_ips.iceberg.avro import SYNC_BYTES, BlockWriter, Header
from airflow_provider_ips.iceberg.entries import (
    ADDED,
    DELETED,
    EXISTING,
    FILE_SIZE,
    FIRST_ROW_ID,
    PARTITION,
    RECORD_COUNT,
    Entry,
    EntryLayout,
    with_first_row_id,
    with_row_ids,
)
from airflow_provider_ips.iceberg.manifest_lists import FIRST_ROW_ID as LISTED_FIRST_ROW_ID
from airflow_provider_ips.iceberg.manifest_lists import changed
from airflow_provider_ips.iceberg.partitions import PartitionTally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.io import FileIO, InputFile
    from pyiceberg.manifest import ManifestFile

    from airflow_provider_ips.core.plan import Selection

CHUNK_BYTES: Final = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Moved:
    """A manifest of the ICDC table, and what it holds that the plan could not know. None: no entry was wanted."""

    manifest: ManifestFile | None
    files: int = 0
    records: int = 0
    size_bytes: int | None = None


def open_stream(source: InputFile) -> BinaryIO:
    """A buffered stream over whatever the file system gives."""
    return cast("BinaryIO", BufferedReader(cast("Any", _Raw(source)), buffer_size=CHUNK_BYTES))


class _Raw:
    """The few calls that BufferedReader makes, over PyIceberg's input stream."""

    def __init__(self, source: InputFile) -> None:
        self._stream = source.open(seekable=False)
        self.closed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: memoryview) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.closed = True
        self._stream.close()

    def flush(self) -> None:
        """Nothing is ever buffered for writing."""


def copy_manifest(source_io: FileIO, target_io: FileIO, manifest: ManifestFile, path: str) -> Moved:
    """Copy every byte. Sequence numbers and snapshot ids stay right: the manifest list carries what entries inherit."""
    copied = 0
    with (
        source_io.new_input(manifest.manifest_path).open(seekable=False) as source,
        target_io.new_output(path).create(overwrite=True) as target,
    ):
        while chunk := source.read(CHUNK_BYTES):
            target.write(chunk)
            copied += len(chunk)
    if copied < manifest.manifest_length:
        raise _disagreement(manifest, f"{copied} bytes", f"{manifest.manifest_length}")
    return Moved(
        manifest=changed(manifest, manifest_path=path, manifest_length=copied),
        files=(manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
        records=(manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0),
    )


def splice_manifest(
    source_io: FileIO, target_io: FileIO, manifest: ManifestFile, selection: Selection, path: str, *, snapshot_id: int
) -> Moved:
    """Move the wanted entries, each with its numbers written out, for the new manifest hands down none of them."""
    with open_stream(source_io.new_input(manifest.manifest_path)) as source:
        header = Header.read(source)
        layout = EntryLayout(header, {PARTITION, RECORD_COUNT, FILE_SIZE, FIRST_ROW_ID})
        wanted = _resolved(layout, source, manifest, wants(selection))
        first = next(wanted, None)
        if first is None:
            _check_count(manifest, selection, 0)
            return Moved(manifest=None)
        with target_io.new_output(path).create(overwrite=True) as target:
            tally = _Tally(header)
            written = header if manifest[LISTED_FIRST_ROW_ID] is None else with_row_ids(header)
            writer = BlockWriter(target, Header(meta=written.meta, sync=os.urandom(SYNC_BYTES)))
            for entry in chain((first,), wanted):
                tally.count(entry)
                writer.add(layout.encode(entry))
            writer.flush()
    _check_count(manifest, selection, tally.files)
    return tally.moved(manifest, path, writer.length, snapshot_id)


def _check_count(manifest: ManifestFile, selection: Selection, files: int) -> None:
    """A manifest cut off between two blocks reads as a shorter one, without any error."""
    if selection.take is Take.ADDED and files != manifest.added_files_count:
        raise _disagreement(manifest, f"{files} added files", str(manifest.added_files_count))


def _disagreement(manifest: ManifestFile, found: str, listed: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{manifest.manifest_path} holds {found}, its manifest list says {listed}",
        consequence="Files would be missing from the capture, or there that nobody appended",
        remedy="check the storage; the file was cut off or overwritten. If engines can read the table, rewrite "
        "its manifests (CALL rewrite_manifests) and process it in full once",
    )


def wants(selection: Selection) -> Callable[[Entry], bool]:
    """The predicate of a selection, over entries whose numbers are resolved."""
    if selection.take is Take.ADDED:
        return lambda entry: entry.status == ADDED
    if selection.take is Take.NEWER:
        floor = selection.newer_than or 0
        return lambda entry: entry.status != DELETED and (entry.sequence_number or 0) > floor
    return lambda entry: entry.status != DELETED


def _resolved(
    layout: EntryLayout, source: BinaryIO, manifest: ManifestFile, wanted: Callable[[Entry], bool]
) -> Iterator[Entry]:
    """Give wanted entries with what they inherit written out, as readers would resolve it."""
    next_row_id: int | None = manifest[LISTED_FIRST_ROW_ID]
    for entry in layout.entries(source):
        if entry.snapshot_id is None:
            entry.snapshot_id = manifest.added_snapshot_id
        if entry.status == ADDED or not manifest.sequence_number:
            entry.sequence_number = _or(entry.sequence_number, manifest.sequence_number)
            entry.file_sequence_number = _or(entry.file_sequence_number, manifest.sequence_number)
        if next_row_id is not None and entry.status != DELETED and entry.file.get(FIRST_ROW_ID) is None:
            entry.raw_file = with_first_row_id(entry, next_row_id)
            next_row_id += entry.file[RECORD_COUNT]
        if wanted(entry):
            entry.status = EXISTING
            yield entry


def _or(value: int | None, inherited: int | None) -> int | None:
    return inherited if value is None else value


class _Tally:
    """Counts what the new manifest list says about the new manifest."""

    def __init__(self, header: Header) -> None:
        self.files = self.records = self.size_bytes = 0
        self.lowest: int | None = None
        self.partitions = PartitionTally(header.schema)

    def count(self, entry: Entry) -> None:
        self.files += 1
        self.records += entry.file[RECORD_COUNT]
        self.size_bytes += entry.file[FILE_SIZE]
        number = entry.sequence_number or 0
        self.lowest = number if self.lowest is None else min(self.lowest, number)
        self.partitions.update(entry.file[PARTITION])

    def moved(self, manifest: ManifestFile, path: str, length: int, snapshot_id: int) -> Moved:
        listed = changed(
            manifest,
            manifest_path=path,
            manifest_length=length,
            min_sequence_number=self.lowest or 0,
            added_snapshot_id=snapshot_id,
            added_files_count=0,
            added_rows_count=0,
            existing_files_count=self.files,
            existing_rows_count=self.records,
            deleted_files_count=0,
            deleted_rows_count=0,
            partitions=self.partitions.summaries(),
        )
        return Moved(manifest=listed, files=self.files, records=self.records, size_bytes=self.size_bytes)
