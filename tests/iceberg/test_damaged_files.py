"""Metadata files of any bytes: a capture ends soon, in little memory, and names the file that it cannot read."""

from __future__ import annotations

import bz2
import gzip
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from airflow_provider_ips.core.errors import CatalogError, UnsupportedTableError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.avro.container import MAGIC, Header, encode_long
from airflow_provider_ips.iceberg.avro.skips import Names, read_long, skipper
from airflow_provider_ips.iceberg.avro.walker import Part, Walker
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.local_tables import append, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

pytestmark = pytest.mark.timeout(60)
SYNC = b"0123456789abcdef"
HUGE = encode_long(2**62)
MANY_NULLS = {"type": "array", "items": "null"}
MEGABYTE = 1024 * 1024


def container(schema: object, *blocks: tuple[int, bytes], codec: str = "null") -> bytes:
    """An Avro file; a block is its number of records and its bytes as they are in the file."""
    header = Header(meta={"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}, sync=SYNC)
    packed = [encode_long(count) + encode_long(len(data)) + data + SYNC for count, data in blocks]
    return header.to_bytes() + b"".join(packed)


def record(*types: object) -> dict[str, Any]:
    fields = [{"name": f"f{i}", "type": each, "field-id": i} for i, each in enumerate(types)]
    return {"type": "record", "name": "r", "fields": fields}


def deflated(data: bytes) -> bytes:
    return zlib.compress(data, 9, wbits=-zlib.MAX_WBITS)


def doubling(depth: int) -> dict[str, Any]:
    """A short schema that spells out 2 ** depth fields."""
    schema = record("null", "null") | {"name": "r0"}
    for level in range(1, depth):
        schema = record(schema, f"r{level - 1}") | {"name": f"r{level}"}
    return schema


BYTES = {
    "empty": b"",
    "not Avro": b'{"format-version": 2}',
    "cut in the magic": MAGIC[:3],
    "a header of ever more pairs": MAGIC + HUGE,
    "a header of a negative number of pairs": MAGIC + encode_long(-(2**62)),
    "a key of huge length": MAGIC + encode_long(1) + HUGE,
    "a key of negative length": MAGIC + encode_long(1) + encode_long(-5) + b"x" * 50,
    "a number that never ends": MAGIC + b"\xff" * MEGABYTE,
    "a key that is no text": MAGIC + encode_long(1) + encode_long(2) + b"\xff\xfe\x00\x00" + SYNC,
    "no schema": Header(meta={}, sync=SYNC).to_bytes(),
    "a schema that is no JSON": Header(meta={"avro.schema": b"\xff{"}, sync=SYNC).to_bytes(),
    "a schema that is a number": container(7),
    "a schema of another kind": container("string", (1, b"\x02a")),
    "a record without fields": container({"type": "record"}),
    "a schema that is nested too deep": container(json.loads('{"type":' * 900 + '"null"' + "}" * 900)),
    "a schema that doubles": container(doubling(40), (1, b"")),
    "a codec that is no text": Header(meta={"avro.schema": b"{}", "avro.codec": b"\xff"}, sync=SYNC).to_bytes(),
}
BLOCKS = {
    "of huge size": ("null", encode_long(1) + HUGE),
    "of negative size": ("null", encode_long(1) + encode_long(-7)),
    "of records without bytes": ("null", HUGE + encode_long(0) + SYNC),
    "that is not compressed": ("deflate", encode_long(1) + encode_long(1) + b"\x02" + SYNC),
    "that becomes large (deflate)": ("deflate", deflated(bytes(600 * MEGABYTE))),
    "that becomes large (zstandard)": ("zstandard", zstandard.compress(bytes(600 * MEGABYTE))),
    "that becomes large (bzip2)": ("bzip2", bz2.compress(bytes(600 * MEGABYTE))),
}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """With a table ``db.t`` of two rows, and a namespace for captures."""
    catalog = new_catalog(tmp_path)
    append(new_table(catalog), 1, 2)
    check_icdc_namespace(catalog, "icdc")
    return catalog


def files_of(catalog: SqlCatalog) -> dict[str, Path]:
    """The table's metadata files, by what they are."""
    table = catalog.load_table("db.t")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    paths = {
        "metadata": table.metadata_location,
        "list": snapshot.manifest_list,
        "manifest": snapshot.manifests(table.io)[0].manifest_path,
    }
    return {role: Path(path.removeprefix("file://")) for role, path in paths.items()}


@pytest.mark.parametrize("role", ["list", "manifest"])
@pytest.mark.parametrize("what", BYTES)
def test_a_file_that_no_writer_can_have_written_is_named(catalog: SqlCatalog, role: str, what: str) -> None:
    """As a table that cannot be captured: waiting does not repair it."""
    path = files_of(catalog)[role]
    path.write_bytes(BYTES[what])
    refused(catalog, path)


@pytest.mark.parametrize("role", ["list", "manifest"])
@pytest.mark.parametrize("what", BLOCKS)
def test_so_is_one_with_a_block(catalog: SqlCatalog, role: str, what: str) -> None:
    """Below a header as it should be."""
    path = files_of(catalog)[role]
    codec, block = BLOCKS[what]
    with path.open("rb") as stream:
        header = Header.read(stream)
    if "large" in what:
        block = encode_long(1) + encode_long(len(block)) + block + SYNC
    path.write_bytes(Header(meta=header.meta | {"avro.codec": codec.encode()}, sync=SYNC).to_bytes() + block)
    refused(catalog, path)


def refused(catalog: SqlCatalog, path: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedTableError) as raised:
            capture(catalog, "db.t", into="icdc.x", range_columns=["id"])
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert path.name in raised.value.problem
    assert raised.value.remedy
    assert peak < 600 * MEGABYTE


def walked(schema: object, count: int, data: bytes) -> None:
    list(Walker([Part(schema, wanted=True)]).walk(count, data))


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (MANY_NULLS, HUGE + b"\x00"),
        (MANY_NULLS, encode_long(-(2**62)) + encode_long(0) + b"\x00"),
        ({"type": "array", "items": MANY_NULLS}, encode_long(500) + (encode_long(499) + b"\x00") * 500 + b"\x00"),
        ({"type": "array", "items": "int"}, encode_long(-1) + encode_long(-2) + b"\x00"),
        ({"type": "map", "values": "null"}, HUGE + b"\x00"),
        ("string", HUGE),
        ("long", b"\xff" * 100),
        ({"type": "fixed", "size": -3, "name": "f"}, b"\x02\x02"),
        (["null", "int"], encode_long(7)),
    ],
    ids=repr,
)
def test_a_value_that_no_writer_can_have_written_ends(schema: object, data: bytes) -> None:
    """Numbers of items that have no bytes, sizes that lead back, numbers without end."""
    with pytest.raises((UnsupportedTableError, ValueError)):
        walked(schema, 1, data)


