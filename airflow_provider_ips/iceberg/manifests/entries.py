"""Where the fields of a manifest's entries are, and how the few that decisions need are decoded."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.reader import StructReader
from pyiceberg.avro.resolver import construct_reader

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.avro.container import Header, encode_long
from airflow_provider_ips.iceberg.avro.skips import decode_long
from airflow_provider_ips.iceberg.avro.walker import Part, Walker

if TYPE_CHECKING:
    from pyiceberg.avro.reader import Reader


EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2

STATUS, SNAPSHOT_ID, DATA_FILE, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER = 0, 1, 2, 3, 4
CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE = 134, 100, 102, 103, 104
VALUE_COUNTS, NULL_COUNTS, NAN_COUNTS, LOWER_BOUNDS, UPPER_BOUNDS, FIRST_ROW_ID = 109, 110, 137, 125, 128, 142
REFERENCED_DATA_FILE, CONTENT_OFFSET = 143, 144
_PATHS: Final = frozenset({FILE_PATH, REFERENCED_DATA_FILE})
_NUMBERS: Final = (STATUS, SNAPSHOT_ID, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER)
_MAX_DECODED: Final = 10_000
"""Numbers of entries that are decoded once. A manifest has one set for each snapshot, so this bounds memory only."""


@dataclass(frozen=True, slots=True)
class EntryNumbers:
    """Status, snapshot and sequence numbers as they are in an entry; None where it inherits them from its manifest."""

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None

    @property
    def in_order(self) -> tuple[int | None, ...]:
        """As the fields follow each other in an entry."""
        return self.status, self.snapshot_id, self.sequence_number, self.file_sequence_number

    def resolved_sequence_number(self, manifest_sequence_number: int) -> int:
        """The sequence number that readers use.

        ADDED, null, in a manifest with 12    12    inherited: the manifest's own snapshot added the file
        ADDED or EXISTING, 9                   9
        EXISTING, null                         0    written before the table had sequence numbers
        """
        if self.sequence_number is not None:
            return self.sequence_number
        return manifest_sequence_number if self.status == ADDED else 0

    def written_out(self, manifest_snapshot_id: int | None, manifest_sequence_number: int) -> EntryNumbers:
        """The same numbers of a live entry that inherits none of them, and is listed as EXISTING."""
        inherited = manifest_sequence_number if self.status == ADDED else None
        return EntryNumbers(
            EXISTING,
            manifest_snapshot_id if self.snapshot_id is None else self.snapshot_id,
            inherited if self.sequence_number is None else self.sequence_number,
            inherited if self.file_sequence_number is None else self.file_sequence_number,
        )


class EntryLayout:
    """Where the fields of a manifest's entries are, and how the wanted ones are decoded."""

    def __init__(self, header: Header, wanted: Collection[int]) -> None:
        self.header = header
        self._walker, self.index, self._optional = _compiled(header.meta["avro.schema"], tuple(sorted(wanted)))
        self._number_indexes = [self.index[i] for i in _NUMBERS if i in self.index]
        self._decoded: dict[tuple[bytes, ...], EntryNumbers] = {}

    def walk(self, count: int, data: bytes) -> Iterator[tuple[int, int, list[Any]]]:
        """Yield where each entry of a block starts and ends, and its wanted fields as raw bytes, found by ``index``."""
        return self._walker.walk(count, data)

    def numbers(self, raw: list[Any]) -> EntryNumbers:
        """Decode status, snapshot and sequence numbers, which are the same in most entries of a manifest."""
        key = tuple([raw[i] for i in self._number_indexes])
        known = self._decoded.get(key)
        if known is None:
            if len(self._decoded) >= _MAX_DECODED:
                self._decoded.clear()
            known = self._decoded[key] = self._decode_numbers(raw)
        return known

    def _decode_numbers(self, raw: list[Any]) -> EntryNumbers:
        status, *rest = (self.number(field_id, raw) for field_id in _NUMBERS)
        return EntryNumbers(status or 0, *rest)

    def number(self, field_id: int, raw: list[Any]) -> int | None:
        """Decode a wanted number; None if it is null or the manifest has no such field."""
        index = self.index.get(field_id)
        if index is None:
            return None
        encoded: bytes = raw[index]
        if field_id not in self._optional:
            return decode_long(encoded)
        return decode_long(encoded[1:]) if encoded[0] else None

    def value(self, field_id: int, raw: list[Any]) -> Any:  # noqa: ANN401 - a field of any type
        """Decode a wanted field of the file; None if the manifest has no such field."""
        index = self.index.get(field_id)
        return None if index is None else self._readers[field_id].read(new_decoder(raw[index]))

    def with_numbers(self, numbers: EntryNumbers, raw: list[Any]) -> tuple[bytes, int]:
        """The first bytes of an entry with other numbers, and how many bytes of it they replace."""
        _check_numbers_first(self.header.meta["avro.schema"])
        if numbers.sequence_number and SEQUENCE_NUMBER not in self.index:
            raise _unusual("has no field for the sequence number that its entries inherit")
        given = dict(zip(_NUMBERS, numbers.in_order, strict=True))
        encoded = b"".join(self._encoded(field_id, given[field_id]) for field_id in _NUMBERS if field_id in self.index)
        return encoded, sum(len(raw[i]) for i in self._number_indexes)

    def _encoded(self, field_id: int, value: int | None) -> bytes:
        if field_id not in self._optional:
            return encode_long(value or 0)
        return b"\x00" if value is None else b"\x02" + encode_long(value)

    @property
    def _readers(self) -> dict[int, Reader]:
        return _readers_of(self.header.meta["avro.schema"])


