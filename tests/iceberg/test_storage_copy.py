"""A file is copied by the storage itself where that is possible, and is never in memory as a whole."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyarrow.fs import LocalFileSystem as ArrowsLocalFileSystem
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_provider_ips.iceberg.storage.files import CHUNK_BYTES, copy_file, write_small_files_at_once

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import FileIO

BYTES = b"manifest" * 1000
S3 = {"s3.region": "eu-west-1", "s3.access-key-id": "one", "s3.secret-access-key": "secret"}


class Unreadable(LocalFileSystem):  # type: ignore[misc]
    """A storage that copies within itself and hands nothing out."""

    def open(self, path: str, mode: str = "rb", **_options: Any) -> Any:
        """Refuse."""
        raise AssertionError(f"{path} was opened as {mode}")


class RefusedError(Exception):
    """As a storage's own client raises, unknown to anybody else."""


class NoCopies(LocalFileSystem):  # type: ignore[misc]
    """A storage that only reads and writes."""

    def cp_file(self, path1: str, path2: str, **_options: Any) -> None:
        """Refuse."""
        raise RefusedError(f"{path1} to {path2}")


def with_fsspec(file_system: LocalFileSystem) -> FsspecFileIO:
    """PyIceberg's access by fsspec."""
    io = FsspecFileIO({})
    io._scheme_to_fs["file"] = lambda _properties: file_system
    return io


def with_arrow(file_system: LocalFileSystem) -> PyArrowFileIO:
    """PyIceberg's access by pyarrow, over the same."""
    io = PyArrowFileIO()
    io.fs_by_scheme = lambda _scheme, _netloc: PyFileSystem(FSSpecHandler(file_system))
    return io


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file to copy."""
    (tmp_path / "source").write_bytes(BYTES)
    return tmp_path / "source"


@pytest.mark.parametrize("io", [with_fsspec(Unreadable(auto_mkdir=True)), with_arrow(Unreadable(auto_mkdir=True))])
def test_the_storage_copies_within_itself(source: Path, tmp_path: Path, io: FileIO) -> None:
    """No byte passes through this process, so nobody has counted them here."""
    assert copy_file(io, io, f"file://{source}", f"file://{tmp_path}/target") is None
    assert (tmp_path / "target").read_bytes() == BYTES


@pytest.mark.parametrize("access", [with_fsspec, with_arrow])
def test_other_credentials_may_not_read_what_these_may_write(source: Path, tmp_path: Path, access: Any) -> None:
    """The rights of one client are no rights of the other, so the bytes pass through this process."""
    here, there = access(LocalFileSystem(auto_mkdir=True)), access(Unreadable(auto_mkdir=True, user="other"))
    with pytest.raises(AssertionError, match="opened as wb"):
        copy_file(here, there, f"file://{source}", f"file://{tmp_path}/target")
    there = access(LocalFileSystem(auto_mkdir=True, user="other"))
    assert copy_file(here, there, f"file://{source}", f"file://{tmp_path}/target") == len(BYTES)
    assert (tmp_path / "target").read_bytes() == BYTES


@pytest.mark.parametrize("access", [with_fsspec, with_arrow])
def test_a_storage_that_cannot_copy_is_read_and_written(source: Path, tmp_path: Path, access: Any) -> None:
    """Servers that speak a protocol in part are common."""
    io = access(NoCopies(auto_mkdir=True))
    assert copy_file(io, io, f"file://{source}", f"file://{tmp_path}/target") == len(BYTES)
    assert (tmp_path / "target").read_bytes() == BYTES


@pytest.mark.parametrize(("other", "same"), [(S3, True), (S3 | {"s3.access-key-id": "two"}, False)])
def test_clients_of_an_object_store_are_told_apart_by_their_credentials(other: dict[str, str], *, same: bool) -> None:
    """A catalog that hands out credentials table by table gives each its own."""
    one, two = (PyArrowFileIO(properties).fs_by_scheme("s3", "bucket") for properties in (S3, other))
    assert one.equals(two) is same


def test_small_files_are_written_to_s3_by_one_request() -> None:
    """The client stays the one that PyIceberg opened but for that, and copies for the source's."""
    clients = [write_small_files_at_once(io).fs_by_scheme("s3", "bucket") for io in map(PyArrowFileIO, (S3, S3))]  # type: ignore[attr-defined]
    options, as_opened = (
        system.__reduce__()[1][0] for system in (clients[0], PyArrowFileIO(S3).fs_by_scheme("s3", "b"))
    )
    assert options == as_opened | {"allow_delayed_open": True}
    assert clients[0].equals(clients[1])


