"""What a manifest entry says about its file, as facts: all that decisions about changed rows need, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.history.files import Content, FileFacts, Partition, Status
from airflow_provider_ips.iceberg.avro.container import Header
from airflow_provider_ips.iceberg.manifests.counts import checked_blocks, listed_counts
from airflow_provider_ips.iceberg.manifests.entries import (
    CONTENT,
    CONTENT_OFFSET,
    DELETED,
    FILE_PATH,
    FILE_SIZE,
    FIRST_ROW_ID,
    LOWER_BOUNDS,
    PARTITION,
    RECORD_COUNT,
    REFERENCED_DATA_FILE,
    UPPER_BOUNDS,
    EntryLayout,
    EntryNumbers,
)
from airflow_provider_ips.iceberg.manifests.lists import first_row_id_of
from airflow_provider_ips.iceberg.storage.files import open_stream

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    RawFields = list[Any]


DELETE_FILE_PATH: Final = 2147483546
"""The column of a position delete file with the paths of data files. Where its bounds are equal, it names one file."""

_FIELDS_OF_DATA: Final = frozenset({CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE, FIRST_ROW_ID})
_FIELDS_OF_DELETES: Final = _FIELDS_OF_DATA | {CONTENT_OFFSET, REFERENCED_DATA_FILE, LOWER_BOUNDS, UPPER_BOUNDS}
_DATA_MANIFEST: Final = 0


def read_entries(io: FileIO, manifest: ManifestFile) -> Iterator[FileFacts]:
    """Yield the files of a manifest, with what their entries inherit from it; one block is in memory at a time."""
    with open_stream(io, manifest.manifest_path) as stream:
        header = Header.read(stream)
        reader = _Reader(header, manifest)
        for count, data in checked_blocks(header.blocks(stream), manifest.manifest_path, listed_counts(manifest)):
            for _, _, raw in reader.layout.walk(count, data):
                yield reader.facts(raw)


class _Reader:
    def __init__(self, header: Header, manifest: ManifestFile) -> None:
        self._manifest = manifest
        self._is_data = manifest.content == _DATA_MANIFEST
        self._assigns_row_ids = first_row_id_of(manifest) is not None
        self._partitions: dict[bytes, Partition] = {}
        self.layout = EntryLayout(header, _FIELDS_OF_DATA if self._is_data else _FIELDS_OF_DELETES)

    def facts(self, raw: RawFields) -> FileFacts:
        layout = self.layout
        numbers = layout.numbers(raw)
        content = Content(layout.number(CONTENT, raw) or 0)
        return FileFacts(
            path=layout.value(FILE_PATH, raw),
            content=content,
            status=Status(numbers.status),
            spec_id=self._manifest.partition_spec_id,
            partition=self._partition(raw),
            snapshot_id=self._snapshot_id(numbers),
            sequence_number=numbers.resolved_sequence_number(self._manifest.sequence_number or 0),
            records=layout.number(RECORD_COUNT, raw) or 0,
            size_bytes=layout.number(FILE_SIZE, raw) or 0,
            offset=0 if self._is_data else layout.number(CONTENT_OFFSET, raw) or 0,
            referenced_data_file=self._referenced_data_file(raw) if content is Content.POSITION_DELETES else None,
            has_row_id=self._assigns_row_ids or layout.number(FIRST_ROW_ID, raw) is not None,
        )

    def _snapshot_id(self, numbers: EntryNumbers) -> int | None:
        """The snapshot that added a file, or that removed it.

        Who writes a manifest lists what it removes itself, and no removal of others. So a removal is the manifest's,
        whatever its entry says: PyIceberg before 0.12 leaves the id of the snapshot there that had added the file.

        ADDED by 1, in the manifest of 1      added by 1
        DELETED by 1, in the manifest of 2    removed by 2
        """
        manifest = self._manifest.added_snapshot_id
        is_of_manifest = numbers.snapshot_id is None or (numbers.status == DELETED and manifest is not None)
        return manifest if is_of_manifest else numbers.snapshot_id

    def _partition(self, raw: RawFields) -> Partition:
        encoded = raw[self.layout.index[PARTITION]]
        if encoded not in self._partitions:
            record = self.layout.value(PARTITION, raw)
            self._partitions[encoded] = tuple(_comparable(record[i]) for i in range(len(record)))
        return self._partitions[encoded]

    def _referenced_data_file(self, raw: RawFields) -> str | None:
        """The data file that a delete file is about; None if it may be about several."""
        named = self.layout.value(REFERENCED_DATA_FILE, raw)
        if named is not None:
            return str(named)
        lower = (self.layout.value(LOWER_BOUNDS, raw) or {}).get(DELETE_FILE_PATH)
        upper = (self.layout.value(UPPER_BOUNDS, raw) or {}).get(DELETE_FILE_PATH)
        return lower.decode() if lower is not None and lower == upper else None


def _comparable(value: object) -> object:
    """NaN as text: it is not equal to itself, but all files of partition NaN are in one partition."""
    return "NaN" if isinstance(value, float) and value != value else value  # noqa: PLR0124
