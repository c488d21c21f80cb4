"""The entries of a manifest: the few fields that decisions need, and where the rest of their bytes lie."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.reader import StructReader
from pyiceberg.avro.resolver import construct_reader

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.avro import Header
from airflow_provider_ips.iceberg.avro_skips import decode_long
from airflow_provider_ips.iceberg.walking import Part, Walker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

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
_REMEMBERED: Final = 10_000
"""Heads of entries decoded once. A manifest has as many as snapshots, so this bounds memory, not speed."""


@dataclass(slots=True)
class Entry:
    """One entry: its own fields, and the wanted fields of its file by id."""

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    file: dict[int, Any]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What an entry says of itself."""

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None


class EntryLayout:
    """How the entries of a manifest are laid out, and which fields of their files are wanted."""

    def __init__(self, header: Header, wanted: Collection[int]) -> None:
        self.header = header
        self.wanted = tuple(sorted(wanted))
        self._walker, self.place, self._optional = _compiled(header.meta["avro.schema"], self.wanted)
        self._own = [self.place[i] for i in _NUMBERS if i in self.place]
        self._decoded: dict[tuple[bytes, ...], Numbers] = {}

    def walk(self, count: int, data: bytes) -> Iterator[tuple[int, int, list[Any]]]:
        """Give where each entry of a block starts and ends, and the raw bytes of its wanted fields by ``place``."""
        return self._walker.walk(count, data)

    def numbers(self, found: list[Any]) -> Numbers:
        """Decode what an entry says of itself; most entries of a manifest say the same."""
        raw = tuple([found[i] for i in self._own])
        known = self._decoded.get(raw)
        if known is None:
            if len(self._decoded) >= _REMEMBERED:
                self._decoded.clear()
            known = self._decoded[raw] = self._decode_numbers(found)
        return known

    def _decode_numbers(self, found: list[Any]) -> Numbers:
        status, *rest = (self.number(field_id, found) for field_id in _NUMBERS)
        return Numbers(status or 0, *rest)

    def number(self, field_id: int, found: list[Any]) -> int | None:
        """Decode a wanted number; None where it is null or the manifest has no such field."""
        place = self.place.get(field_id)
        if place is None:
            return None
        raw: bytes = found[place]
        if field_id not in self._optional:
            return decode_long(raw)
        return decode_long(raw[1:]) if raw[0] else None

    def value(self, field_id: int, found: list[Any]) -> Any:  # noqa: ANN401 - a field of any type
        """Decode a wanted field of the file; None where the manifest has no such field."""
        place = self.place.get(field_id)
        return None if place is None else self._readers[field_id].read(new_decoder(found[place]))

    def entries(self, stream: BinaryIO) -> Iterator[Entry]:
        """Stream the entries, one block in memory at a time."""
        for count, data in self.header.blocks(stream):
            for _, _, found in self.walk(count, data):
                own = self.numbers(found)
                yield Entry(
                    status=own.status,
                    snapshot_id=own.snapshot_id,
                    sequence_number=own.sequence_number,
                    file_sequence_number=own.file_sequence_number,
                    file={i: self.value(i, found) for i in self.wanted if i in self.place},
                )

    @cached_property
    def _readers(self) -> dict[int, Reader]:
        schema = self.header.schema
        reader = construct_reader(schema)
        files = next(f for f in schema.fields if f.field_id == DATA_FILE).field_type
        inner = next(r for f, (_, r) in zip(schema.fields, _fields_of(reader), strict=True) if f.field_id == DATA_FILE)
        pairs = zip(files.fields, _fields_of(inner), strict=True)  # type: ignore[attr-defined]
        return {f.field_id: r for f, (_, r) in pairs}


def _fields_of(reader: Reader) -> tuple[Any, ...]:
    if not isinstance(reader, StructReader):
        raise UnsupportedTableError("a manifest does not hold records", remedy="check the storage; it is damaged")
    return reader.field_readers


@lru_cache(maxsize=64)
def _compiled(schema: bytes, wanted: tuple[int, ...]) -> tuple[Walker, dict[int, int], frozenset[int]]:
    """A walker, where wanted fields come in what it finds, and which numbers may be null; one for most manifests."""
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
    return Walker(parts), _places(ids, parts), _optional(document)


def _places(ids: list[int], parts: list[Part]) -> dict[int, int]:
    """A mark, which is the place before a field, comes before the field's bytes."""
    places: dict[int, int] = {}
    at = 0
    for field_id, part in zip(ids, parts, strict=True):
        at += part.marked
        if part.wanted:
            places[field_id] = at
            at += 1
    return places


def _optional(document: dict[str, Any]) -> frozenset[int]:
    files = next(f["type"]["fields"] for f in document["fields"] if f["field-id"] == DATA_FILE)
    return frozenset(f["field-id"] for f in (*document["fields"], *files) if isinstance(f["type"], list))


def with_row_ids(header: Header) -> Header:
    """The header for entries whose files all have a ``first_row_id`` written out."""
    schema = json.loads(header.meta["avro.schema"])
    file_type = next(f["type"] for f in schema["fields"] if f["field-id"] == DATA_FILE)
    if all(f["field-id"] != FIRST_ROW_ID for f in file_type["fields"]):
        _check_file_last(schema)
        file_type["fields"].append(
            {"name": "first_row_id", "type": ["null", "long"], "default": None, "field-id": FIRST_ROW_ID}
        )
    return Header(meta={**header.meta, "avro.schema": json.dumps(schema).encode()}, sync=header.sync)


def _check_null_first(avro_schema: dict[str, Any]) -> None:
    """Every Iceberg writer puts null first in a union; what is read and written here relies on it."""
    files = next(f["type"]["fields"] for f in avro_schema["fields"] if f["field-id"] == DATA_FILE)
    for field in (*avro_schema["fields"], *files):
        if isinstance(field["type"], list) and field["type"][0] != "null":
            raise _odd(f"writes field {field['name']!r} in an order that no Iceberg writer uses")


def _check_file_last(avro_schema: dict[str, Any]) -> None:
    """A field is added to the file's end by adding it to the entry's."""
    if avro_schema["fields"][-1]["field-id"] != DATA_FILE:
        raise _odd("has fields behind the file, as no Iceberg writer puts them")


def _odd(problem: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"a manifest {problem}",
        consequence="Its entries cannot be moved without reading them wrong",
        remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests)",
    )
