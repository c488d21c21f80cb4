"""Which files are below a folder of a storage: PyIceberg reads and writes files, but cannot list them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.storage.files import is_arrow

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.io.pyarrow import PyArrowFileIO


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
