"""A manifest list of which only what is asked for is decoded: one snapshot's manifests among ten thousand."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.manifest import ManifestContent, ManifestFile, PartitionFieldSummary

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
_NULL: Final = b"\x00"
_PRESENT: Final = b"\x02"


class ManifestList:
    """The records of one list. They are walked once, and decoded one by one when they are asked for."""

    def __init__(self, io: FileIO, path: str) -> None:
        self._records: list[bytes | ManifestFile] = []
        self._added_by: dict[bytes, list[int]] = {}
        with open_stream(io.new_input(path)) as stream:
            header = Header.read(stream)
            self._schema = header.meta["avro.schema"]
            self._optional = _is_optional(header)
            for count, data in header.blocks(stream):
                self._index(count, data)

    def _index(self, count: int, data: bytes) -> None:
        records, added_by = self._records, self._added_by
        for start, end, (added_snapshot_id,) in _walker(self._schema).walk(count, data):
            places = added_by.get(added_snapshot_id)
            if places is None:
                added_by[added_snapshot_id] = [len(records)]
            else:
                places.append(len(records))
            records.append(data[start:end])

    def all(self) -> list[ManifestFile]:
        """Every manifest, as it is listed."""
        return [self._decoded(place) for place in range(len(self._records))]

    def written_by(self, snapshot_ids: Collection[int]) -> list[ManifestFile]:
        """The manifests that any of the snapshots wrote, and those of which the list does not say who did."""
        prefix = _PRESENT if self._optional else b""
        raw = (prefix + encode_long(snapshot_id) for snapshot_id in snapshot_ids)
        keys = {*raw, _NULL} if self._optional else set(raw)
        places = (place for key in keys for place in self._added_by.get(key, ()))
        return [self._decoded(place) for place in sorted(places)]

    def _decoded(self, place: int) -> ManifestFile:
        record = self._records[place]
        if isinstance(record, bytes):
            record = self._records[place] = cast("ManifestFile", _reader(self._schema).read(new_decoder(record)))
        return record


def _is_optional(header: Header) -> bool:
    (field,) = (f for f in header.avro_schema["fields"] if f["field-id"] == ADDED_SNAPSHOT_ID)
    return isinstance(field["type"], list)


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
