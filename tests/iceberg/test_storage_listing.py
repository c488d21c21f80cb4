"""How old the listing of a folder says that a copied manifest is."""

import os
from pathlib import Path
from time import time

from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_provider_ips.iceberg.storage.files import copy_file
from airflow_provider_ips.iceberg.storage.requests import list_files

YEAR_MS = 365 * 24 * 3_600 * 1000


def test_a_capture_being_made_is_not_an_old_leftover(tmp_path: Path) -> None:
    """A copied manifest has the time of its copying, however old the source's manifest is."""
    old = tmp_path / "source" / "manifest.avro"
    old.parent.mkdir()
    old.write_bytes(b"manifest")
    os.utime(old, (1, 1))
    io = PyArrowFileIO()
    copy_file(io, io, f"file://{old}", f"file://{tmp_path}/icdc/m0.avro")
    (listed,) = list_files(io, f"file://{tmp_path}/icdc")
    assert listed.location == f"file://{tmp_path}/icdc/m0.avro"
    assert listed.changed_at_ms is not None
    assert listed.changed_at_ms > time() * 1000 - YEAR_MS
