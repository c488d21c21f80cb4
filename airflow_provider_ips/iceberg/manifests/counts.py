"""How much a manifest holds: compared with what its manifest list says, or counted for the list of a new one.

A manifest that was cut off between two blocks reads as a shorter one, without any error. So its entries are counted:

    listed with 3 added, 1 existing, 1 deleted    5 entries found    it is complete
                                                  4 entries found    refused: a captured file would be missing
    listed without one of the counts                                 nothing to compare with, so it is accepted
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import PartitionFieldStats, PartitionFieldSummary
from pyiceberg.types import PrimitiveType, StructType

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.manifests.entries import (
    ADDED,
    DATA_FILE,
    FILE_SIZE,
    PARTITION,
    RECORD_COUNT,
    EntryLayout,
    EntryNumbers,
)
from airflow_provider_ips.iceberg.manifests.lists import with_fields

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record

    EntryCounts = tuple[int | None, int | None, int | None]


MAX_KNOWN_PARTITIONS: Final = 10_000
"""Partitions that are decoded once. With more in one manifest some are decoded again, and memory stays bounded."""


def checked_blocks(blocks: Iterable[tuple[int, bytes]], path: str, listed: EntryCounts) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of a manifest, and after the last one refuse the manifest if the number of entries is wrong.

    :param listed: the numbers of added, existing and deleted entries in the manifest list
    """
    found = 0
    for count, data in blocks:
        found += count
        yield count, data
    known = [count for count in listed if count is not None]
    if len(known) == len(listed) and found != sum(known):
        raise count_mismatch(path, f"{found} entries", str(sum(known)))


def listed_counts(manifest: ManifestFile) -> EntryCounts:
    """The numbers of added, existing and deleted entries that the manifest list has for a manifest."""
    return manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count


def count_mismatch(path: str, found: str, listed: str) -> UnsupportedTableError:
    """The error for a manifest that does not hold what its manifest list says."""
    return UnsupportedTableError(
        f"{path} holds {found}, its manifest list says {listed}",
        consequence="The capture would lack files, or have files that were never appended",
        remedy="check the storage: the file was cut off or overwritten. If engines can read the table, rewrite "
        "its manifests (CALL rewrite_manifests) and process it in full once",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedManifest:
    """A manifest of the ICDC table with its live files, known once they were read; None if no entry was wanted."""

    manifest: ManifestFile | None
    files: int = 0
    records: int = 0
    size_bytes: int | None = None
    copy_of: ManifestFile | None = None
    """The manifest that the storage copied by itself, until the copy's size is known as well."""


class EntryTally:
    """Counts the entries of a new manifest, for its manifest list."""

    def __init__(self, layout: EntryLayout, manifest_sequence_number: int) -> None:
        self._layout = layout
        self._manifest_sequence_number = manifest_sequence_number
        self._partitions = _PartitionSummaries(layout.header.schema)
        self._known_partitions: set[bytes] = set()
        self._min_sequence_number: int | None = None
        self._added = [0, 0]
        self._existing = [0, 0]
        self._size_bytes = 0

    @property
    def files(self) -> int:
        return self._added[0] + self._existing[0]

    def add(self, numbers: EntryNumbers, raw: list[Any]) -> None:
        layout = self._layout
        volume = self._added if numbers.status == ADDED else self._existing
        volume[0] += 1
        volume[1] += layout.number(RECORD_COUNT, raw) or 0
        self._size_bytes += layout.number(FILE_SIZE, raw) or 0
        sequence_number = numbers.resolved_sequence_number(self._manifest_sequence_number)
        if self._min_sequence_number is None or sequence_number < self._min_sequence_number:
            self._min_sequence_number = sequence_number
        partition = raw[layout.index[PARTITION]]
        if partition not in self._known_partitions:
            self._widen(partition, raw)

    def _widen(self, partition: bytes, raw: list[Any]) -> None:
        if len(self._known_partitions) >= MAX_KNOWN_PARTITIONS:
            self._known_partitions.clear()
        self._known_partitions.add(partition)
        self._partitions.update(self._layout.value(PARTITION, raw))

    def moved(self, manifest: ManifestFile, path: str, length: int, first_row_id: int | None) -> MovedManifest:
        """The new manifest as its list describes it: like the old one, with the place and counts of the new one."""
        listed = with_fields(
            manifest,
            manifest_path=path,
            manifest_length=length,
            min_sequence_number=self._min_sequence_number or 0,
            added_files_count=self._added[0],
            added_rows_count=self._added[1],
            existing_files_count=self._existing[0],
            existing_rows_count=self._existing[1],
            deleted_files_count=0,
            deleted_rows_count=0,
            partitions=self._partitions.summaries(),
            first_row_id=first_row_id,
        )
        records = self._added[1] + self._existing[1]
        return MovedManifest(manifest=listed, files=self.files, records=records, size_bytes=self._size_bytes)


class _PartitionSummaries:
    """The bounds of each partition field over the entries of a manifest."""

    def __init__(self, manifest_schema: Schema) -> None:
        file_type = manifest_schema.find_field(DATA_FILE).field_type
        partition = file_type.field(PARTITION) if isinstance(file_type, StructType) else None
        fields = partition.field_type.fields if partition and isinstance(partition.field_type, StructType) else ()
        self._stats = [PartitionFieldStats(f.field_type) for f in fields if isinstance(f.field_type, PrimitiveType)]

    def update(self, partition: Record) -> None:
        for index, stats in enumerate(self._stats):
            stats.update(partition[index])

    def summaries(self) -> list[PartitionFieldSummary]:
        return [stats.to_summary() for stats in self._stats]
