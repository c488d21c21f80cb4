"""Metadata files as buffered streams, over whatever the file system gives."""

from __future__ import annotations

from io import BufferedReader
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from airflow_provider_ips.iceberg.copying import CHUNK_BYTES

if TYPE_CHECKING:
    from pyiceberg.io import InputFile


def open_stream(source: InputFile) -> BinaryIO:
    """A buffered stream over whatever the file system gives."""
    return cast("BinaryIO", BufferedReader(cast("Any", _Raw(source)), buffer_size=CHUNK_BYTES))


class _Raw:
    """The few calls that BufferedReader makes, over PyIceberg's input stream."""

    def __init__(self, source: InputFile) -> None:
        self._stream = source.open(seekable=False)
        self.closed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: memoryview) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.closed = True
        self._stream.close()

    def flush(self) -> None:
        """Nothing is ever buffered for writing."""
