"""ICDC tables whose files a branch of the source holds, whatever its maintenance does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider_ips.core.errors import CatalogError, UnsupportedTableError
from airflow_provider_ips.iceberg import capture, drop_icdc, find_losses
from airflow_provider_ips.iceberg.branches.leases import find_branches
from airflow_provider_ips.iceberg.manifests.lists import ManifestList
from tests.kit.local_tables import append, files_under, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pyiceberg.table import Table

CHANGES: dict[str, Any] = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


def maintain(table: Table) -> None:
    """Rewrite all rows of main, expire whatever no reference keeps, and delete data files that no snapshot lists."""
    table.refresh().overwrite(table.scan().to_arrow())
    heads = {ref.snapshot_id for ref in table.refresh().refs().values()}
    old = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in heads]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    listed = {
        urlparse(entry.data_file.file_path).path
        for snapshot in table.refresh().metadata.snapshots
        for manifest in ManifestList(table.io, snapshot.manifest_list).all()
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    for path in files_under(table.location()):
        if path.endswith(".parquet") and path not in listed:
            Path(path).unlink()


@pytest.mark.parametrize("hold_source", [True, False])
@pytest.mark.parametrize("settings", [{}, CHANGES], ids=["appends", "changes"])
def test_held_files_outlive_the_maintenance_of_the_source(
    catalog: SqlCatalog, *, settings: dict[str, Any], hold_source: bool
) -> None:
    """Those of the rows before they were changed, too. Without ``hold_source`` they are lost."""
    table = new_table(catalog)
    since = append(table, 1, 2)
    append(table, 3)
    if settings:
        table.refresh().delete("id = 2")
    record = capture(catalog, "db.t", since=since, into="icdc.t", hold_source=hold_source, **settings)
    before = {name: rows(catalog, name) for name in record.icdc_tables}
    maintain(table)
    losses = [find_losses(catalog, name) for name in record.icdc_tables]
    assert all(loss is not None and loss.is_intact is hold_source for loss in losses)
    if hold_source:
        assert {name: rows(catalog, name) for name in record.icdc_tables} == before
        assert (record.mode, record.icdc_table, len(record.made)) == ("ICDC", "icdc.t", 4 if settings else 2)
        assert type(record).from_json(record.to_json()).made == record.made


@pytest.mark.parametrize("properties", [{}, {"commit.manifest-merge.enabled": "true"}], ids=["plain", "merging"])
def test_dropping_all_that_was_made_leaves_the_source_as_it_was(
    catalog: SqlCatalog, properties: dict[str, str]
) -> None:
    """Its branches, its snapshots, and every file but older metadata."""
    table = new_table(catalog, properties={**properties, "commit.manifest.min-count-to-merge": "2"})
    since = append(table, 1)
    append(table, 2)
    append(table, 3)
    files, before = set(files_under(table.location())), table.refresh().metadata
    record = capture(catalog, "db.t", since=since, into="icdc.t", hold_source=True)
    assert [branch.name for branch in find_branches("db.t", table.refresh().metadata)] == list(record.made[1:])
    for name in record.made:
        assert drop_icdc(catalog, name)
    after = table.refresh().metadata
    assert (after.refs, after.snapshots) == (before.refs, before.snapshots)
    assert {path for path in files_under(table.location()) if ".metadata.json" not in path} == {
        path for path in files if ".metadata.json" not in path
    }
    assert not catalog.table_exists("icdc.t")


def test_a_retry_uses_both(catalog: SqlCatalog) -> None:
    """A branch never changes, and neither does an ICDC table; a table that nothing held is held from then on."""
    table = new_table(catalog)
    append(table, 1)
    unheld = capture(catalog, "db.t", into="icdc.t")
    first = capture(catalog, "db.t", into="icdc.t", hold_source=True)
    again = capture(catalog, "db.t", into="icdc.t", hold_source=True)
    assert again.captured_branch == first.captured_branch != unheld.captured_branch
    assert rows(catalog, "icdc.t") == [1]


@pytest.mark.parametrize(
    ("properties", "reason"), [({"gc.enabled": "false"}, "gc.enabled=false"), ({"nessie.commit.id": "x"}, "Nessie")]
)
def test_a_source_that_keeps_no_branches_cannot_be_held(
    catalog: SqlCatalog, properties: dict[str, str], reason: str
) -> None:
    """Nothing is written."""
    table = new_table(catalog, properties=properties)
    append(table, 1)
    with pytest.raises(UnsupportedTableError, match=reason) as refused:
        capture(catalog, "db.t", into="icdc.t", hold_source=True)
    assert "leave out hold_source" in refused.value.remedy
    assert not catalog.table_exists("icdc.t")


def test_a_source_that_may_not_be_written_cannot_be_held(catalog: SqlCatalog, tmp_path: Path) -> None:
    """The remedy names the right, and the way without it. No ICDC table is made."""
    append(new_table(catalog), 1)
    catalog.create_namespace("icdc")
    catalog.close()
    reading = SqlCatalog(
        "lake",
        uri=f"sqlite:///file:{tmp_path}/catalog.db?mode=ro&uri=true",
        warehouse=f"file://{tmp_path}/warehouse",
        init_catalog_tables="false",
    )
    with pytest.raises(CatalogError, match="was not committed") as refused:
        capture(reading, "db.t", into="icdc.t", hold_source=True)
    assert "let the connection's user commit to the source" in refused.value.remedy
    assert "leave out hold_source" in refused.value.remedy
    assert not reading.table_exists("icdc.t")
