"""Removed files, by whichever writer: which snapshot removed one is said by the manifest that lists it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

from airflow_provider_ips.iceberg import capture
from tests.kit.local_tables import append, head, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog

CHANGES = ("append", "overwrite", "delete")
MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


@pytest.fixture
def removes_as_before_0_12(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Let PyIceberg leave the snapshot that added a file in the entry that removes it, as its releases before 0.12."""
    added_by: dict[str, int] = {}
    made = ManifestEntry.from_args

    def from_args(**fields: Any) -> ManifestEntry:
        if fields["status"] == ManifestEntryStatus.DELETED:
            fields["snapshot_id"] = added_by["all files"]
        return made(**fields)

    monkeypatch.setattr(ManifestEntry, "from_args", from_args)
    return added_by


@pytest.mark.parametrize("properties", [{}, MERGING], ids=["own manifests", "merged manifests"])
def test_a_removal_is_found_though_its_entry_names_the_snapshot_that_added_the_file(
    catalog: SqlCatalog, removes_as_before_0_12: dict[str, int], properties: dict[str, str]
) -> None:
    """Where the rows came from would be empty otherwise, and a target would keep row 2."""
    table = new_table(catalog, properties=properties)
    since = removes_as_before_0_12["all files"] = append(table, 1, 2, 3)
    table.delete("id = 2")
    append(table, 4)

    record = capture(catalog, "db.t", since=since, into="icdc.x", data_operations=CHANGES, on_superset="allow")

    assert record.to_inclusive.snapshot_id == head(table)
    assert rows(catalog, "icdc.x") == [1, 3, 4]
    assert rows(catalog, "icdc.x_before") == [1, 2, 3]
