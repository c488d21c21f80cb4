"""What a branch holds of its source: the bytes that nothing else holds, at a bounded cost, and never a guess."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.branches import leases
from airflow_provider_ips.iceberg.branches.leases import FoundBranch, find_leases, total_bytes
from tests.kit.local_tables import append, head, new_catalog, new_table

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


def held_bytes(catalog: SqlCatalog) -> list[int | None]:
    """What each branch of the table holds, oldest first."""
    found = find_leases(catalog, "db.t")
    assert found is not None
    return [branch.held_bytes for branch in found]


def expire(table: Table) -> None:
    """Expire whatever no branch keeps."""
    heads = {ref.snapshot_id for ref in table.refresh().refs().values()}
    old = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in heads]
    table.maintenance.expire_snapshots().by_ids(old).commit()


def replaced_files(table: Table) -> int:
    """Write all rows of main to new files, and give the bytes of the old ones."""
    old = sum(task.file.file_size_in_bytes for task in table.refresh().scan().plan_files())
    table.overwrite(table.scan().to_arrow())
    return old


@pytest.mark.parametrize("properties", [{}, MERGING], ids=["referenced", "spliced"])
@pytest.mark.parametrize("format_version", ["1", "2"])
def test_only_what_main_no_longer_holds_is_counted(
    catalog: SqlCatalog, properties: dict[str, str], format_version: str
) -> None:
    """While main, or a snapshot that is not expired, has the files, a branch holds nothing more."""
    table = new_table(catalog, format_version=format_version, properties=properties)
    since = append(table, 1)
    append(table, 2)
    append(table, 3)
    captured = sum(task.file.file_size_in_bytes for task in table.refresh().scan(row_filter="id > 1").plan_files())
    capture(catalog, "db.t", since=since, mode="BRANCH")
    assert held_bytes(catalog) == [0]
    expire(table)  # 2 and 3 are in the head, written by snapshots that are expired
    assert held_bytes(catalog) == [0]
    replaced_files(table)
    assert held_bytes(catalog) == [0]  # the snapshot before the overwrite is retained
    expire(table)
    assert held_bytes(catalog) == [captured]


def test_a_file_that_is_partly_taken_over_is_counted_once(catalog: SqlCatalog) -> None:
    """Main keeps one of the captured files; two branches that hold the other count it each."""
    table = new_table(catalog, properties=MERGING)
    append(table, 1)
    append(table, 2)
    sizes = {task.file.file_size_in_bytes for task in table.refresh().scan(row_filter="id = 2").plan_files()}
    capture(catalog, "db.t", mode="BRANCH", into="a")
    capture(catalog, "db.t", mode="BRANCH", into="b")
    table.refresh().delete("id = 2")
    expire(table)
    assert held_bytes(catalog) == [*sizes, *sizes]


def test_what_would_cost_too_much_is_unknown(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not zero: neither for the branch nor in a sum with others."""
    table = new_table(catalog, properties=MERGING)
    append(table, 1)
    append(table, 2)
    capture(catalog, "db.t", mode="BRANCH")
    replaced_files(table)
    expire(table)
    monkeypatch.setattr(leases, "MAX_READS", 2)
    assert held_bytes(catalog) == [None]
    assert total_bytes(find_leases(catalog, "db.t") or []) is None


def test_what_cannot_be_read_is_unknown(catalog: SqlCatalog) -> None:
    """A manifest list that somebody has deleted; a table that is not there holds nothing."""
    table = new_table(catalog)
    append(table, 1)
    record = capture(catalog, "db.t", mode="BRANCH")
    snapshot = table.refresh().snapshot_by_id(record.snapshot_id or 0)
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    assert held_bytes(catalog) == [None]
    assert find_leases(catalog, "db.absent") == []


def test_what_a_branch_held_is_what_its_removal_gives_back(catalog: SqlCatalog) -> None:
    """No snapshot lists the files once it is removed."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    record = capture(catalog, "db.t", since=since, mode="BRANCH")
    replaced_files(table)
    expire(table)
    (held,) = held_bytes(catalog)
    assert held
    files = {path: path.stat().st_size for path in Path(table.location().removeprefix("file://")).rglob("*.parquet")}
    assert drop_icdc(catalog, record.icdc_table or "")
    listed = {task.file.file_path.removeprefix("file://") for task in table.refresh().scan().plan_files()}
    orphans = {path: size for path, size in files.items() if str(path) not in listed}
    assert held in orphans.values()
    assert head(table)


def test_a_lease_is_ending_in_its_last_quarter() -> None:
    """However long it is."""
    day = int(timedelta(days=1).total_seconds() * 1000)
    branch = FoundBranch(
        name="db.t.branch_ips_t", consumer="c", capture_id="", made_at_ms=0, held_until_ms=4 * day, is_detached=False
    )
    assert [branch.is_ending(at) for at in (0, 3 * day, 3 * day + 1, 5 * day)] == [False, False, True, True]
