"""What a manifest list says about each of its manifests: read with all fields of v3, whatever the version, and written.

PyIceberg reads a list by the schema of v2, which lacks ``first_row_id``, and decodes all of it. Here a list is walked,
and a manifest is decoded when it is needed: of ten thousand manifests a range often needs ten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, ManifestContent, ManifestFile, PartitionFieldSummary
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.history.files import DATA, DELETES, ManifestFacts
from airflow_provider_ips.iceberg.avro.container import SYNC_BYTES, BlockWriter, Header, encode_long, struct_encoder
from airflow_provider_ips.iceberg.avro.walker import Part, Walker
from airflow_provider_ips.iceberg.foreign_errors import parsing
from airflow_provider_ips.iceberg.storage.files import open_stream

if TYPE_CHECKING:
    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import FileIO, OutputFile
    from pyiceberg.typedef import StructProtocol


MANIFEST_PATH: Final = 500
ADDED_SNAPSHOT_ID: Final = 503
CONTENT: Final = 517
FIRST_ROW_ID: Final = 520
_COUNTS: Final = frozenset({504, 505, 506, 512, 513, 514})
_SUMMARY: Final = 508


def _read_schema() -> Schema:
    """The schema of v3, with counts that may be missing as v1 allows it."""
    fields = [
        NestedField(f.field_id, f.name, f.field_type, required=False) if f.field_id in _COUNTS else f
        for f in MANIFEST_LIST_FILE_SCHEMAS[3].fields
    ]
    return Schema(*fields)


READ_SCHEMA: Final = _read_schema()
_INDEX_BY_ID: Final = {field.field_id: index for index, field in enumerate(READ_SCHEMA.fields)}
_INDEX_BY_NAME: Final = {field.name: index for index, field in enumerate(READ_SCHEMA.fields)}

FEW_WRITERS: Final = 16
"""Up to so many writers are searched for in the bytes of a block before it is walked, which is faster than walking."""
_NULL: Final = b"\x00"
_NOT_NULL: Final = b"\x02"


class ManifestList:
    """The manifests of one list, walked block by block, and decoded one by one when they are needed."""

    def __init__(self, io: FileIO, path: str) -> None:
        self._path = path
        with open_stream(io, path) as stream:
            header = Header.read(stream)
            self._schema = header.meta["avro.schema"]
            self._writer_is_optional = _writer_is_optional(header)
            self._blocks = [_Block(self._schema, count, data) for count, data in header.blocks(stream)]

    def all(self) -> list[ManifestFile]:
        with parsing(self._path):
            return [block.decoded(index) for block in self._blocks for index in block.indexes()]

    def written_by(self, snapshot_ids: Collection[int]) -> list[ManifestFile]:
        """The manifests that one of the snapshots wrote, and those for which the list does not name the writer."""
        prefix = _NOT_NULL if self._writer_is_optional else b""
        writers = {prefix + encode_long(snapshot_id) for snapshot_id in snapshot_ids}
        blocks = self._blocks
        if self._writer_is_optional:
            writers.add(_NULL)
        elif len(writers) <= FEW_WRITERS:
            blocks = [block for block in blocks if block.may_have(writers)]
        with parsing(self._path):
            return [block.decoded(index) for block in blocks for index in block.written_by(writers)]


class _Block:
    """Some of a list's records as bytes; those that were needed are decoded."""

    def __init__(self, schema: bytes, count: int, data: bytes) -> None:
        self._count = count
        self._schema = schema
        self._data = data
        self._writers: list[bytes] = []
        self._records: list[bytes | ManifestFile] = []

    def may_have(self, writers: Collection[bytes]) -> bool:
        """Whether the bytes of any writer's id are somewhere in the block. If not, no record has that writer."""
        return any(writer in self._data for writer in writers)

    def indexes(self) -> range:
        """The indexes of all records."""
        self._walk()
        return range(len(self._records))

    def written_by(self, writers: Collection[bytes]) -> list[int]:
        """The indexes of the records with one of the writers."""
        self._walk()
        return [index for index, writer in enumerate(self._writers) if writer in writers]

    def decoded(self, index: int) -> ManifestFile:
        """One manifest; the same object at every call."""
        self._walk()
        record = self._records[index]
        if isinstance(record, bytes):
            record = self._records[index] = cast("ManifestFile", _reader(self._schema).read(new_decoder(record)))
        return record

    def _walk(self) -> None:
        if self._records or not self._count:
            return
        for start, end, (writer,) in _walker(self._schema).walk(self._count, self._data):
            self._writers.append(writer)
            self._records.append(self._data[start:end])


