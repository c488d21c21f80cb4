"""Manifest lists: read with all that v3 adds, whatever the version; written with every number spelled out."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, ManifestContent, ManifestFile, PartitionFieldSummary
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from airflow_provider_ips.core.history import DATA, DELETES, ManifestFacts
from airflow_provider_ips.iceberg.avro import SYNC_BYTES, BlockWriter, Header
from airflow_provider_ips.iceberg.avro_encoders import struct_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyiceberg.io import FileIO, OutputFile

_COUNTS: Final = frozenset({504, 505, 506, 512, 513, 514})


def _lenient() -> Schema:
    """The v3 schema with counts that may be missing, as v1 lists allow; PyIceberg's default drops ``first_row_id``."""
    fields = [
        NestedField(f.field_id, f.name, f.field_type, required=False) if f.field_id in _COUNTS else f
        for f in MANIFEST_LIST_FILE_SCHEMAS[3].fields
    ]
    return Schema(*fields)


READ_SCHEMA: Final = _lenient()
_PLACES: Final = {field.name: place for place, field in enumerate(READ_SCHEMA.fields)}
FIRST_ROW_ID: Final = next(i for i, f in enumerate(READ_SCHEMA.fields) if f.field_id == 520)  # noqa: PLR2004 - the spec's id


def read_manifest_list(io: FileIO, path: str) -> list[ManifestFile]:
    """Read every manifest of a list."""
    with AvroFile[ManifestFile](
        io.new_input(path),
        READ_SCHEMA,
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return list(reader)


def facts_of(manifest: ManifestFile) -> ManifestFacts:
    """The part of it that decisions need."""
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


def changed(manifest: ManifestFile, **values: Any) -> ManifestFile:
    """The same manifest with some fields replaced, by name."""
    fields = [manifest[i] for i in range(len(_PLACES))]
    for name, value in values.items():
        fields[_PLACES[name]] = value
    return ManifestFile(*fields)


def write_manifest_list(
    output: OutputFile,
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    sequence_number: int,
) -> None:
    """Write a list for any format version."""
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
    """Fields of the format version, taken from manifests as they are read: by the schema that has them all."""
    places = {field.field_id: place for place, field in enumerate(READ_SCHEMA.fields)}
    return struct_encoder([(places[f.field_id], f) for f in MANIFEST_LIST_FILE_SCHEMAS[format_version].fields])
