"""A manifest list of which only what is asked for is decoded: one snapshot's manifests among ten thousand."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.manifest import ManifestContent, ManifestFile, PartitionFieldSummary

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.avro import Header, encode_long
from airflow_provider_ips.iceberg.manifest_lists import READ_SCHEMA
from airflow_provider_ips.iceberg.streams import open_stream
from airflow_provider_ips.iceberg.walking import Part, Walker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import StructProtocol

MANIFEST_PATH: Final = 500
ADDED_SNAPSHOT_ID: Final = 503
FEW: Final = 16
"""So many writers are looked for in a block's bytes before it is walked, for bytes are searched faster than walked."""
_NULL: Final = b"\x00"
_PRESENT: Final = b"\x02"


class ManifestList:
    """The manifests of one list, walked block by block and decoded one by one, when they are asked for."""

    def __init__(self, io: FileIO, path: str) -> None:
        with open_stream(io.new_input(path)) as stream:
            header = Header.read(stream)
            self._schema = header.meta["avro.schema"]
            self._optional = _is_optional(header)
            self._blocks = [_Block(self._schema, count, data) for count, data in header.blocks(stream)]

    def all(self) -> list[ManifestFile]:
        """Every manifest, as it is listed."""
        return [block.decoded(place) for block in self._blocks for place in range(block.count)]

    def written_by(self, snapshot_ids: Collection[int]) -> list[ManifestFile]:
        """The manifests that any of the snapshots wrote, and those of which the list does not say who did."""
        prefix = _PRESENT if self._optional else b""
        keys = {prefix + encode_long(snapshot_id) for snapshot_id in snapshot_ids}
        blocks = self._blocks
        if self._optional:
            keys.add(_NULL)
        elif len(keys) <= FEW:
            blocks = [block for block in blocks if block.may_hold(keys)]
        return [block.decoded(place) for block in blocks for place in block.places(keys)]


class _Block:
    """Some of a list's records: as bytes, and those that were asked for decoded."""

    def __init__(self, schema: bytes, count: int, data: bytes) -> None:
        self.count = count
        self._schema = schema
        self._data = data
        self._writers: list[bytes] = []
        self._records: list[bytes | ManifestFile] = []

    def may_hold(self, keys: Collection[bytes]) -> bool:
        """Whether the bytes of any of the writers' ids are anywhere in the block: if not, no record has them."""
        return any(key in self._data for key in keys)

    def places(self, keys: Collection[bytes]) -> list[int]:
        """Where the records of some writers are."""
        self._walk()
        return [place for place, writer in enumerate(self._writers) if writer in keys]

    def decoded(self, place: int) -> ManifestFile:
        """One manifest; the same at every call."""
        self._walk()
        record = self._records[place]
        if isinstance(record, bytes):
            record = self._records[place] = cast("ManifestFile", _reader(self._schema).read(new_decoder(record)))
        return record

    def _walk(self) -> None:
        if self._records or not self.count:
            return
        for start, end, (writer,) in _walker(self._schema).walk(self.count, self._data):
            self._writers.append(writer)
            self._records.append(self._data[start:end])


def _is_optional(header: Header) -> bool:
    (field,) = (f for f in header.avro_schema["fields"] if f["field-id"] == ADDED_SNAPSHOT_ID)
    if not isinstance(field["type"], list):
        return False
    if field["type"][0] != "null":
        raise UnsupportedTableError(
            f"a manifest list writes {field['name']!r} in an order that no Iceberg writer uses",
            consequence="Who wrote its manifests would be misread, and their files left out",
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
    types: dict[int, Callable[..., StructProtocol]] = {-1: ManifestFile, 508: PartitionFieldSummary}
    return resolve_reader(written, READ_SCHEMA, types, {517: ManifestContent})
