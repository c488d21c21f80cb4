"""What lies in a folder of a storage. PyIceberg reads and writes files, and cannot list them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.faults import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file. Without a time it counts as new."""

    location: str
    size_bytes: int | None
    changed_at_ms: int | None


def list_files(io: FileIO, folder: str) -> list[StoredFile]:
    """Everything below a folder; nothing if it does not exist."""
    with mapped(f"listing {folder}"):
        if hasattr(io, "fs_by_scheme"):
            return list(_with_pyarrow(io, folder.rstrip("/")))
        if hasattr(io, "get_fs"):
            return list(_with_fsspec(io, folder.rstrip("/")))
    raise UnsupportedTableError(
        f"{type(io).__name__} cannot list {folder}",
        consequence="Files that no table names cannot be found there",
        remedy="look through that folder with the tools of its storage",
    )


def _with_pyarrow(io: FileIO, folder: str) -> Iterator[StoredFile]:
    from pyarrow.fs import FileSelector, FileType, LocalFileSystem

    scheme, netloc, path = io.parse_location(folder, io.properties)  # type: ignore[attr-defined]
    system = io.fs_by_scheme(scheme, netloc)  # type: ignore[attr-defined]
    for info in system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True)):
        if info.type is FileType.File:
            changed = info.mtime.timestamp() if info.mtime else None
            if isinstance(system, LocalFileSystem):
                changed = _named_at(info.path)
            yield StoredFile(
                location=folder + info.path[len(path) :],
                size_bytes=info.size,
                changed_at_ms=None if changed is None else int(changed * 1000),
            )


def _named_at(path: str) -> float | None:
    """Since when a local file has at least had this name.

    A capture gives the source's manifests a second name, and with it they keep the time of their last write. Its age is
    that of a file of the source, which may be years; the inode's own change is when the name came, or later.
    """
    try:
        return os.stat(path).st_ctime  # noqa: PTH116 - called for each of thousands
    except FileNotFoundError:
        return None


def _with_fsspec(io: FileIO, folder: str) -> Iterator[StoredFile]:
    system = io.get_fs(folder.partition("://")[0] or "file")  # type: ignore[attr-defined]
    root = system._strip_protocol(folder)  # noqa: SLF001 - fsspec's own name for it
    for path, info in system.find(folder, detail=True).items():
        changed = info.get("LastModified") or info.get("mtime")
        at_ms = changed.timestamp() if hasattr(changed, "timestamp") else changed
        yield StoredFile(
            location=folder + path[len(root) :],
            size_bytes=info.get("size"),
            changed_at_ms=None if at_ms is None else int(float(at_ms) * 1000),
        )
