"""Manifests and manifest lists from ready-made bytes.

One entry is encoded field by field with PyIceberg's writers, once for each of a few hundred sets of statistics; a
million entries are then those bytes with paths, numbers and partitions put between. None of the package's own Avro code
takes part: what is measured must not have made the table it is measured on.
"""

from __future__ import annotations

import json
import random
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.avro.writer import StructWriter
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

if TYPE_CHECKING:
    from pyiceberg.typedef import TableVersion

REGIONS: Final = ("ap-south", "ca-west", "eu-north", "sa-east", "us-west")
FIRST_DAY: Final = 20_454  # 2026-01-01, in days since 1970
_TYPES: Final[tuple[PrimitiveType, ...]] = (LongType(), StringType(), DoubleType(), IntegerType(), DateType())
COLUMNS: Final = 20
SCHEMA: Final = Schema(
    NestedField(1, "happened_at", TimestampType()),
    NestedField(2, "region", StringType()),
    *(NestedField(i, f"column_{i}", _TYPES[i % len(_TYPES)]) for i in range(3, COLUMNS + 1)),
)
SPEC: Final = PartitionSpec(
    PartitionField(source_id=1, field_id=1000, transform=DayTransform(), name="day"),
    PartitionField(source_id=2, field_id=1001, transform=IdentityTransform(), name="region"),
)
SETS_OF_STATISTICS: Final = 509
"""So many that no two files of one block share theirs, and compression finds what it would find in life."""

_BLOCK_BYTES: Final = 64_000
_SYNC: Final = bytes(range(16))
_DAY_US: Final = 86_400_000_000
_NOTHING: Final = b"\x00"


class _Buffer:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data


def zigzag(value: int) -> bytes:
    """Avro's number."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def some(value: int | None) -> bytes:
    """A number that may be missing."""
    return _NOTHING if value is None else b"\x02" + zigzag(value)


def text(value: str) -> bytes:
    """Avro's string."""
    raw = value.encode()
    return zigzag(len(raw)) + raw


