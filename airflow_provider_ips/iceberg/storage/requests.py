"""How files are listed and deleted by few requests, and how many of these an object store gets at once.

PyIceberg reads, writes and deletes single files: it cannot list them, nor delete many by one request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.errors import InputError, UnsupportedTableError
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.storage.files import fsspec_client, is_arrow, is_local

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.io.pyarrow import PyArrowFileIO


AT_ONCE: Final = "ips.requests-at-once"
"""A property of the catalog, so in the connection's extra: how many requests its store gets at once."""

AT_ONCE_DEFAULT: Final = 24
"""pyarrow's client of S3 opens 25 connections, and waits for one of them beyond that."""
LOCAL_AT_ONCE: Final = 2
"""Of local files: a third thread only takes the interpreter away from the two that copy."""
_MOST: Final = 256
_KEYS_A_REQUEST: Final = 1_000


def requests_at_once(properties: Mapping[str, Any]) -> int:
    """Read the setting from the properties of a catalog."""
    text = str(properties.get(AT_ONCE, AT_ONCE_DEFAULT))
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= _MOST:
        return int(text)
    raise InputError(
        f"{AT_ONCE} is {text!r} in the properties of the catalog",
        consequence="It is not known how many requests the storage may get at once",
        remedy=f"give a number from 1 to {_MOST} in the connection's extra, or leave it out for {AT_ONCE_DEFAULT}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in a storage. Without a time of change it counts as new."""

    location: str
    size_bytes: int | None
    changed_at_ms: int | None


def list_files(io: FileIO, folder: str) -> list[StoredFile]:
    """List every file below a folder; none if the folder does not exist."""
    with translate_errors(f"listing {folder}"):
        if is_arrow(io):
            return list(_with_pyarrow(io, folder.rstrip("/")))
        if hasattr(io, "get_fs"):
            return list(_with_fsspec(io, folder.rstrip("/")))
    raise UnsupportedTableError(
        f"{type(io).__name__} cannot list {folder}",
        consequence="Files there that no table refers to cannot be found",
        remedy="look through that folder with the storage's own tools",
    )


def _with_pyarrow(io: PyArrowFileIO, folder: str) -> Iterator[StoredFile]:
    from pyarrow.fs import FileSelector, FileType

    scheme, netloc, path = io.parse_location(folder, io.properties)
    system = io.fs_by_scheme(scheme, netloc)
    for info in system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True)):
        if info.type is FileType.File:
            yield StoredFile(
                location=folder + info.path[len(path) :],
                size_bytes=info.size,
                changed_at_ms=int(info.mtime.timestamp() * 1000) if info.mtime else None,
            )


def _with_fsspec(io: FileIO, folder: str) -> Iterator[StoredFile]:
    system = io.get_fs(folder.partition("://")[0] or "file")  # type: ignore[attr-defined]
    root = system._strip_protocol(folder)  # noqa: SLF001 - fsspec has no public method for it
    for path, info in system.find(folder, detail=True).items():
        changed = info.get("LastModified") or info.get("mtime")
        at_ms = changed.timestamp() if hasattr(changed, "timestamp") else changed
        yield StoredFile(
            location=folder + path[len(root) :],
            size_bytes=info.get("size"),
            changed_at_ms=None if at_ms is None else int(float(at_ms) * 1000),
        )


def delete_folder(io: FileIO, folder: str, *, threads: int) -> None:
    """Delete a folder with all that is in it: on an object store by a listing, and a request for each 1,000 files."""
    with translate_errors(f"deleting {folder}"), suppress(FileNotFoundError):
        if is_arrow(io) and not is_local(io, folder):
            scheme, netloc, path = io.parse_location(folder, io.properties)
            io.fs_by_scheme(scheme, netloc).delete_dir(path)
        else:
            delete_files(io, [file.location for file in list_files(io, folder)], threads=threads)


def delete_files(io: FileIO, paths: Sequence[str], *, threads: int) -> None:
    """Delete files; those that are missing are skipped."""
    client = fsspec_client(io, paths[0]) if paths else None
    if hasattr(client, "call_s3"):
        _delete_in_s3(client, paths)
        return

    def delete(path: str) -> None:
        with suppress(FileNotFoundError):  # an earlier clean-up was interrupted after it had deleted this file
            io.delete(path)

    most = 1 if paths and is_local(io, paths[0]) else threads
    with ThreadPoolExecutor(max_workers=most) as pool:
        list(pool.map(delete, paths))


def _delete_in_s3(client: Any, paths: Sequence[str]) -> None:  # noqa: ANN401 - s3fs has no types
    """Delete by as few requests as possible. The client's own ``rm`` does not say which deletions were refused."""
    bucket = client.split_path(paths[0])[0]
    for start in range(0, len(paths), _KEYS_A_REQUEST):
        keys = [{"Key": client.split_path(path)[1]} for path in paths[start : start + _KEYS_A_REQUEST]]
        answer = client.call_s3("delete_objects", Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
        for refused in answer.get("Errors", ()):
            raise PermissionError(f"{refused.get('Key')} was not deleted: {refused.get('Code')}")
    client.invalidate_cache()
