"""Copying one file: by the storage itself where it can, else as a stream that is never in memory whole."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyarrow.fs import LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io import FileIO

CHUNK_BYTES: Final = 1024 * 1024
SENT_AT_ONCE: Final = 1 << 30
_CANNOT_SEND: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
"""What mounts answer that leave this call out: shared folders of virtual machines, some of FUSE."""
MEANT_BY_URLS: Final = frozenset("?#;")
"""Where a location has one of them, PyIceberg takes it apart whole: as a URL, which may end before its name does."""


def copy_file(source_io: FileIO, target_io: FileIO, source: str, target: str) -> int:
    """Copy every byte and give their number. Nothing may be at ``target`` yet.

    The storage copies within itself only if one and the same client, credentials included, may read here and write
    there: a catalog can hand out rights table by table.
    """
    here, there = _local_path(source_io, source), _local_path(target_io, target)
    if here is not None and there is not None:
        return copy_local(here, there)
    within = _within_storage(source_io, target_io, source, target)
    if within is not None:
        try:
            return within()
        except Exception:  # noqa: BLE001, S110 - clients of storages raise what they like
            pass  # a right or a call that this storage lacks: the stream below works, or says what is wrong
    return _stream(source_io, target_io, source, target)


def is_local(io: FileIO, path: str) -> bool:
    """Whether a path lies on this machine's file system: there copies wait for the processor, not for answers."""
    return _local_path(io, path) is not None


def _local_path(io: FileIO, path: str) -> str | None:
    if not isinstance(io, PyArrowFileIO):
        return None
    folder, slash, name = path.rpartition("/")
    if not folder.strip(":/") or MEANT_BY_URLS.intersection(path):
        return _local_place(io, path)
    place = _local_folder(io, folder)
    return None if place is None else f"{place}{slash}{name}"


def _local_place(io: PyArrowFileIO, path: str) -> str | None:
    scheme, netloc, bare = io.parse_location(path, io.properties)
    return bare if isinstance(io.fs_by_scheme(scheme, netloc), LocalFileSystem) else None


# Taking a location apart costs as much as giving the file a second name, and a table's manifests share few folders.
_local_folder = lru_cache(maxsize=8)(_local_place)


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
    if not file_system.equals(other):
        return None
    return _copied(lambda: file_system.copy_file(source_path, target_path), target_io, target)


def copy_local(source: str, target: str) -> int:
    """Give a file of this machine a second name, or copy it where that cannot be (docs/decisions/0013)."""
    try:
        return _linked_or_sent(source, target)
    except FileNotFoundError:
        # The source's own absence is said again by this second try.
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        return _linked_or_sent(source, target)


def _linked_or_sent(source: str, target: str) -> int:
    """Both refuse a target that exists: writing into one of two names of a file would change the other."""
    try:
        os.link(source, target)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:  # another device, no such thing as links, not ours to link, too many of them
        return _sent(source, target)
    linked = os.lstat(target)
    if stat.S_ISREG(linked.st_mode) and linked.st_uid == os.geteuid():
        return linked.st_size
    # A symbolic link, which may lose what it points to; or somebody else's file, whose rights are not ours to share.
    os.unlink(target)  # noqa: PTH108 - the new name only
    return _sent(source, target)


def _sent(source: str, target: str) -> int:
    """The kernel copies; no byte comes here."""
    with open(source, "rb", buffering=0) as reading, open(target, "xb", buffering=0) as writing:  # noqa: PTH123 - a path object more for each
        if sys.platform != "linux":  # elsewhere it sends to sockets only
            shutil.copyfileobj(reading, writing, CHUNK_BYTES)
            return writing.tell()
        copied = 0
        try:
            while sent := os.sendfile(writing.fileno(), reading.fileno(), copied, SENT_AT_ONCE):
                copied += sent
        except OSError as error:
            if copied or error.errno not in _CANNOT_SEND:
                raise
            shutil.copyfileobj(reading, writing, CHUNK_BYTES)
            return writing.tell()
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
