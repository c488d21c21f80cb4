"""How metadata files are read and copied: as buffered streams, as a whole by s3fs, or by the storage itself."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeGuard

from airflow_provider_ips.iceberg.foreign_errors import parsing

if TYPE_CHECKING:
    from io import FileIO as RawFile

    from pyarrow.fs import FileSystem
    from pyiceberg.io import FileIO, InputFile
    from pyiceberg.io.pyarrow import PyArrowFileIO


CHUNK_BYTES: Final = 1024 * 1024
_RETRIES: Final = "s3.retry-strategy-impl"
_GZIP: Final = b"\x1f\x8b"
_SMALL_TEXT_BYTES: Final = 64 * CHUNK_BYTES
_MAX_RATIO: Final = 32
"""How much larger than the file its text may be, beyond a small size. Paths and ids are random, and hardly shrink."""


@contextmanager
def open_stream(io: FileIO, path: str) -> Iterator[BinaryIO]:
    """Open a metadata file to be read once, from start to end, and name it in errors about what it holds."""
    with parsing(path), _opened(io, path) as stream:
        yield stream


def _opened(io: FileIO, path: str) -> BinaryIO:
    client = fsspec_client(io, path)
    if hasattr(client, "call_s3"):
        # By one request, thanks to the start: otherwise s3fs looks up the size first, also for a stream. That would
        # hardly save memory: it is read in blocks of 50 MB, which few metadata files exceed, or by many requests.
        return BytesIO(client.cat_file(path, start=0))
    return BufferedReader(_RawStream(io.new_input(path)), buffer_size=CHUNK_BYTES)


def read_text(io: FileIO, path: str) -> str:
    """Read a text file, also a compressed one, unless it becomes too large: two megabytes can become four gigabytes."""
    with open_stream(io, path) as stream:
        data = stream.read()
        if data.startswith(_GZIP):
            most = max(_SMALL_TEXT_BYTES, _MAX_RATIO * len(data))
            with gzip.GzipFile(fileobj=BytesIO(data)) as unpacked:
                data = unpacked.read(most + 1)
            if len(data) > most:
                raise ValueError(f"it is larger than {most:,} bytes when decompressed")
        return data.decode()


class _RawStream(RawIOBase):
    """PyIceberg's input stream as BufferedReader takes it."""

    def __init__(self, source: InputFile) -> None:
        self._stream = source.open(seekable=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - typed differently by each version of the stubs
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def copy_file(source_io: FileIO, target_io: FileIO, source: str, target: str) -> int | None:
    """Copy a file. ``target`` must not exist yet. Return its size in bytes, or None where the storage copied by itself.

    The storage copies by itself only if source and target are read and written by one client with one set of
    credentials: a catalog may hand out credentials table by table, and those of one table need not open the other.
    """
    local_source, local_target = _local_path(source_io, source), _local_path(target_io, target)
    if local_source is not None and local_target is not None:
        return _copy_local(local_source, local_target)
    copy_in_storage = _copy_in_storage(source_io, target_io, source, target)
    if copy_in_storage is not None:
        try:
            copy_in_storage()
        except Exception:  # noqa: BLE001, S110 - storage clients raise errors of their own
            pass  # a permission or an operation that is missing: the stream below works, or raises what is wrong
        else:
            return None
    return _copy_as_stream(source_io, target_io, source, target)


def is_local(io: FileIO, path: str) -> bool:
    """Whether a path lies on this machine's file system, where copies wait for the processor, not for a server."""
    return _local_path(io, path) is not None


def is_arrow(io: FileIO) -> TypeGuard[PyArrowFileIO]:
    """Whether pyarrow opens the files. It is not imported for that: a process that uses fsspec need not wait for it."""
    return hasattr(io, "fs_by_scheme")


def write_small_files_at_once(io: FileIO) -> FileIO:
    """Have pyarrow write a file of less than 5 MB to S3 by one request instead of the three of a multipart upload.

    PyIceberg has no property for it. A client is pickled by the options that it was opened with: with one more, the
    same client is opened again. Errors of the storage then come when a file is closed.
    """
    if not is_arrow(io) or _RETRIES in io.properties:  # which are not pickled
        return io
    open_system = io.fs_by_scheme

    @lru_cache
    def opened(scheme: str, netloc: str | None = None) -> FileSystem:
        system = open_system(scheme, netloc)
        if system.type_name != "s3":
            return system
        reopen, (options,) = system.__reduce__()
        return reopen({**options, "allow_delayed_open": True}) if "allow_delayed_open" in options else system

    io.fs_by_scheme = opened
    return io


def allow_at_once(io: FileIO, path: str, requests: int) -> None:
    """Have s3fs open so many connections. Its own ten are a setting that PyIceberg has no property for."""
    client = fsspec_client(io, path)
    if hasattr(client, "call_s3") and client.config_kwargs.get("max_pool_connections", 10) < requests:
        client.config_kwargs["max_pool_connections"] = requests
        client.connect(refresh=True)


def fsspec_client(io: FileIO, path: str) -> Any:  # noqa: ANN401 - fsspec has no types
    """The client that opens a path, where it is one of fsspec's; else None."""
    # Only a file knows the account of an Azure location: get_fs is not given the location.
    return io.new_input(path)._fs if hasattr(io, "get_fs") else None  # type: ignore[attr-defined] # noqa: SLF001


def _local_path(io: FileIO, path: str) -> str | None:
    if not is_arrow(io):
        return None
    scheme, netloc, local_path = io.parse_location(path, io.properties)
    return local_path if io.fs_by_scheme(scheme, netloc).type_name == "local" else None


def _copy_local(source: str, target: str) -> int:
    with open(source, "rb", buffering=0) as reading, _new_local_file(target) as writing:  # noqa: PTH123 - thousands of files, without a Path for each
        shutil.copyfileobj(reading, writing, CHUNK_BYTES)
        return writing.tell()


def _new_local_file(path: str) -> RawFile:
    """Refuse a file that exists: it may be another name of the source, and writing to it would empty the source."""
    try:
        return open(path, "xb", buffering=0)  # noqa: PTH123 - as above
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return open(path, "xb", buffering=0)  # noqa: PTH123 - as above


def _copy_in_storage(source_io: FileIO, target_io: FileIO, source: str, target: str) -> Callable[[], object] | None:
    """Return the copy that the storage can make by itself; None if source and target have different clients."""
    if is_arrow(source_io) and is_arrow(target_io):
        return _copy_by_arrow(source_io, target_io, source, target)
    source_fs, target_fs = fsspec_client(source_io, source), fsspec_client(target_io, target)
    if source_fs is None or source_fs != target_fs:
        return None
    if hasattr(source_fs, "call_s3"):
        return partial(_copy_in_s3, source_fs, source, target)
    return partial(source_fs.cp_file, source, target)


def _copy_by_arrow(
    source_io: PyArrowFileIO, target_io: PyArrowFileIO, source: str, target: str
) -> Callable[[], object] | None:
    *source_place, source_path = source_io.parse_location(source, source_io.properties)
    *target_place, target_path = target_io.parse_location(target, target_io.properties)
    source_fs, target_fs = source_io.fs_by_scheme(*source_place), target_io.fs_by_scheme(*target_place)
    return partial(source_fs.copy_file, source_path, target_path) if source_fs.equals(target_fs) else None


def _copy_in_s3(system: Any, source: str, target: str) -> None:  # noqa: ANN401 - s3fs has no types
    """Copy by the one request that it takes: ``cp_file`` looks up the size first, for objects of more than 5 GB."""
    (from_bucket, from_key, _), (bucket, key, _) = system.split_path(source), system.split_path(target)
    system.call_s3("copy_object", CopySource={"Bucket": from_bucket, "Key": from_key}, Bucket=bucket, Key=key)


def _copy_as_stream(source_io: FileIO, target_io: FileIO, source: str, target: str) -> int:
    copied = 0
    with (
        source_io.new_input(source).open(seekable=False) as reading,
        target_io.new_output(target).create(overwrite=True) as writing,
    ):
        while chunk := reading.read(CHUNK_BYTES):
            writing.write(chunk)
            copied += len(chunk)
    return copied