def test_a_number_has_at_most_ten_bytes() -> None:
    """A longer one is none of 64 bits."""
    assert read_long(encode_long(-(2**63)), 0)[0] == -(2**63)
    with pytest.raises(IndexError):
        read_long(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(IndexError):
        skipper("long", Names())(b"\xff" * 10 + b"\x01", 0)


METADATA = {
    "empty": b"",
    "not JSON": b"{",
    "not text": b"\xff\xfe",
    "a list": b"[]",
    "without a version": b"{}",
    "nested too deep": b'{"a":' * 100_000,
    "text in place of a table": b'"table"',
    "numbers in place of schemas": b'{"format-version": 2, "schemas": 7, "partition-specs": [3], "sort-orders": {}}',
}


def changed(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("what", METADATA)
def test_metadata_that_is_none_is_a_table_that_cannot_be_captured(catalog: SqlCatalog, what: str) -> None:
    """At once: it is not an outage that passes."""
    files_of(catalog)["metadata"].write_bytes(METADATA[what])
    with pytest.raises(UnsupportedTableError, match=r"db\.t"):
        open_source(catalog, Source("db.t", "main"))


@pytest.mark.parametrize(
    "values",
    [
        {"format-version": 9},
        {"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "type": "quaternion"}]}]},
        {
            "partition-specs": [
                {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "p", "transform": "zorder[4]"}]}
            ],
            "snapshots": 7,
        },
        {"current-schema-id": 77},
        {"current-snapshot-id": "first"},
        {"refs": {"main": 1}},
    ],
    ids=lambda values: next(iter(values)),
)
def test_metadata_of_a_later_iceberg_is_a_table_that_cannot_be_captured(catalog: SqlCatalog, values: Any) -> None:
    """An unknown version, type or transform."""
    changed(files_of(catalog)["metadata"], **values)
    with pytest.raises(UnsupportedTableError, match=r"db\.t") as raised:
        open_source(catalog, Source("db.t", "main"))
    assert raised.value.remedy


def test_metadata_that_storage_does_not_give_is_an_outage(catalog: SqlCatalog) -> None:
    """It may come back."""
    files_of(catalog)["metadata"].unlink()
    with pytest.raises(CatalogError, match=r"loading db\.t failed"):
        open_source(catalog, Source("db.t", "main"))


@pytest.fixture
def expired(tmp_path: Path) -> tuple[SqlCatalog, int]:
    """A table with compressed metadata files, and the id of its second of three snapshots, which has expired."""
    catalog = new_catalog(tmp_path)
    table = new_table(catalog, properties={"write.metadata.compression-codec": "gzip"})
    ids = [append(table, number) for number in (1, 2, 3)]
    table.maintenance.expire_snapshots().by_ids(ids[:2]).commit()
    check_icdc_namespace(catalog, "icdc")
    return catalog, ids[1]


def compress_older_metadata(catalog: SqlCatalog, padding: bytes = b"") -> None:
    """Keep the older metadata files compressed, with something before their text."""
    metadata = catalog.load_table("db.t").metadata
    for path in {Path(entry.metadata_file.removeprefix("file://")) for entry in metadata.metadata_log}:
        written = path.read_bytes()
        text = gzip.decompress(written) if written.startswith(b"\x1f\x8b") else written
        path.write_bytes(gzip.compress(padding, 1) + gzip.compress(text))


def test_an_older_metadata_file_may_be_compressed(expired: tuple[SqlCatalog, int]) -> None:
    """As engines write it on request."""
    catalog, since = expired
    compress_older_metadata(catalog)
    capture(catalog, "db.t", since=since, into="icdc.x")
    assert rows(catalog, "icdc.x") == [3]


def test_one_that_becomes_large_is_named(expired: tuple[SqlCatalog, int]) -> None:
    """Few bytes can stand for gigabytes, and spaces are JSON."""
    catalog, since = expired
    compress_older_metadata(catalog, padding=b" " * 100 * MEGABYTE)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedTableError, match=r"metadata\.json cannot be parsed: .* when decompressed"):
            capture(catalog, "db.t", since=since, into="icdc.x")
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 150 * MEGABYTE


@pytest.mark.parametrize(("column", "wanted"), [("note", ()), ("id", ("id",))], ids=["in the list", "in a manifest"])
def test_a_bound_of_too_few_bytes_cannot_be_parsed(tmp_path: Path, column: str, wanted: tuple[str, ...]) -> None:
    """As after a change of a column's type that no engine may make."""
    catalog = new_catalog(tmp_path)
    table = new_table(catalog)
    with table.update_spec() as spec:
        spec.add_identity("note")
    append(table, 1)
    document = json.loads((path := files_of(catalog)["metadata"]).read_text())
    for field in document["schemas"][0]["fields"]:
        field["type"] = "int" if field["name"] == column else field["type"]
    path.write_text(json.dumps(document))
    with pytest.raises(UnsupportedTableError, match="a bound of type int cannot be parsed"):
        capture(catalog, "db.t", into="icdc.x", dry_run=True, range_columns=wanted)
