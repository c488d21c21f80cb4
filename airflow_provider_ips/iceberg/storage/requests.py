"""How many requests an object store gets at once, and how many files go with one of them when they are deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.storage.files import fsspec_client, is_arrow, is_local
from airflow_provider_ips.iceberg.storage.listing import list_files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


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
    """Delete by as few requests as possible. The client's own ``rm`` does not tell which deletions were refused."""
    bucket = client.split_path(paths[0])[0]
    for start in range(0, len(paths), _KEYS_A_REQUEST):
        keys = [{"Key": client.split_path(path)[1]} for path in paths[start : start + _KEYS_A_REQUEST]]
        answer = client.call_s3("delete_objects", Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
        for refused in answer.get("Errors", ()):
            raise PermissionError(f"{refused.get('Key')} was not deleted: {refused.get('Code')}")
    client.invalidate_cache()
