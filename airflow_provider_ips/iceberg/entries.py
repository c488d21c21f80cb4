"""The entries of a manifest: the few fields that decisions need, and where the rest of their bytes lie."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.reader import Reader, StructReader
from pyiceberg.avro.resolver import construct_reader

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.avro import Header, encode_long

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2

STATUS, SNAPSHOT_ID, DATA_FILE, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER = 0, 1, 2, 3, 4
CONTENT, FILE_PATH, PARTITION, RECORD_COUNT, FILE_SIZE = 134, 100, 102, 103, 104
VALUE_COUNTS, NULL_COUNTS, NAN_COUNTS, LOWER_BOUNDS, UPPER_BOUNDS, FIRST_ROW_ID = 109, 110, 137, 125, 128, 142


@dataclass(slots=True)
class Entry:
    """One entry: its own fields, the wanted fields of its file by id, and the raw bytes of the file struct."""

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    file: dict[int, Any]
    raw_file: bytes
    first_row_id_at: tuple[int, int] | None


class EntryLayout:
    """How the entries of one manifest are laid out. Compiled once a manifest."""

    def __init__(self, header: Header, wanted: Collection[int]) -> None:
        self.header = header
        reader = construct_reader(header.schema)
        if not isinstance(reader, StructReader):
            raise UnsupportedTableError("a manifest does not hold records", remedy="check the storage; it is damaged")
        self._fields = _paired(header.schema.fields, reader)
        file_field = next(f for f in header.schema.fields if f.field_id == DATA_FILE)
        file_reader = next(r for field_id, r in self._fields if field_id == DATA_FILE)
        # Partitions are always read: PyIceberg skips a decimal as if it had a length, and misreads all that follows.
        read = {*wanted, PARTITION}
        self._file = [(i, r, i in read) for i, r in _paired(file_field.field_type.fields, file_reader)]  # type: ignore[attr-defined]
        self._unions = {f["field-id"]: isinstance(f["type"], list) for f in header.avro_schema["fields"]}
        _check_null_first(header.avro_schema)

    def entries(self, stream: BinaryIO) -> Iterator[Entry]:
        """Stream the entries, one block in memory at a time."""
        for count, data in self.header.blocks(stream):
            decoder = new_decoder(data)
            for _ in range(count):
                yield self._read(decoder, data)

    def _read(self, decoder: Any, data: bytes) -> Entry:  # noqa: ANN401 - PyIceberg's decoder is compiled or not
        own: dict[int, Any] = {}
        file: dict[int, Any] = {}
        start = end = 0
        first_row_id_at = None
        for field_id, reader in self._fields:
            if field_id != DATA_FILE:
                own[field_id] = reader.read(decoder)
                continue
            start = decoder.tell()
            for inner_id, inner, wanted in self._file:
                before = decoder.tell() if inner_id == FIRST_ROW_ID else 0
                if wanted:
                    file[inner_id] = inner.read(decoder)
                else:
                    inner.skip(decoder)
                if inner_id == FIRST_ROW_ID:
                    first_row_id_at = (before - start, decoder.tell() - start)
            end = decoder.tell()
        return Entry(
            status=own[STATUS],
            snapshot_id=own.get(SNAPSHOT_ID),
            sequence_number=own.get(SEQUENCE_NUMBER),
            file_sequence_number=own.get(FILE_SEQUENCE_NUMBER),
            file=file,
            raw_file=data[start:end],
            first_row_id_at=first_row_id_at,
        )

    @property
    def has_sequence_numbers(self) -> bool:
        """v1 manifests have none; all their files count as number 0."""
        return SEQUENCE_NUMBER in self._unions

    def encode(self, entry: Entry) -> bytes:
        """Lay an entry out again, with its own fields as they now are and its file's bytes as they were."""
        values = {
            STATUS: entry.status,
            SNAPSHOT_ID: entry.snapshot_id,
            SEQUENCE_NUMBER: entry.sequence_number,
            FILE_SEQUENCE_NUMBER: entry.file_sequence_number,
        }
        parts = [
            entry.raw_file if field_id == DATA_FILE else self._encode_number(field_id, values.get(field_id))
            for field_id, _ in self._fields
        ]
        return b"".join(parts)

    def _encode_number(self, field_id: int, value: int | None) -> bytes:
        if not self._unions[field_id]:
            return encode_long(value or 0)
        return encode_long(0) if value is None else encode_long(1) + encode_long(value)


def with_row_ids(header: Header) -> Header:
    """The header for entries whose files all have a ``first_row_id`` written out."""
    schema = json.loads(header.meta["avro.schema"])
    file_type = next(f["type"] for f in schema["fields"] if f["field-id"] == DATA_FILE)
    if all(f["field-id"] != FIRST_ROW_ID for f in file_type["fields"]):
        file_type["fields"].append(
            {"name": "first_row_id", "type": ["null", "long"], "default": None, "field-id": FIRST_ROW_ID}
        )
    return Header(meta={**header.meta, "avro.schema": json.dumps(schema).encode()}, sync=header.sync)


def with_first_row_id(entry: Entry, value: int) -> bytes:
    """The file's bytes with ``first_row_id`` written out; last, where a manifest from before v3 has no field."""
    if entry.first_row_id_at is None:
        return entry.raw_file + encode_long(1) + encode_long(value)
    start, end = entry.first_row_id_at
    return entry.raw_file[:start] + encode_long(1) + encode_long(value) + entry.raw_file[end:]


def _paired(fields: Any, reader: Reader) -> list[tuple[int, Reader]]:  # noqa: ANN401 - a tuple of NestedField
    if not isinstance(reader, StructReader):
        raise UnsupportedTableError("a manifest's file is no record", remedy="check the storage; it is damaged")
    return [(field.field_id, inner) for field, (_, inner) in zip(fields, reader.field_readers, strict=True)]


def _check_null_first(avro_schema: dict[str, Any]) -> None:
    """Every Iceberg writer puts null first in a union; the bytes written here rely on it."""
    for field in avro_schema["fields"]:
        if isinstance(field["type"], list) and field["type"][0] != "null":
            raise UnsupportedTableError(
                f"a manifest writes field {field['name']!r} in an order that no Iceberg writer uses",
                consequence="Its entries cannot be moved without reading them wrong",
                remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests)",
            )
