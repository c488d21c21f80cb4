"""S3 copies within itself, unless the keys for the copy may not read the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from airflow_provider_ips.iceberg.storage.files import copy_file
from tests.kit.servers import BUCKET

if TYPE_CHECKING:
    from pyiceberg.io import InputStream

    from tests.kit.servers import Storage

pytestmark = pytest.mark.xdist_group("catalogs")

BYTES = b"manifest" * 500_000
SOURCE = f"s3://{BUCKET}/copies/source.avro"


class UnreadFile(PyArrowFile):
    """Hands nothing out."""

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's own
        """Refuse."""
        raise AssertionError(f"{self.location} was opened, seekable: {seekable}")


class UnreadIO(PyArrowFileIO):
    """A storage whose files are never opened."""

    def new_input(self, location: str) -> UnreadFile:
        """A file whose size may be read."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        return UnreadFile(location, path, self.fs_by_scheme(scheme, netloc))


@pytest.fixture
def properties(storage: Storage) -> dict[str, str]:
    """Access, and something to copy."""
    with PyArrowFileIO(storage.properties).new_output(SOURCE).create(overwrite=True) as stream:
        stream.write(BYTES)
    return storage.properties


def test_s3_copies_within_itself(properties: dict[str, str]) -> None:
    """Two clients with the same keys: no byte passes through this process."""
    target = f"s3://{BUCKET}/copies/target.avro"
    assert copy_file(UnreadIO(properties), UnreadIO(properties), SOURCE, target) is None
    with PyArrowFileIO(properties).new_input(target).open() as stream:
        assert stream.read() == BYTES


def test_other_keys_make_the_bytes_pass_through_here(properties: dict[str, str]) -> None:
    """Keys that a catalog hands out for one table may not read the other's files."""
    others = properties | {"s3.session-token": "handed-out-for-one-table"}
    target = f"s3://{BUCKET}/copies/other.avro"
    with pytest.raises(AssertionError, match="was opened"):
        copy_file(UnreadIO(properties), PyArrowFileIO(others), SOURCE, target)
    assert copy_file(PyArrowFileIO(properties), PyArrowFileIO(others), SOURCE, target) == len(BYTES)
