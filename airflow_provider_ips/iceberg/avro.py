"""Avro containers, block by block.

PyIceberg reads a container whole and gives decoded records. Moving metadata without understanding it needs the raw
bytes of a record's fields, in constant memory, so the container is walked here.
"""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from airflow_provider_ips.core.errors import UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.schema import Schema

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
BLOCK_BYTES: Final = 64 * 1024
DEFLATE_LEVEL: Final = 1
_CONTINUES: Final = 0x80


@lru_cache(maxsize=4096)
def encode_long(value: int) -> bytes:
    """Zig-zag, then seven bits a byte, lowest first. Remembered: metadata repeats its counts, lengths and ids."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest & ~0x7F:
        out.append((rest & 0x7F) | _CONTINUES)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_long(stream: BinaryIO) -> int | None:
    """Read one number; None at the end of the stream."""
    shift = result = 0
    while True:
        byte = stream.read(1)
        if not byte:
            if shift:
                raise damaged()
            return None
        result |= (byte[0] & 0x7F) << shift
        if not byte[0] & _CONTINUES:
            return (result >> 1) ^ -(result & 1)
        shift += 7


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise damaged()
    return data


def damaged() -> UnsupportedTableError:
    """The error for bytes that cannot be what a writer wrote."""
    return UnsupportedTableError(
        "a metadata file ends in the middle of a record",
        consequence="The files that it lists cannot be told",
        remedy="check the storage; the file was cut off or is still being written",
    )


@dataclass(frozen=True)
class Header:
    """The container's metadata and the marker between its blocks."""

    meta: dict[str, bytes]
    sync: bytes

    @classmethod
    def read(cls, stream: BinaryIO) -> Self:
        """Read from the start of a stream."""
        if stream.read(len(MAGIC)) != MAGIC:
            raise UnsupportedTableError(
                "a metadata file is no Avro container",
                consequence="The files that it lists cannot be told",
                remedy="check the storage; the file was overwritten or damaged",
            )
        meta: dict[str, bytes] = {}
        while count := _read_long(stream):
            if count < 0:
                _read_long(stream)
            for _ in range(abs(count)):
                key = _read_exactly(stream, _read_long(stream) or 0).decode()
                meta[key] = _read_exactly(stream, _read_long(stream) or 0)
        return cls(meta=meta, sync=_read_exactly(stream, SYNC_BYTES))

    def to_bytes(self) -> bytes:
        """As it stands at the start of a file."""
        pairs = b"".join(
            encode_long(len(key.encode())) + key.encode() + encode_long(len(value)) + value
            for key, value in self.meta.items()
        )
        return MAGIC + encode_long(len(self.meta)) + pairs + encode_long(0) + self.sync

    @cached_property
    def avro_schema(self) -> dict[str, Any]:
        """The record's schema, as JSON."""
        parsed: dict[str, Any] = json.loads(self.meta["avro.schema"])
        return parsed

    @cached_property
    def schema(self) -> Schema:
        """The record's schema, with Iceberg's field ids."""
        return AvroSchemaConversion().avro_to_iceberg(self.avro_schema)

    @cached_property
    def codec(self) -> Any:  # noqa: ANN401 - PyIceberg's codecs share no public type
        """What compresses the blocks; None for none."""
        name = self.meta.get("avro.codec", b"null").decode()
        if name not in KNOWN_CODECS:
            raise UnsupportedTableError(
                f"a metadata file is compressed by {name!r}",
                consequence="The files that it lists cannot be read",
                remedy=f"rewrite the table's manifests with one of {sorted(KNOWN_CODECS)}",
            )
        return KNOWN_CODECS[name]

    def blocks(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Give the number of records and the decompressed bytes of each block."""
        for count, packed in self.packed_blocks(stream):
            yield count, self.unpack(packed)

    def packed_blocks(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Give the number of records of each block and its bytes as they stand in the file."""
        sync = self.sync
        while (count := _read_long(stream)) is not None:
            size = _read_long(stream)
            if size is None or size < 0 or count < 0:
                raise damaged()
            data = stream.read(size + SYNC_BYTES)
            if len(data) != size + SYNC_BYTES or not data.endswith(sync):
                raise damaged()
            yield count, data[:size]

    def unpack(self, packed: bytes) -> bytes:
        """Decompress a block."""
        if self.codec is None:
            return packed
        unpacked: bytes = self.codec.decompress(packed)
        return unpacked

    def pack(self, data: bytes) -> bytes:
        """Compress a block; deflate at its fastest, in half of zlib's usual time for a twentieth more bytes."""
        if self.codec is None:
            return data
        if self.codec is DeflateCodec:
            return zlib.compress(data, DEFLATE_LEVEL, wbits=-zlib.MAX_WBITS)
        packed: bytes = self.codec.compress(data)[0]
        return packed


class BlockWriter:
    """Write records that are bytes already, in blocks of bounded size."""

    def __init__(self, stream: Any, header: Header) -> None:  # noqa: ANN401 - PyIceberg's OutputStream is a Protocol without a name here
        self._stream = stream
        self._header = header
        self._pending = io.BytesIO()
        self._count = 0
        self.length = 0
        self._write(header.to_bytes())

    def add(self, records: bytes, count: int = 1) -> None:
        """Append records that lie behind each other."""
        self._pending.write(records)
        self._count += count
        if self._pending.tell() >= BLOCK_BYTES:
            self.flush()

    def add_packed(self, packed: bytes, count: int) -> None:
        """Append a block as it stood in a file of the same schema and codec."""
        self.flush()
        self._write_block(packed, count)

    def flush(self) -> None:
        """Close the block that is being filled."""
        if self._count:
            self._write_block(self._header.pack(self._pending.getvalue()), self._count)
            self._pending, self._count = io.BytesIO(), 0

    def _write_block(self, packed: bytes, count: int) -> None:
        self._write(b"".join((encode_long(count), encode_long(len(packed)), packed, self._header.sync)))

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self.length += len(data)
