"""Manifest entries as facts: what decisions about changed rows need, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.files import Content, FileFacts, Status
from airflow_provider_ips.iceberg.avro import Header
from airflow_provider_ips.iceberg.counting import counted, counts_of
from airflow_provider_ips.iceberg.entries import (
    CONTENT,
    CONTENT_OFFSET,
    FILE_PATH,
    FILE_SIZE,
    FIRST_ROW_ID,
    LOWER_BOUNDS,
    PARTITION,
    RECORD_COUNT,
    REFERENCED_DATA_FILE,
    UPPER_BOUNDS,
    EntryLayout,
)
from airflow_provider_ips.iceberg.manifest_lists import FIRST_ROW_ID as LISTED_FIRST_ROW_ID
from airflow_provider_ips.iceberg.splicing import resolved
from airflow_provider_ips.iceberg.streams import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    from airflow_provider_ips.core.files import Partition

    Found = list[Any]

DELETE_FILE_PATH: Final = 2147483546
"""The column of a position delete file that names the data file. Where its bounds are one value, it names one file."""

_OF_DATA: Final = frozenset({CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE, FIRST_ROW_ID})
_OF_DELETES: Final = _OF_DATA | {CONTENT_OFFSET, REFERENCED_DATA_FILE, LOWER_BOUNDS, UPPER_BOUNDS}
_DATA_MANIFEST: Final = 0


def read_entries(io: FileIO, manifest: ManifestFile) -> Iterator[FileFacts]:
    """Stream the entries of a manifest with what they inherit from it, a block in memory at a time."""
    with open_stream(io.new_input(manifest.manifest_path)) as stream:
        header = Header.read(stream)
        reader = _Reader(header, manifest)
        for count, data in counted(header.blocks(stream), manifest.manifest_path, counts_of(manifest)):
            for _, _, found in reader.layout.walk(count, data):
                yield reader.facts(found)


class _Reader:
    def __init__(self, header: Header, manifest: ManifestFile) -> None:
        self._manifest = manifest
        self._is_data = manifest.content == _DATA_MANIFEST
        self._gives_row_ids = manifest[LISTED_FIRST_ROW_ID] is not None
        self._partitions: dict[bytes, Partition] = {}
        self.layout = EntryLayout(header, _OF_DATA if self._is_data else _OF_DELETES)

    def facts(self, found: Found) -> FileFacts:
        layout = self.layout
        own = layout.numbers(found)
        content = Content(layout.number(CONTENT, found) or 0)
        return FileFacts(
            path=layout.value(FILE_PATH, found),
            content=content,
            status=Status(own.status),
            spec_id=self._manifest.partition_spec_id,
            partition=self._partition(found),
            snapshot_id=self._manifest.added_snapshot_id if own.snapshot_id is None else own.snapshot_id,
            sequence_number=resolved(own, self._manifest.sequence_number or 0),
            records=layout.number(RECORD_COUNT, found) or 0,
            size_bytes=layout.number(FILE_SIZE, found) or 0,
            offset=0 if self._is_data else layout.number(CONTENT_OFFSET, found) or 0,
            names=self._names(found) if content is Content.POSITION_DELETES else None,
            has_row_id=self._gives_row_ids or layout.number(FIRST_ROW_ID, found) is not None,
        )

    def _partition(self, found: Found) -> Partition:
        raw = found[self.layout.place[PARTITION]]
        if raw not in self._partitions:
            record = self.layout.value(PARTITION, found)
            self._partitions[raw] = tuple(_comparable(record[i]) for i in range(len(record)))
        return self._partitions[raw]

    def _names(self, found: Found) -> str | None:
        named = self.layout.value(REFERENCED_DATA_FILE, found)
        if named is not None:
            return str(named)
        lower = (self.layout.value(LOWER_BOUNDS, found) or {}).get(DELETE_FILE_PATH)
        upper = (self.layout.value(UPPER_BOUNDS, found) or {}).get(DELETE_FILE_PATH)
        return lower.decode() if lower is not None and lower == upper else None


def _comparable(value: object) -> object:
    """NaN is not equal to itself, but files of partition NaN lie in one partition."""
    return "NaN" if isinstance(value, float) and value != value else value  # noqa: PLR0124
