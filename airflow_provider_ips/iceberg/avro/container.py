"""How an Avro container is laid out: its header, its blocks of records, and how a record is encoded.

PyIceberg reads whole containers and returns decoded records. Metadata that is moved without being understood needs the
raw bytes of a record's fields instead, in constant memory.

    container = MAGIC, header (schema, codec, …), marker, then blocks
    block     = number of records, size in bytes, the records (compressed), marker
"""

from __future__ import annotations

import bz2
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from airflow_provider_ips.core.errors import UnsupportedTableError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    Encode = Callable[[Any], bytes]


MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
BLOCK_BYTES: Final = 64 * 1024
DEFLATE_LEVEL: Final = 1
PIECE_BYTES: Final = 1024 * 1024
SMALL_FILE_BYTES: Final = 256 * 1024 * 1024
MAX_RATIO: Final = 32
"""How much larger than the file its records may be. Entries have random paths, which no codec makes smaller."""
MAX_SHIFT: Final = 63
_CONTINUES: Final = 0x80


@lru_cache(maxsize=4096)
def encode_long(value: int) -> bytes:
    """Zig-zag, then seven bits a byte, lowest first. Cached, because metadata repeats its counts, lengths and ids."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest & ~0x7F:
        out.append((rest & 0x7F) | _CONTINUES)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_long(stream: BinaryIO) -> int | None:
    """Read one number; return None at the end of the stream."""
    shift = result = 0
    while byte := stream.read(1):
        result |= (byte[0] & 0x7F) << shift
        shift += 7
        if not byte[0] & _CONTINUES:
            return (result >> 1) ^ -(result & 1)
        if shift > MAX_SHIFT:
            raise damaged()
    if shift:
        raise damaged()
    return None


def _read_counted(stream: BinaryIO) -> bytes:
    """Read a length, then so many bytes: piece by piece, because the length may be of any size."""
    length = _read_long(stream)
    if length is None or length < 0:
        raise damaged()
    return _read_exactly(stream, length)


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    if count <= PIECE_BYTES:
        data = stream.read(count)
    else:
        pieces = [stream.read(PIECE_BYTES)]
        while pieces[-1] and (missing := count - sum(map(len, pieces))) > 0:
            pieces.append(stream.read(min(PIECE_BYTES, missing)))
        data = b"".join(pieces)
    if len(data) != count:
        raise damaged()
    return data


def damaged() -> UnsupportedTableError:
    """The error for bytes that no writer can have written."""
    return UnsupportedTableError(
        "a metadata file ends in the middle of a record",
        consequence="It is not known which files it lists",
        remedy="check the storage: the file was cut off, or is still being written",
    )


@dataclass(frozen=True)
class Header:
    """The container's metadata, and the marker that ends the header and each block."""

    meta: dict[str, bytes]
    sync: bytes

    @classmethod
    def read(cls, stream: BinaryIO) -> Self:
        """Read the header from the start of a stream, and leave the stream at the first block."""
        if stream.read(len(MAGIC)) != MAGIC:
            raise UnsupportedTableError(
                "a metadata file is not an Avro container",
                consequence="It is not known which files it lists",
                remedy="check the storage: the file was overwritten or damaged",
            )
        meta: dict[str, bytes] = {}
        while count := _read_long(stream):
            if count < 0:
                _read_long(stream)
            for _ in range(abs(count)):
                key = _read_counted(stream).decode()
                meta[key] = _read_counted(stream)
        return cls(meta=meta, sync=_read_exactly(stream, SYNC_BYTES))

    def to_bytes(self) -> bytes:
        """The header as it is written at the start of a file."""
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
        """PyIceberg's codec for the blocks; None if they are not compressed."""
        name = self.meta.get("avro.codec", b"null").decode()
        if name not in KNOWN_CODECS:
            raise UnsupportedTableError(
                f"a metadata file is compressed with {name!r}",
                consequence="The files that it lists cannot be read",
                remedy=f"rewrite the table's manifests with one of {sorted(KNOWN_CODECS)}",
            )
        return KNOWN_CODECS[name]

    def blocks(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield the number of records and the decompressed bytes of each block."""
        file_bytes = data_bytes = 0
        for count, packed in self.packed_blocks(stream):
            data = self.unpack(packed)
            file_bytes, data_bytes = file_bytes + len(packed), data_bytes + len(data)
            if data_bytes > _most_unpacked(file_bytes):
                raise damaged()
            yield count, data

    def packed_blocks(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield the number of records and the bytes of each block as they are in the file."""
        sync = self.sync
        while (count := _read_long(stream)) is not None:
            size = _read_long(stream)
            if size is None or size < 0 or count < 0:
                raise damaged()
            data = _read_exactly(stream, size + SYNC_BYTES)
            if not data.endswith(sync):
                raise damaged()
            yield count, data[:size]

    def unpack(self, packed: bytes) -> bytes:
        """Decompress a block."""
        if self.codec is None:
            return packed
        most = _most_unpacked(len(packed))
        try:
            unpacked = _unpacked(self.codec, packed, most + 1)
        except Exception as error:  # each codec raises errors of its own
            raise damaged() from error
        if len(unpacked) > most:
            raise damaged()
        return unpacked

    def pack(self, data: bytes) -> bytes:
        """Compress a block. Deflate uses its fastest level: half of zlib's usual time for five percent more bytes."""
        if self.codec is None:
            return data
        if self.codec is DeflateCodec:
            return zlib.compress(data, DEFLATE_LEVEL, wbits=-zlib.MAX_WBITS)
        packed: bytes = self.codec.compress(data)[0]
        return packed


def _most_unpacked(packed_bytes: int) -> int:
    """The most bytes that a block, or all blocks of a file, may have when decompressed."""
    return max(SMALL_FILE_BYTES, MAX_RATIO * packed_bytes)


def _unpacked(codec: Any, packed: bytes, most: int) -> bytes:  # noqa: ANN401 - PyIceberg's codecs share no public type
    """Decompress, and stop at ``most`` bytes with what can be larger than that: few bytes can stand for gigabytes."""
    if codec is DeflateCodec:
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(packed, most)
    if codec is KNOWN_CODECS["zstandard"]:
        from zstandard import ZstdDecompressor

        with ZstdDecompressor().stream_reader(packed) as reader:
            return bytes(reader.read(most))
    if codec is KNOWN_CODECS["bzip2"]:
        return bz2.BZ2Decompressor().decompress(packed, most)
    unpacked: bytes = codec.decompress(packed)  # snappy writes at most twenty bytes for one
    return unpacked


class BlockWriter:
    """Writes encoded records in blocks of bounded size."""

    def __init__(self, stream: Any, header: Header) -> None:  # noqa: ANN401 - PyIceberg's OutputStream is a Protocol without a name here
        self._stream = stream
        self._header = header
        self._pending = io.BytesIO()
        self._count = 0
        self.length = 0
        self._write(header.to_bytes())

    def add(self, records: bytes, count: int = 1) -> None:
        """Append one or more encoded records that follow each other."""
        self._pending.write(records)
        self._count += count
        if self._pending.tell() >= BLOCK_BYTES:
            self.flush()

    def add_packed(self, packed: bytes, count: int) -> None:
        """Append a compressed block as it is, from a file with the same schema and codec."""
        self.flush()
        self._write_block(packed, count)

    def flush(self) -> None:
        """Write the block that is being filled."""
        if self._count:
            self._write_block(self._header.pack(self._pending.getvalue()), self._count)
            self._pending, self._count = io.BytesIO(), 0

    def _write_block(self, packed: bytes, count: int) -> None:
        self._write(b"".join((encode_long(count), encode_long(len(packed)), packed, self._header.sync)))

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self.length += len(data)


def _encoder(field_type: IcebergType) -> Encode:
    """Return the function that encodes a value of one of the types in Iceberg's metadata files."""
    if isinstance(field_type, IntegerType | LongType):
        return encode_long
    if isinstance(field_type, StringType):
        return lambda value: _with_length(value.encode())
    if isinstance(field_type, BinaryType):
        return _with_length
    if isinstance(field_type, BooleanType):
        return lambda value: b"\x01" if value else b"\x00"
    if isinstance(field_type, ListType):
        return _list_encoder(_encoder(field_type.element_type))
    if isinstance(field_type, StructType):
        return struct_encoder(list(enumerate(field_type.fields)))
    raise TypeError(f"{field_type} is not in any metadata file that is written here")


def struct_encoder(fields: Sequence[tuple[int, NestedField]]) -> Encode:
    """Return the function that encodes a record, given each field with its index in the record."""
    encoders = [(index, _field_encoder(field)) for index, field in fields]
    return lambda record: b"".join([encode(record[index]) for index, encode in encoders])


def _field_encoder(field: NestedField) -> Encode:
    encode = _encoder(field.field_type)
    if field.required:
        return encode
    return lambda value: b"\x00" if value is None else b"\x02" + encode(value)


def _list_encoder(item: Encode) -> Encode:
    def encode(values: Sequence[Any]) -> bytes:
        if not values:
            return b"\x00"
        return b"".join((encode_long(len(values)), *(item(value) for value in values), b"\x00"))

    return encode


def _with_length(value: bytes) -> bytes:
    return encode_long(len(value)) + value
