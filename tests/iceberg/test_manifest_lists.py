"""Manifest lists that are written here are what PyIceberg would have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, ManifestFile, PartitionFieldSummary

from airflow_provider_ips.iceberg.avro.container import Header
from airflow_provider_ips.iceberg.manifests.lists import (
    READ_SCHEMA,
    ManifestList,
    with_fields,
    write_manifest_list,
)
from tests.iceberg.avro_bytes import listed_by_pyiceberg

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import OutputFile

META = {"snapshot-id": "7", "parent-snapshot-id": "null"}


def manifests(format_version: int) -> list[ManifestFile]:
    """Every field in every state: null where it may be, negative, long, empty."""
    one = with_fields(
        ManifestFile(*[None] * len(READ_SCHEMA.fields)),
        manifest_path="s3://b/é" + "x" * 300,
        manifest_length=2**40,
        partition_spec_id=0,
        content=0,
        sequence_number=3,
        min_sequence_number=1,
        added_snapshot_id=-(2**63),
        added_files_count=1,
        existing_files_count=0,
        deleted_files_count=2**31 - 1,
        added_rows_count=64,
        existing_rows_count=63,
        deleted_rows_count=0,
    )
    states = ((True, None, None, None), (False, True, b"", b"\x00" * 70))
    summaries = [PartitionFieldSummary(*state) for state in states]
    two = with_fields(one, content=1, partitions=summaries, key_metadata=b"k", first_row_id=2**62)
    unknown = {"added_files_count": None, "existing_rows_count": None} if format_version == 1 else {}
    return [one, two, with_fields(two, partitions=[], first_row_id=None, **unknown)]


def by_pyiceberg(output: OutputFile, format_version: int) -> None:
    """The same list, by the library's own writer."""
    meta = {**META, "format-version": str(format_version), "write.avro.compression-codec": "gzip"}
    meta |= {"sequence-number": "5"} if format_version > 1 else {}
    schema = MANIFEST_LIST_FILE_SCHEMAS[format_version]
    with AvroOutputFile[ManifestFile](output, schema, "manifest_file", READ_SCHEMA, meta) as writer:
        writer.write_block(manifests(format_version))


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_list_is_what_pyiceberg_would_have_written(tmp_path: Path, format_version: int) -> None:
    """Its schema, its metadata, and every byte of its records."""
    io = PyArrowFileIO()
    ours, theirs = (f"file://{tmp_path}/{name}" for name in ("ours.avro", "theirs.avro"))
    write_manifest_list(
        io.new_output(ours), manifests(format_version), format_version=format_version, snapshot_id=7, sequence_number=5
    )
    by_pyiceberg(io.new_output(theirs), format_version)
    (mine, my_records), (other, other_records) = ((parts(tmp_path / name)) for name in ("ours.avro", "theirs.avro"))
    assert my_records == other_records
    other.meta.pop("write.avro.compression-codec", None)
    assert mine.avro_schema == other.avro_schema
    assert {k: v for k, v in mine.meta.items() if k in {**META, "sequence-number": "", "format-version": ""}} == {
        k: v for k, v in other.meta.items() if k in {**META, "sequence-number": "", "format-version": ""}
    }
    assert ManifestList(io, ours).all() == listed_by_pyiceberg(io, theirs)
    with AvroFile[ManifestFile](io.new_input(ours), read_types={-1: ManifestFile, 508: PartitionFieldSummary}) as file:
        assert len(list(file)) == 3


def parts(path: Path) -> tuple[Header, bytes]:
    """A container's header, and its records one after another."""
    with path.open("rb") as stream:
        header = Header.read(stream)
        return header, b"".join(data for _, data in header.blocks(stream))