def _fields(struct: StructType, record: Record) -> list[bytes]:
    """Each field's bytes."""
    writer = construct_writer(struct)
    if not isinstance(writer, StructWriter):
        raise TypeError(f"{writer} writes no struct")
    out = []
    for position, field in writer.field_writers:
        buffer = _Buffer()
        field.write(BinaryEncoder(buffer), None if position is None else record[position])  # type: ignore[arg-type]
        out.append(bytes(buffer.data))
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What an entry says about its file after path and partition, as bytes, and the sums that lists need."""

    raw: bytes
    records: int
    size_bytes: int


class EntryBytes:
    """Entries of one format version."""

    def __init__(self, format_version: TableVersion) -> None:
        self.format_version = format_version
        self._struct = data_file_with_partition(SPEC.partition_type(SCHEMA), format_version)
        names = [f.name for f in self._struct.fields]
        self._after = names.index("partition") + 1
        self._end = names.index("first_row_id") if "first_row_id" in names else len(names)
        self._before_path = b"\x00" if names[0] == "content" else b""
        self._after_row_id = _NOTHING * max(0, len(names) - self._end - 1)
        self._partitions: dict[int, tuple[bytes, ...]] = {}
        self.statistics = [self._statistics(random.Random(i)) for i in range(SETS_OF_STATISTICS)]  # noqa: S311 - no secret
        self.records_before = [0]
        for one in self.statistics:
            self.records_before.append(self.records_before[-1] + one.records)

    @property
    def avro_schema(self) -> Any:  # noqa: ANN401 - JSON
        """Of a manifest's entries."""
        schema = manifest_entry_schema_with_data_file(self.format_version, self._struct)
        return AvroSchemaConversion().iceberg_to_avro(schema, schema_name="manifest_entry")

    def head(self, status: int, snapshot_id: int | None, sequence_number: int | None) -> bytes:
        """What stands before the file; None is inherited from the manifest list."""
        if self.format_version == 1:
            return zigzag(status) + zigzag(snapshot_id or 0)
        return zigzag(status) + some(snapshot_id) + some(sequence_number) + some(sequence_number)

    def file(self, number: int, day: int, folder: str, first_row_id: int | None) -> bytes:
        """The file itself. The same number gives the same bytes, wherever it is listed."""
        region = number % len(REGIONS)
        digits = (number * 0x9E3779B97F4A7C15F39CC0605CEDC835) & ((1 << 128) - 1)
        path = text(f"{folder}/day={day}/region={REGIONS[region]}/{number:05d}-{digits:032x}-00001.parquet")
        raw = self.statistics[number % SETS_OF_STATISTICS].raw
        parts = (self._before_path, path, b"\x0ePARQUET", self._partition(day)[region], raw)
        row_ids = some(first_row_id) + self._after_row_id if self.format_version > 2 else b""  # noqa: PLR2004 - v3
        return b"".join((*parts, row_ids))

    def records(self, start: int, stop: int) -> int:
        """How many rows a run of files holds."""
        return self._records_up_to(stop) - self._records_up_to(start)

    def size_bytes(self, start: int, stop: int) -> int:
        """How large a run of files is."""
        return sum(self.statistics[i % SETS_OF_STATISTICS].size_bytes for i in range(start, stop))

    def _records_up_to(self, number: int) -> int:
        rounds, rest = divmod(number, SETS_OF_STATISTICS)
        return rounds * self.records_before[-1] + self.records_before[rest]

    def _partition(self, day: int) -> tuple[bytes, ...]:
        if day not in self._partitions:
            self._partitions[day] = tuple(some(day) + b"\x02" + text(region) for region in REGIONS)
        return self._partitions[day]

    def _statistics(self, chance: random.Random) -> Statistics:
        records, size = chance.randint(100_000, 2_000_000), chance.randint(50_000_000, 400_000_000)
        values = {
            "record_count": records,
            "file_size_in_bytes": size,
            "block_size_in_bytes": 64 * 1024 * 1024,
            "column_sizes": {i: chance.randint(1_000, 20_000_000) for i in range(1, COLUMNS + 1)},
            "value_counts": dict.fromkeys(range(1, COLUMNS + 1), records),
            "null_value_counts": {i: chance.choice((0, chance.randint(0, records))) for i in range(1, COLUMNS + 1)},
            "nan_value_counts": {f.field_id: 0 for f in SCHEMA.fields if isinstance(f.field_type, DoubleType)},
            "lower_bounds": {f.field_id: _bound(f, chance, 0) for f in SCHEMA.fields},
            "upper_bounds": {f.field_id: _bound(f, chance, 1) for f in SCHEMA.fields},
            "split_offsets": [4 + i * 128 * 1024 * 1024 for i in range(size // (128 * 1024 * 1024) + 1)],
            "sort_order_id": 0,
            "partition": Record(FIRST_DAY, REGIONS[0]),
            "file_path": "",
            "file_format": "PARQUET",
            "content": 0,
        }
        record = Record(*(values.get(f.name) for f in self._struct.fields))
        raw = b"".join(_fields(self._struct, record)[self._after : self._end])
        return Statistics(raw=raw, records=records, size_bytes=size)


def _bound(field: NestedField, chance: random.Random, half: int) -> bytes:
    """A lower or an upper bound."""
    kind = field.field_type
    value: Any
    if isinstance(kind, StringType):
        value = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=16))
        value = f"{'mz'[half]}{value[1:]}"
    elif isinstance(kind, DoubleType):
        value = chance.random() + half
    elif isinstance(kind, TimestampType):
        value = FIRST_DAY * _DAY_US + half * (_DAY_US // 2) + chance.randrange(_DAY_US // 2)
    else:
        value = chance.randrange(1 << 29) + half * (1 << 29)
    if not isinstance(kind, PrimitiveType):
        raise TypeError(f"{kind} has no bounds")
    return to_bytes(kind, value)


class ListBytes:
    """The records of manifest lists of one format version."""

    def __init__(self, format_version: TableVersion) -> None:
        self._schema = MANIFEST_LIST_FILE_SCHEMAS[format_version]

    @property
    def avro_schema(self) -> Any:  # noqa: ANN401 - JSON
        """Of a list's records."""
        return AvroSchemaConversion().iceberg_to_avro(self._schema, schema_name="manifest_file")

    def record(self, values: dict[str, Any], days: tuple[int, int]) -> bytes:
        """One manifest's; partitions are summed up by the days they span, and all regions."""
        bounds = [
            (to_bytes(DateType(), days[0]), to_bytes(DateType(), days[1])),
            (REGIONS[0].encode(), REGIONS[-1].encode()),
        ]
        summaries = [Record(False, False, lower, upper) for lower, upper in bounds]  # noqa: FBT003 - holds null, holds NaN
        record = Record(*(values.get(f.name) for f in self._schema.fields if f.name != "partitions"))
        position = next(i for i, f in enumerate(self._schema.fields) if f.name == "partitions")
        fields = [record[i] for i in range(len(self._schema.fields) - 1)]
        fields.insert(position, summaries)
        return b"".join(_fields(self._schema.as_struct(), Record(*fields)))


class Container:
    """An Avro file in the writing."""

    def __init__(self, stream: BinaryIO, avro_schema: Any, meta: dict[str, str]) -> None:  # noqa: ANN401 - JSON
        self._stream, self._records, self._size, self.length = stream, [], 0, 0  # type: tuple[BinaryIO, list[bytes], int, int]
        pairs = {"avro.schema": json.dumps(avro_schema), "avro.codec": "deflate", **meta}
        raw = b"".join(text(key) + text(value) for key, value in pairs.items())
        self._write(b"Obj\x01" + zigzag(len(pairs)) + raw + zigzag(0) + _SYNC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._stream.close()

    def add(self, record: bytes) -> None:
        """Append a record."""
        self._records.append(record)
        self._size += len(record)
        if self._size >= _BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._records:
            return
        packer = zlib.compressobj(wbits=-15)
        data = packer.compress(b"".join(self._records)) + packer.flush()
        self._write(zigzag(len(self._records)) + zigzag(len(data)) + data + _SYNC)
        self._records, self._size = [], 0

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self.length += len(data)