def _writer_is_optional(header: Header) -> bool:
    (field,) = (f for f in header.avro_schema["fields"] if f["field-id"] == ADDED_SNAPSHOT_ID)
    if not isinstance(field["type"], list):
        return False
    if field["type"][0] != "null":
        raise UnsupportedTableError(
            f"a manifest list writes {field['name']!r} in an order that no Iceberg writer uses",
            consequence="The snapshots that wrote its manifests would be misread, and their files left out",
            remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests)",
        )
    return True


@lru_cache(maxsize=8)
def _walker(schema: bytes) -> Walker:
    fields: list[dict[str, Any]] = Header(meta={"avro.schema": schema}, sync=b"").avro_schema["fields"]
    parts = [
        Part(f["type"], wanted=f["field-id"] == ADDED_SNAPSHOT_ID, is_long=f["field-id"] == MANIFEST_PATH)
        for f in fields
    ]
    return Walker(parts)


@lru_cache(maxsize=8)
def _reader(schema: bytes) -> Reader:
    written = Header(meta={"avro.schema": schema}, sync=b"").schema
    types: dict[int, Callable[..., StructProtocol]] = {-1: ManifestFile, _SUMMARY: PartitionFieldSummary}
    return resolve_reader(written, READ_SCHEMA, types, {CONTENT: ManifestContent})


def manifest_facts(manifest: ManifestFile) -> ManifestFacts:
    """The fields of a listed manifest that a plan is decided by."""
    return ManifestFacts(
        path=manifest.manifest_path,
        length=manifest.manifest_length,
        content=DATA if manifest.content == ManifestContent.DATA else DELETES,
        spec_id=manifest.partition_spec_id,
        added_snapshot_id=manifest.added_snapshot_id,
        sequence_number=manifest.sequence_number or 0,
        min_sequence_number=manifest.min_sequence_number or 0,
        added_files=manifest.added_files_count,
        existing_files=manifest.existing_files_count,
        deleted_files=manifest.deleted_files_count,
        added_rows=manifest.added_rows_count,
        existing_rows=manifest.existing_rows_count,
        deleted_rows=manifest.deleted_rows_count,
    )


def first_row_id_of(manifest: ManifestFile) -> int | None:
    """The first row id that the manifest's files without one inherit. PyIceberg's class has no attribute for it."""
    first_row_id: int | None = manifest[_INDEX_BY_ID[FIRST_ROW_ID]]
    return first_row_id


def with_fields(manifest: ManifestFile, **values: Any) -> ManifestFile:
    """Copy a listed manifest with some fields replaced, by name."""
    fields = [manifest[index] for index in range(len(READ_SCHEMA.fields))]
    for name, value in values.items():
        fields[_INDEX_BY_NAME[name]] = value
    return ManifestFile(*fields)


def write_manifest_list(
    output: OutputFile,
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    sequence_number: int,
) -> None:
    """Write a manifest list of any format version."""
    header = _header(format_version, {"snapshot-id": str(snapshot_id)}, sequence_number)
    encode = _record_encoder(format_version)
    with output.create(overwrite=True) as stream:
        writer = BlockWriter(stream, header)
        for manifest in manifests:
            writer.add(encode(manifest))
        writer.flush()


def _header(format_version: int, meta: dict[str, str], sequence_number: int) -> Header:
    meta |= {"parent-snapshot-id": "null", "format-version": str(format_version), "avro.codec": "deflate"}
    if format_version > 1:
        meta["sequence-number"] = str(sequence_number)
    schema = AvroSchemaConversion().iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[format_version], "manifest_file")
    encoded = {key: value.encode() for key, value in meta.items()}
    return Header(meta={"avro.schema": json.dumps(schema).encode(), **encoded}, sync=os.urandom(SYNC_BYTES))


def _record_encoder(format_version: int) -> Callable[[ManifestFile], bytes]:
    """Encode the fields of a format version, from manifests with the fields of all versions."""
    return struct_encoder([(_INDEX_BY_ID[f.field_id], f) for f in MANIFEST_LIST_FILE_SCHEMAS[format_version].fields])