def test_other_files_are_written_as_pyiceberg_does() -> None:
    """Local disks know no requests, and fsspec writes a small file by one anyway."""
    assert isinstance(write_small_files_at_once(PyArrowFileIO()).fs_by_scheme("file", ""), ArrowsLocalFileSystem)  # type: ignore[attr-defined]
    other = FsspecFileIO({})
    assert write_small_files_at_once(other) is other


def test_a_local_file_is_copied_to_a_folder_that_does_not_exist_yet(source: Path, tmp_path: Path) -> None:
    """The copy is a file of its own: what happens to one does not reach the other."""
    io = PyArrowFileIO()
    assert copy_file(io, io, f"file://{source}", f"file://{tmp_path}/new/target") == len(BYTES)
    target = tmp_path / "new" / "target"
    assert not target.samefile(source)
    source.unlink()
    assert target.read_bytes() == BYTES


@pytest.mark.parametrize("spelled", ["file://{}", "file:{}", "{}"])
@pytest.mark.parametrize("folder", ["a b", "a%20b", "ä", "a#b", "a;b", "a?b"])
def test_files_of_one_folder_are_found_however_it_is_spelled(tmp_path: Path, folder: str, spelled: str) -> None:
    """The file that is copied is the one that PyIceberg itself would open."""
    home = tmp_path / folder
    home.mkdir()
    for name in ("one", "two"):
        (home / name).write_bytes(name.encode())
    io = PyArrowFileIO()
    for name in ("one", "two"):
        location = spelled.format(home / name)
        if io.new_input(location).exists():
            copy_file(io, io, location, spelled.format(tmp_path / f"{name}-copied"))
            assert (tmp_path / f"{name}-copied").read_bytes() == name.encode()
        else:
            with pytest.raises(FileNotFoundError):
                copy_file(io, io, location, spelled.format(tmp_path / f"{name}-copied"))


def test_a_target_that_is_there_is_refused_and_the_source_stays_whole(source: Path, tmp_path: Path) -> None:
    """Writing to a second name of the source would cut off the source itself."""
    io, target = PyArrowFileIO(), tmp_path / "target"
    target.hardlink_to(source)
    with pytest.raises(FileExistsError):
        copy_file(io, io, f"file://{source}", f"file://{target}")
    assert source.read_bytes() == BYTES


def test_a_symbolic_link_is_followed(source: Path, tmp_path: Path) -> None:
    """A copy of the link would lead nowhere once the file is deleted."""
    (tmp_path / "link").symlink_to(source)
    io = PyArrowFileIO()
    assert copy_file(io, io, f"file://{tmp_path}/link", f"file://{tmp_path}/target") == len(BYTES)
    source.unlink()
    assert (tmp_path / "target").read_bytes() == BYTES


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    """The error is that of reading it."""
    io = PyArrowFileIO()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        copy_file(io, io, f"file://{tmp_path}/nowhere", f"file://{tmp_path}/target")


@pytest.mark.parametrize("target_io", [PyArrowFileIO(), FsspecFileIO({})])
def test_memory_stays_as_it_is_whatever_the_size(tmp_path: Path, target_io: FileIO) -> None:
    """Neither the local copy nor the stream between two storages holds the whole file."""
    size = 40 * CHUNK_BYTES
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    source_io = PyArrowFileIO()
    tracemalloc.start()
    try:
        assert copy_file(source_io, target_io, f"file://{tmp_path}/large", f"file://{tmp_path}/new/target") == size
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * CHUNK_BYTES
    assert (tmp_path / "new" / "target").stat().st_size == size
