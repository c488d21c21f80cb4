"""What a capture is, on every kind of catalog: names in SQLite, PostgreSQL and Nessie, files in folders and in S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import IcdcConflictError
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.iceberg import drop_icdc
from tests.kit.lakes import ordered, rows_of

if TYPE_CHECKING:
    from tests.kit.lakes import Source

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.xdist_group("catalogs")]


def test_what_was_appended_by_both_engines_is_captured_and_read_by_both(source: Source) -> None:
    """Row by row. Nessie shows no history, so there the range is found by sequence numbers."""
    before = source.insert(1, 2, 3)
    since = source.head
    appended = ordered(source.insert(4, 5), source.append(6), source.insert(7, 8, 9))
    record = source.capture(since=since, on_gap="resync", range_columns=["id"])
    assert source.captured() == appended
    assert record.kind is (Kind.RANGE if source.lake.keeps_history else Kind.RESYNC)
    assert record.captured.records == 6
    assert [(r.lower, r.upper) for r in record.ranges] == [(4, 9)]
    assert source.lake.read(source.name) == ordered(before, appended)


def test_everything_is_all_live_rows(source: Source) -> None:
    """Rows that copy-on-write and merge-on-read took away stay away."""
    source.insert(1, 2, 3, 4)
    source.append(5, 6)
    source.sql("DELETE FROM {table} WHERE id = 2")
    source.sql("ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    source.insert(7, 10)
    source.sql("DELETE FROM {table} WHERE id = 7")
    record = source.capture()
    assert record.kind is Kind.FULL
    assert source.captured() == ordered(rows_of(1, 3, 4, 5, 6, 10))


def test_dropping_takes_what_capture_wrote_and_nothing_else(source: Source) -> None:
    """Not one file of the source."""
    source.append(1, 2)
    home = source.table.location()
    files = source.lake.files_of(home)
    source.capture()
    icdc = source.lake.catalog.load_table(f"{source.icdc}.x").location()
    assert source.lake.files_of(icdc)
    assert drop_icdc(source.lake.catalog, f"{source.icdc}.x")
    assert not source.lake.files_of(icdc)
    assert not source.lake.catalog.table_exists(f"{source.icdc}.x")
    assert source.lake.files_of(home) == files
    assert source.lake.read(source.name) == ordered(rows_of(1, 2))
    assert not drop_icdc(source.lake.catalog, f"{source.icdc}.x")


def test_a_retry_takes_the_table_that_is_there(source: Source) -> None:
    """And leaves no second set of files."""
    source.append(1)
    first = source.capture()
    icdc = source.lake.catalog.load_table(f"{source.icdc}.x").location()
    files = source.lake.files_of(icdc)
    assert source.capture() == first
    assert source.lake.files_of(icdc) == files


def test_another_capture_of_the_same_name_is_refused(source: Source) -> None:
    """The table that is there stays as it is."""
    captured = source.append(1)
    source.capture()
    source.append(2)
    with pytest.raises(IcdcConflictError, match="exists already"):
        source.capture()
    assert source.captured() == captured


def test_a_commit_of_nothing_is_nothing_to_process(source: Source) -> None:
    """No table is made for it, and what comes after it is captured."""
    source.insert(1)
    since = source.head
    source.sql("INSERT INTO {table} SELECT * FROM {table} WHERE id < 0")
    assert source.head != since
    record = source.capture(since=since, on_gap="resync")
    assert (record.kind, record.icdc_table, record.captured.files) == (Kind.EMPTY, None, 0)
    assert not source.lake.catalog.table_exists(f"{source.icdc}.x")
    later = source.insert(2)
    source.capture(since=since, on_gap="resync")
    assert source.captured() == later
