"""One path that a table lists several times: each entry is a file of its own, told apart by its sequence number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg import capture
from tests.kit.local_tables import append, head, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

CHANGES = ("append", "overwrite", "delete")
MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
BOTH_LAYOUTS = pytest.mark.parametrize("properties", [{}, MERGING], ids=["own manifests", "one manifest"])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


@pytest.fixture
def shared_file(catalog: SqlCatalog, tmp_path: Path) -> str:
    """A Parquet file with the row 7, for several tables and commits to add."""
    append(new_table(catalog, "db.other"), 7)
    pq.write_table(catalog.load_table("db.other").scan().to_arrow(), tmp_path / "shared.parquet")
    return f"file://{tmp_path}/shared.parquet"


def add(table: Table, path: str) -> int:
    """Add a file, whether the table has it already or not."""
    table.refresh().add_files([path], check_duplicate_files=False)
    return head(table)


def change_another_file(table: Table) -> None:
    """A range that only gains files is the log of its appends; this makes it one of changes."""
    table.refresh().delete("id = 1")


@BOTH_LAYOUTS
def test_a_file_that_the_range_adds_twice_comes_twice(
    catalog: SqlCatalog, shared_file: str, properties: dict[str, str]
) -> None:
    """As the source has its rows twice."""
    table = new_table(catalog, properties=properties)
    since = append(table, 1)
    add(table, shared_file)
    add(table, shared_file)
    change_another_file(table)
    assert rows(catalog, "db.t") == [7, 7]
    record = capture(catalog, "db.t", since=since, into="icdc.x", data_operations=CHANGES)
    assert rows(catalog, "icdc.x") == [7, 7]
    assert record.captured.files == 2


@BOTH_LAYOUTS
def test_a_file_that_was_there_before_and_is_added_again_comes_once(
    catalog: SqlCatalog, shared_file: str, properties: dict[str, str]
) -> None:
    """The old entry did not change, wherever manifests list it by now."""
    table = new_table(catalog, properties=properties)
    append(table, 1)
    since = add(table, shared_file)
    add(table, shared_file)
    append(table, 2)
    change_another_file(table)
    assert rows(catalog, "db.t") == [2, 7, 7]
    record = capture(catalog, "db.t", since=since, into="icdc.x", data_operations=CHANGES)
    assert rows(catalog, "icdc.x") == [2, 7]
    assert not record.superset


@BOTH_LAYOUTS
def test_a_filter_takes_the_entry_of_the_range_alone(
    catalog: SqlCatalog, shared_file: str, properties: dict[str, str]
) -> None:
    """A narrowed capture chooses entries, not paths."""
    table = new_table(catalog, properties=properties)
    with table.update_spec() as update:
        update.add_identity("day")
    since = add(table, shared_file)
    add(table, shared_file)
    append(table, 2)
    capture(catalog, "db.t", since=since, into="icdc.x", partitions="day = '2026-10-01'")
    assert rows(catalog, "icdc.x") == [2, 7]


@BOTH_LAYOUTS
def test_removing_a_path_removes_each_of_its_entries(
    catalog: SqlCatalog, shared_file: str, properties: dict[str, str]
) -> None:
    """One entry is from before the range, so its rows were changed; the other one came and went within it."""
    table = new_table(catalog, properties=properties)
    since = add(table, shared_file)
    add(table, shared_file)
    table.refresh().delete("id = 7")
    assert rows(catalog, "db.t") == []
    capture(catalog, "db.t", since=since, into="icdc.x", data_operations=CHANGES)
    assert rows(catalog, "icdc.x_before") == [7]


def test_format_version_1_does_not_tell_the_entries_apart(catalog: SqlCatalog, shared_file: str) -> None:
    """Without sequence numbers it is not known which of them is new, once one manifest lists both."""
    table = new_table(catalog, properties=MERGING, format_version="1")
    append(table, 1)
    since = add(table, shared_file)
    add(table, shared_file)
    change_another_file(table)
    with pytest.raises(UnsupportedTableError, match=r"lists .*shared.parquet several times, without sequence numbers"):
        capture(catalog, "db.t", since=since, into="icdc.x", data_operations=CHANGES)


def test_format_version_1_does_not_show_that_both_entries_were_removed(catalog: SqlCatalog, shared_file: str) -> None:
    """As one file that came and went within the range, the other one would stay in the target."""
    table = new_table(catalog, format_version="1")
    since = add(table, shared_file)
    add(table, shared_file)
    table.refresh().delete("id = 7")
    with pytest.raises(UnsupportedTableError, match=r"lists .*shared.parquet several times, without sequence numbers"):
        capture(catalog, "db.t", since=since, into="icdc.x", data_operations=CHANGES)
