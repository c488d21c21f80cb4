"""How old a file of a capture is, where capture gave a file of the source a second name."""

import os
from pathlib import Path
from time import time

from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_provider_ips.iceberg.copying import copy_file
from airflow_provider_ips.iceberg.folders import list_files

YEAR_MS = 365 * 24 * 3_600 * 1000


def test_a_capture_being_made_is_no_old_leftover(tmp_path: Path) -> None:
    """Its manifests were written when the source's were, and are as old as their names all the same."""
    old = tmp_path / "source" / "manifest.avro"
    old.parent.mkdir()
    old.write_bytes(b"manifest")
    os.utime(old, (1, 1))
    io = PyArrowFileIO()
    copy_file(io, io, f"file://{old}", f"file://{tmp_path}/icdc/m0.avro")
    assert (tmp_path / "icdc" / "m0.avro").stat().st_mtime == 1, "a link, so this test is about something"
    (listed,) = list_files(io, f"file://{tmp_path}/icdc")
    assert listed.location == f"file://{tmp_path}/icdc/m0.avro"
    assert listed.changed_at_ms is not None
    assert listed.changed_at_ms > time() * 1000 - YEAR_MS
