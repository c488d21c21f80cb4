"""A manifest that is not as long as its list says is refused, whatever reads it and whatever it is read for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.avro.container import BlockWriter, Header
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.local_tables import append, head, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

CHANGES: dict[str, Any] = {"data_operations": ("append", "overwrite", "delete")}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """An empty catalog."""
    return new_catalog(tmp_path)


def manifest_of(table: Table) -> Path:
    """Where the newest manifest is."""
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return Path(urlparse(snapshot.manifests(table.io)[0].manifest_path).path)


def rewrite(path: Path, *, blocks: int, times: int = 1, note: bytes = b"") -> None:
    """Leave the first blocks, each of one entry, so many times: cut off between blocks, no reader notices."""
    with path.open("rb") as stream:
        header = Header.read(stream)
        kept = list(header.blocks(stream))[:blocks]
    with path.open("wb") as stream:
        writer = BlockWriter(stream, replace(header, meta={**header.meta, "note": note} if note else header.meta))
        for count, data in kept * times:
            writer.add(data, count)
            writer.flush()


@pytest.fixture
def four_files(catalog: SqlCatalog) -> Table:
    """One snapshot that added four files, in four partitions, after an earlier one."""
    table = new_table(catalog)
    with table.update_spec() as update:
        update.add_identity("id")
    append(table, 0)
    append(table, 1, 2, 3, 4)
    return table


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(CHANGES, id="changes"),
        pytest.param({"partitions": "id >= 2"}, id="partitions"),
        pytest.param({"range_columns": ("id",)}, id="range columns"),
        pytest.param({"partitions": "id >= 2", "dry_run": True}, id="a dry run of partitions"),
        pytest.param({}, id="appends"),
    ],
)
def test_a_manifest_cut_off_between_two_blocks_is_refused(
    catalog: SqlCatalog, four_files: Table, options: dict[str, Any]
) -> None:
    """It reads as a shorter one, and half of what was appended would be missing."""
    since = four_files.history()[0].snapshot_id
    rewrite(manifest_of(four_files), blocks=2)
    with pytest.raises(UnsupportedTableError, match=r"manifest list says \d+"):
        capture(catalog, "db.t", since=since, into="icdc.x", **options)
    assert not catalog.table_exists("icdc.x")


def test_a_manifest_that_grew_is_refused(catalog: SqlCatalog, four_files: Table) -> None:
    """Copied as it is, it would bring files that its list does not count."""
    since = four_files.history()[0].snapshot_id
    rewrite(manifest_of(four_files), blocks=4, times=2)
    with pytest.raises(UnsupportedTableError, match="holds 8 entries, its manifest list says 4"):
        capture(catalog, "db.t", since=since, into="icdc.x")


def test_a_manifest_listed_with_too_small_a_length_is_taken(catalog: SqlCatalog, four_files: Table) -> None:
    """If it has as many entries as it should: what is wrong then is the length alone."""
    since = four_files.history()[0].snapshot_id
    path = manifest_of(four_files)
    listed_length = path.stat().st_size
    rewrite(path, blocks=4, note=b"x" * 100)
    assert path.stat().st_size > listed_length
    capture(catalog, "db.t", since=since, into="icdc.x")
    assert rows(catalog, "icdc.x") == [1, 2, 3, 4]


def test_an_empty_poll_asks_for_nothing_but_the_table(catalog: SqlCatalog, four_files: Table) -> None:
    """No namespace is made for an ICDC table that is not."""
    record = capture(catalog, "db.t", since=head(four_files), into="elsewhere.x")
    assert record.icdc_table is None
    assert not catalog.namespace_exists("elsewhere")


def test_an_unknown_number_of_deleted_rows_is_counted(catalog: SqlCatalog, four_files: Table) -> None:
    """A list may leave it out. Nothing was deleted, and the entries are moved and counted in place of a copy."""
    source = open_source(catalog, Source("db.t"))
    facts = source.reads_manifests(head(four_files))[0]
    assert facts.volume_known
    assert not replace(facts, deleted_rows=None).volume_known
