"""An object store gets no request that could be avoided, and what it refuses is told or done in another way."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider_ips.core.errors import CatalogError, IpsError
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.icdc.leftovers import delete_leftovers, find_icdc_tables, find_leftovers
from airflow_provider_ips.iceberg.storage.files import CHUNK_BYTES, is_arrow, open_stream
from tests.kit.lakes import files_below
from tests.kit.local_tables import append, new_table, rows
from tests.kit.meddler import DENIED, Meddler, When, meddler
from tests.kit.servers import BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.servers import Storage

pytestmark = pytest.mark.xdist_group("catalogs")

APPENDS = 12
MANIFEST = re.compile(r"/icdc/.*/m\d+\.avro")
LISTING = ("GET", r"list-type=2|[?&]prefix=")
BULK_DELETE = ("POST", r"[?&]delete")


@pytest.fixture
def s3(storage: Storage) -> Iterator[Meddler]:
    """Between the clients and the store."""
    with meddler(storage.endpoint) as proxy:
        yield proxy


@pytest.fixture(params=["pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"])
def catalog(request: pytest.FixtureRequest, s3: Meddler, storage: Storage, tmp_path: Path) -> SqlCatalog:
    """Names in SQLite, files in S3, and a table with a manifest for each of twelve appends."""
    properties = {
        **{name: value for name, value in storage.properties.items() if name != "s3.endpoint"},
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{BUCKET}/{tmp_path.name}",
        "py-io-impl": request.param,
    }
    direct = SqlCatalog("objects", **properties, **{"s3.endpoint": storage.endpoint})
    for namespace in ("db", "icdc"):
        direct.create_namespace(namespace)
    table = new_table(direct, "db.t", location=f"s3://{BUCKET}/{tmp_path.name}/db/t")
    for number in range(APPENDS):
        append(table, number)
    return SqlCatalog("objects", **properties, **{"s3.endpoint": s3.address})


def icdc_files(storage: Storage, tmp_path: Path) -> list[str]:
    return sorted(files_below(storage.properties, f"s3://{BUCKET}/{tmp_path.name}/icdc"))


def test_a_manifest_costs_one_request_and_a_drop_none(catalog: SqlCatalog, s3: Meddler) -> None:
    """No size is looked up file by file, and nothing is deleted file by file."""
    s3.requests.clear()
    capture(catalog, "db.t", into="icdc.x")
    copied = Counter(path.partition("?")[0] for _, path in s3.requests if MANIFEST.search(path))
    assert len(copied) == APPENDS
    assert set(copied.values()) == {1}
    assert rows(catalog, "icdc.x") == list(range(APPENDS))
    s3.requests.clear()
    assert drop_icdc(catalog, "icdc.x")
    assert len(s3.requests) < APPENDS
    assert not [path for _, path in s3.requests if MANIFEST.search(path)]


def test_a_drop_leaves_nothing_but_the_files_of_others(catalog: SqlCatalog, storage: Storage, tmp_path: Path) -> None:
    """Nor does it touch the source."""
    capture(catalog, "db.t", into="icdc.x")
    other = f"s3://{BUCKET}/{tmp_path.name}/icdc/x/metadata/of-somebody-else.txt"
    with catalog.load_table("db.t").io.new_output(other).create() as stream:
        stream.write(b"mine")
    assert drop_icdc(catalog, "icdc.x")
    assert icdc_files(storage, tmp_path) == [other.removeprefix("s3://")]
    assert rows(catalog, "db.t") == list(range(APPENDS))


def test_who_may_not_list_captures_and_drops_file_by_file(
    catalog: SqlCatalog, s3: Meddler, storage: Storage, tmp_path: Path
) -> None:
    """The right to list is one of its own on S3."""
    with s3.meddling(*LISTING, When.NEVER, status=403, body=DENIED):
        capture(catalog, "db.t", into="icdc.x")
        assert rows(catalog, "icdc.x") == list(range(APPENDS))
        assert drop_icdc(catalog, "icdc.x")
    assert icdc_files(storage, tmp_path) == []


def test_files_that_may_not_be_deleted_are_told_and_found_again(
    catalog: SqlCatalog, s3: Meddler, storage: Storage, tmp_path: Path
) -> None:
    """The table is dropped by then; its files are leftovers that gc deletes once it may."""
    capture(catalog, "db.t", into="icdc.db_t_" + "a" * 20)
    with (
        s3.meddling(*BULK_DELETE, When.NEVER, status=403, body=DENIED),
        s3.meddling("DELETE", "/icdc/", When.NEVER, status=403, body=DENIED),
        pytest.raises(CatalogError, match="dropping"),
    ):
        drop_icdc(catalog, "icdc.db_t_" + "a" * 20)
    assert len(icdc_files(storage, tmp_path)) == APPENDS + 2
    delete_leftovers(catalog, list(find_leftovers(catalog, "icdc", find_icdc_tables(catalog, "icdc"))))
    assert icdc_files(storage, tmp_path) == []


def test_a_manifest_that_was_cut_off_is_noticed_though_the_store_copied_it(
    catalog: SqlCatalog, storage: Storage, tmp_path: Path
) -> None:
    """The copy is as short as the manifest, and would lack files."""
    snapshot = catalog.load_table("db.t").current_snapshot()
    assert snapshot is not None
    path = snapshot.manifests(catalog.load_table("db.t").io)[3].manifest_path
    on_disk = storage.folder / path.removeprefix("s3://")
    on_disk.write_bytes(on_disk.read_bytes()[:-40])
    with pytest.raises(IpsError, match="bytes"):
        capture(catalog, "db.t", into="icdc.x")
    assert not catalog.table_exists("icdc.x")
    assert icdc_files(storage, tmp_path) == []


def test_a_metadata_file_of_any_size_is_read_by_one_request_of_s3fs(catalog: SqlCatalog, s3: Meddler) -> None:
    """Which keeps it in memory. pyarrow streams it, after a request for its size."""
    table = catalog.load_table("db.t")
    for size in (1000, 3 * CHUNK_BYTES):
        path, content = f"{table.location()}/metadata/{size}", os.urandom(size)
        with table.io.new_output(path).create() as stream:
            stream.write(content)
        s3.requests.clear()
        with open_stream(table.io, path) as read:
            assert (read.read(10), read.read()) == (content[:10], content[10:])
        assert is_arrow(table.io) or [method for method, _ in s3.requests] == ["GET"]
