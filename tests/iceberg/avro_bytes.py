"""Manifests in every form that Avro allows: written from their schema by chance, not by a writer's habits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    ManifestContent,
    ManifestFile,
    PartitionFieldSummary,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from airflow_provider_ips.iceberg.avro.container import SYNC_BYTES, Header, encode_long
from airflow_provider_ips.iceberg.manifests.lists import READ_SCHEMA

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import TableVersion

PARTITION_TYPES: tuple[PrimitiveType, ...] = (
    LongType(),
    IntegerType(),
    StringType(),
    DateType(),
    TimestamptzType(),
    DecimalType(9, 2),
    DecimalType(38, 10),
    UUIDType(),
    FixedType(7),
    BinaryType(),
    DoubleType(),
    FloatType(),
    BooleanType(),
)

# What a later release may add to a file: every Avro type that this one's own fields do not have.
UNKNOWN_FIELDS: tuple[Any, ...] = (
    ["null", "double"],
    ["null", "string"],
    "boolean",
    ["null", {"type": "map", "values": "long", "key-id": 903, "value-id": 904}],
    ["null", {"type": "array", "items": {"type": "array", "items": "float", "element-id": 901}, "element-id": 900}],
    {"type": "record", "name": "later", "fields": [{"name": "x", "type": ["null", "long"], "field-id": 902}]},
    {"type": "fixed", "name": "digest", "size": 5},
    ["null", "bytes"],
)

_ASCII = bytes(byte & 0x7F for byte in range(256))


def rng_of(seed: int) -> Random:
    """Chance that can be repeated."""
    return Random(seed)  # noqa: S311 - nothing is kept secret by it


def plain(value: Any) -> Any:
    """A decoded value that can be printed: PyIceberg decodes some maps only when they are read."""
    return dict(value) if isinstance(value, Mapping) else value


def file_fields(header: Header) -> tuple[NestedField, ...]:
    """The fields of an entry's file."""
    files = header.schema.find_field(2).field_type
    assert isinstance(files, StructType)
    return files.fields


def random_header(rng: Random, version: TableVersion) -> Header:
    """The header of a manifest with a random partition spec, and with unknown fields."""
    types = [rng.choice(PARTITION_TYPES) for _ in range(rng.randrange(4))]
    partition = StructType(*(NestedField(1000 + i, f"p{i}", t, required=False) for i, t in enumerate(types)))
    schema = manifest_entry_schema_with_data_file(version, data_file_with_partition(partition, version))
    document: dict[str, Any] = AvroSchemaConversion().iceberg_to_avro(  # type: ignore[assignment]
        schema, schema_name="manifest_entry"
    )
    files = next(f["type"]["fields"] for f in document["fields"] if f["field-id"] == 2)
    for number, unknown in enumerate(rng.sample(UNKNOWN_FIELDS, rng.randrange(3))):
        files.insert(rng.randrange(len(files) + 1), {"name": f"u{number}", "type": unknown, "field-id": 910 + number})
    return Header(meta={"avro.schema": json.dumps(document).encode()}, sync=bytes(SYNC_BYTES))


def random_record(rng: Random, schema: dict[str, Any], given: dict[int, bytes] | None = None) -> bytes:
    """One record; fields by id can be given as bytes."""
    given = given or {}
    parts = []
    for field in schema["fields"]:
        if field["field-id"] in given:
            parts.append(given[field["field-id"]])
        elif isinstance(field["type"], dict) and field["type"]["type"] == "record":
            parts.append(random_record(rng, field["type"], given))
        else:
            parts.append(random_value(rng, field["type"]))
    return b"".join(parts)


def random_value(rng: Random, schema: Any) -> bytes:  # noqa: PLR0911 - one answer per Avro type
    """The bytes of any value of an Avro type."""
    if isinstance(schema, list):
        branch = rng.randrange(len(schema))
        return encode_long(branch) + random_value(rng, schema[branch])
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return random_value(rng, kind)
    if kind in ("int", "long"):
        return encode_long(rng.choice([rng.randrange(-70, 70), rng.getrandbits(31), -rng.getrandbits(20)]))
    if kind in ("string", "bytes"):
        length = rng.choice([0, 1, 16, 63, 64, 200, rng.randrange(90)])
        return encode_long(length) + rng.randbytes(length).translate(_ASCII)
    if kind == "map":
        return _blocks(rng, lambda: random_value(rng, "string") + random_value(rng, schema["values"]))
    if kind == "array":
        return _blocks(rng, lambda: random_value(rng, schema["items"]))
    if kind == "record":
        return random_record(rng, schema)
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        return rng.randrange(-(10**6), 10**6).to_bytes(schema["size"], "big", signed=True)
    size = {"null": 0, "float": 4, "double": 8}.get(kind, schema.get("size", 0) if isinstance(schema, dict) else 0)
    return bytes([rng.randrange(2)]) if kind == "boolean" else rng.randbytes(size)


def _blocks(rng: Random, item: Any) -> bytes:
    """Items in as many blocks as a writer likes, with or without the block's size written before it."""
    parts = []
    for _ in range(rng.choice([0, 1, 1, 1, 1, 3])):
        items = [item() for _ in range(rng.choice([1, 1, 2, 2, 20, 70]))]
        data = b"".join(items)
        if rng.randrange(4):
            parts.append(encode_long(len(items)) + data)
        else:
            parts.append(encode_long(-len(items)) + encode_long(len(data)) + data)
    return b"".join((*parts, encode_long(0)))


def listed_by_pyiceberg(io: FileIO, path: str) -> list[ManifestFile]:
    """The manifests of a list, as PyIceberg's own reader decodes them."""
    with AvroFile[ManifestFile](
        io.new_input(path),
        READ_SCHEMA,
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return list(reader)
