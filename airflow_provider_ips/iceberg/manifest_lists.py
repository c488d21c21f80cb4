"""Manifest lists: read with all that v3 adds, whatever the version; written with every number spelled out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, ManifestContent, ManifestFile, PartitionFieldSummary
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from airflow_provider_ips.core.history import DATA, DELETES, ManifestFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    names = [field.name for field in READ_SCHEMA.fields]
    fields = [manifest[i] for i in range(len(names))]
    for name, value in values.items():
        fields[names.index(name)] = value
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
    meta = {"snapshot-id": str(snapshot_id), "parent-snapshot-id": "null", "format-version": str(format_version)}
    if format_version > 1:
        meta["sequence-number"] = str(sequence_number)
    with AvroOutputFile[ManifestFile](
        output_file=output,
        file_schema=MANIFEST_LIST_FILE_SCHEMAS[format_version],
        record_schema=READ_SCHEMA,
        schema_name="manifest_file",
        metadata={**meta, AVRO_CODEC_KEY: "gzip"},
    ) as writer:
        writer.write_block(list(manifests))
