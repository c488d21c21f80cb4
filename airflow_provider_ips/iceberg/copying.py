"""Copying one file: by the storage itself where it can, else as a stream that is never in memory whole."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyarrow.fs import LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io import FileIO

CHUNK_BYTES: Final = 1024 * 1024
SENT_AT_ONCE: Final = 1 << 30


def copy_file(source_io: FileIO, target_io: FileIO, source: str, target: str) -> int:
    """Copy every byte and give their number.

    The storage copies within itself only if one and the same client, credentials included, may read here and write
    there: a catalog can hand out rights table by table.
    """
    within = _within_storage(source_io, target_io, source, target)
    if within is not None:
        try:
            return within()
        except Exception:  # noqa: BLE001, S110 - clients of storages raise what they like
            pass  # a right or a call that this storage lacks: the stream below works, or says what is wrong
    return _stream(source_io, target_io, source, target)


def _within_storage(source_io: FileIO, target_io: FileIO, source: str, target: str) -> Callable[[], int] | None:
    if isinstance(source_io, PyArrowFileIO) and isinstance(target_io, PyArrowFileIO):
        return _within_arrow(source_io, target_io, source, target)
    if hasattr(source_io, "get_fs") and hasattr(target_io, "get_fs"):
        # PyIceberg's files know the account that an Azure location belongs to; its file systems are not told otherwise.
        here, there = (io.new_input(path)._fs for io, path in ((source_io, source), (target_io, target)))  # type: ignore[attr-defined] # noqa: SLF001
        return _copied(lambda: here.cp_file(source, target), target_io, target) if here == there else None
    return None


def _copied(copy: Callable[[], object], target_io: FileIO, target: str) -> Callable[[], int]:
    """Copy, then ask the storage how long the copy is."""

    def within() -> int:
        copy()
        return len(target_io.new_input(target))

    return within


def _within_arrow(
    source_io: PyArrowFileIO, target_io: PyArrowFileIO, source: str, target: str
) -> Callable[[], int] | None:
    *here, source_path = source_io.parse_location(source, source_io.properties)
    *there, target_path = target_io.parse_location(target, target_io.properties)
    file_system, other = source_io.fs_by_scheme(*here), target_io.fs_by_scheme(*there)
    if isinstance(file_system, LocalFileSystem) and isinstance(other, LocalFileSystem):
        return lambda: _copy_locally(source_path, target_path)
    if not file_system.equals(other):
        return None
    return _copied(lambda: file_system.copy_file(source_path, target_path), target_io, target)


def _copy_locally(source: str, target: str) -> int:
    """The kernel copies; no byte comes here."""
    try:
        return _sent(source, target)
    except FileNotFoundError:
        # The source's own absence is said again by this second try.
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        return _sent(source, target)


def _sent(source: str, target: str) -> int:
    """As `shutil.copyfile` does it, less what it asks about both files: manifests can be many and small."""
    if sys.platform != "linux":  # elsewhere it sends to sockets only
        shutil.copyfile(source, target)
        return Path(target).stat().st_size
    with open(source, "rb", buffering=0) as reading, open(target, "wb", buffering=0) as writing:  # noqa: PTH123 - a path object more for each
        copied = 0
        while sent := os.sendfile(writing.fileno(), reading.fileno(), copied, SENT_AT_ONCE):
            copied += sent
    return copied


def _stream(source_io: FileIO, target_io: FileIO, source: str, target: str) -> int:
    copied = 0
    with (
        source_io.new_input(source).open(seekable=False) as reading,
        target_io.new_output(target).create(overwrite=True) as writing,
    ):
        while chunk := reading.read(CHUNK_BYTES):
            writing.write(chunk)
            copied += len(chunk)
    return copied