@lru_cache(maxsize=16)
def _check_numbers_first(avro_schema: bytes) -> None:
    ids = [field["field-id"] for field in json.loads(avro_schema)["fields"]]
    present = [field_id for field_id in _NUMBERS if field_id in ids]
    if ids[: len(present)] != present:
        raise _unusual("has its numbers in an order that no Iceberg writer uses")


@lru_cache(maxsize=16)
def _readers_of(avro_schema: bytes) -> dict[int, Reader]:
    """A reader for each field of the file. To make them takes as long as walking hundreds of entries."""
    schema = Header(meta={"avro.schema": avro_schema}, sync=b"").schema
    reader = construct_reader(schema)
    files = next(f for f in schema.fields if f.field_id == DATA_FILE).field_type
    inner = next(r for f, (_, r) in zip(schema.fields, _fields_of(reader), strict=True) if f.field_id == DATA_FILE)
    pairs = zip(files.fields, _fields_of(inner), strict=True)  # type: ignore[attr-defined]
    return {f.field_id: r for f, (_, r) in pairs}


def _fields_of(reader: Reader) -> tuple[Any, ...]:
    if not isinstance(reader, StructReader):
        raise UnsupportedTableError("a manifest does not hold records", remedy="check the storage: it is damaged")
    return reader.field_readers


@lru_cache(maxsize=64)
def _compiled(schema: bytes, wanted: tuple[int, ...]) -> tuple[Walker, dict[int, int], frozenset[int]]:
    """A walker, the indexes of the wanted fields in what it finds, and the fields that may be null.

    Most manifests of a table share one schema, and so one walker with what it has learned.
    """
    document = json.loads(schema)
    _check_null_first(document)
    parts, ids = [], []
    for field in document["fields"]:
        if field["field-id"] != DATA_FILE:
            ids.append(field["field-id"])
            parts.append(Part(field["type"], wanted=field["field-id"] in _NUMBERS))
            continue
        for inner in field["type"]["fields"]:
            field_id = inner["field-id"]
            ids.append(field_id)
            parts.append(
                Part(
                    inner["type"],
                    wanted=field_id in wanted,
                    marked=field_id in wanted and field_id == FIRST_ROW_ID,
                    is_long=field_id in _PATHS,
                )
            )
    return Walker(parts), _indexes(ids, parts), _optional(document)


def _file_type(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {f["field-id"]: f["type"] for f in document["fields"]}[DATA_FILE]
    return found


def _indexes(ids: list[int], parts: list[Part]) -> dict[int, int]:
    """The place where a marked field starts has an index of its own, before that of the field's bytes."""
    indexes: dict[int, int] = {}
    at = 0
    for field_id, part in zip(ids, parts, strict=True):
        at += part.marked
        if part.wanted:
            indexes[field_id] = at
            at += 1
    return indexes


def _optional(document: dict[str, Any]) -> frozenset[int]:
    files = _file_type(document)["fields"]
    return frozenset(f["field-id"] for f in (*document["fields"], *files) if isinstance(f["type"], list))


def with_row_ids(header: Header) -> Header:
    """The header of a manifest whose entries have the field ``first_row_id``, which it gets if it lacks it."""
    schema = json.loads(header.meta["avro.schema"])
    file_type = _file_type(schema)
    if all(f["field-id"] != FIRST_ROW_ID for f in file_type["fields"]):
        _check_file_last(schema)
        file_type["fields"].append(
            {"name": "first_row_id", "type": ["null", "long"], "default": None, "field-id": FIRST_ROW_ID}
        )
    return Header(meta={**header.meta, "avro.schema": json.dumps(schema).encode()}, sync=header.sync)


def _check_null_first(avro_schema: dict[str, Any]) -> None:
    """Every Iceberg writer puts null first in a union, and the code above relies on it to tell null from a value."""
    files = _file_type(avro_schema)["fields"]
    for field in (*avro_schema["fields"], *files):
        if isinstance(field["type"], list) and field["type"][0] != "null":
            raise _unusual(f"writes field {field['name']!r} in an order that no Iceberg writer uses")


def _check_file_last(avro_schema: dict[str, Any]) -> None:
    """A field can be appended to the file only where the file is the last field of the entry."""
    if avro_schema["fields"][-1]["field-id"] != DATA_FILE:
        raise _unusual("has fields after the file, where no Iceberg writer puts any")


def _unusual(problem: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"a manifest {problem}",
        consequence="Its entries would be misread when they are moved",
        remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests)",
    )
