"""Partitions by days that stand for "without an end", texts with an underscore, and fields that share a name."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    YearTransform,
)
from pyiceberg.types import DateType, TimestampType, TimeType

from airflow_provider_ips.core.errors import InputError, UnsupportedTableError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg import capture, captured_partitions
from airflow_provider_ips.iceberg.partitions.backfill_units import ColumnSpans
from airflow_provider_ips.iceberg.partitions.partition_fields import EPOCH, named_values, to_json_value
from airflow_provider_ips.iceberg.partitions.partition_sets import written_partitions
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.iceberg.filtered_tables import data_file
from tests.kit.local_tables import new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

FIRST, LAST = date(1, 1, 1), date(9999, 12, 31)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


@pytest.mark.parametrize("transform", [MonthTransform(), YearTransform(), DayTransform()], ids=str)
@pytest.mark.parametrize("column", ["day", "at"])
@pytest.mark.parametrize("far", [FIRST, LAST])
def test_one_far_date_does_not_stop_filters_and_backfills(
    catalog: SqlCatalog, transform: Any, column: str, far: date
) -> None:
    """9999-12-31 has no next month in Python's calendar, and 0001-01-01 none before."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us"))])
    table = catalog.create_table("db.t", schema=schema, properties={"format-version": "2"})
    with table.update_spec() as update:
        update.add_field(column, transform, "p")
    put(table, 1, value_of(transform, date(2026, 10, 1)))
    put(table, 2, value_of(transform, far))
    near = f"{column} >= '2026-01-01' and {column} < '2027-01-01'"
    assert capture(catalog, "db.t", into="icdc.x", partitions=near, dry_run=True).captured.records == 1
    beyond = f"{column} < '2000-01-01' or {column} >= '3000-01-01'"
    assert capture(catalog, "db.t", into="icdc.x", partitions=beyond, dry_run=True).captured.records == 2
    ranged = ColumnSpans(table.refresh().metadata, column).held(table.spec().spec_id, (value_of(transform, far),))
    assert ranged.span is not None
    assert not ranged.span.is_unbounded


@given(days=st.integers(min_value=-719_162, max_value=2_932_896), microseconds=st.integers(0, 86_399_999_999))
def test_days_and_timestamps_of_four_digit_years_are_shown_as_python_shows_them(days: int, microseconds: int) -> None:
    """The law that the years beyond continue."""
    moment = EPOCH.replace(tzinfo=None) + timedelta(days=days, microseconds=microseconds)
    assert to_json_value(DateType(), days) == moment.date().isoformat()
    assert to_json_value(TimestampType(), days * 86_400_000_000 + microseconds) == moment.isoformat()


@pytest.mark.parametrize(
    ("days", "shown"),
    [
        (2_932_897, "+10000-01-01"),
        (-719_163, "0000-12-31"),
        (-719_529, "-0001-12-31"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_a_day_beyond_the_calendar_of_python_is_shown_as_java_shows_it(days: int, shown: str) -> None:
    """The outermost two are the first and last day of ``java.time`` in so many days."""
    assert to_json_value(DateType(), days) == shown


def test_a_partition_beyond_the_year_9999_is_shown(catalog: SqlCatalog) -> None:
    """Spark writes such dates, PyIceberg cannot; one mistyped year in a row is enough."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us"))])
    table = catalog.create_table("db.t", schema=schema, properties={"format-version": "2"})
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "by_day").add_field("at", HourTransform(), "by_hour")
    shown = named_values(table.metadata, table.spec().spec_id, (2_932_897, 2_932_897 * 24 + 7))
    assert shown == [("by_day", "+10000-01-01"), ("by_hour", "+10000-01-01-07")]


def test_a_time_of_day_beyond_the_day_is_damage() -> None:
    """It cannot be what a writer has written."""
    with pytest.raises(UnsupportedTableError, match="time of day"):
        to_json_value(TimeType(), 2**62)


def value_of(transform: Any, day: date) -> int:
    """What a partition of a day is filed under."""
    if isinstance(transform, DayTransform):
        return (day - date(1970, 1, 1)).days
    years = day.year - 1970
    return years if isinstance(transform, YearTransform) else years * 12 + day.month - 1


def put(table: Table, number: int, *partition: Any, **properties: str) -> None:
    """Add the entry of a file with so many rows, which no test opens."""
    with table.refresh().transaction() as tx, tx.update_snapshot(properties).fast_append() as update:
        path = f"{table.location()}/data/{number}.parquet"
        update.append_data_file(data_file(path, partition, number, table.spec().spec_id))


def by_note(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    with table.update_spec() as update:
        update.add_field("note", IdentityTransform(), "note")
    schema = table.schema().as_arrow()
    for number, note in enumerate(("a_b", "axb", "a_bc", "axbc")):
        table.append(pa.table({"id": [number], "day": [date(2026, 10, 1)], "note": [note]}, schema=schema))


@pytest.mark.parametrize(
    "condition",
    ["note like 'a_b%'", "note LIKE 'a_b'", "not note like 'a_b%'", "note = 'x' or note not like 'a_%'"],
)
def test_an_underscore_in_a_pattern_is_refused(catalog: SqlCatalog, condition: str) -> None:
    """In SQL it stands for any character; taken as it is, rows would be missing."""
    by_note(catalog)
    with pytest.raises(InputError, match="_ stands for any character"):
        capture(catalog, "db.t", into="icdc.x", partitions=condition)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (r"note like 'a\_b%'", [0, 2]),
        (r"note like 'a\_b'", [0]),
        ("note = 'a_b'", [0]),
        ("note like 'ax%' or note = 'a_b'", [0, 1, 3]),
        ("note in ('like', 'a_b')", [0]),
    ],
)
def test_an_underscore_that_is_meant_is_found(catalog: SqlCatalog, condition: str, found: list[int]) -> None:
    """Escaped in a pattern, and as it is anywhere else."""
    by_note(catalog)
    capture(catalog, "db.t", into="icdc.x", partitions=condition)
    assert rows(catalog, "icdc.x") == found


def with_namesakes(catalog: SqlCatalog) -> None:
    """Partition by four buckets of the id, then by eight, under one name."""
    table = new_table(catalog)
    for width in (4, 8):
        if width > 4:
            with table.update_spec() as update:
                update.remove_field("part")
        with table.update_spec() as update:
            update.add_field("id", BucketTransform(width), "part")
        put(table, width, 1, **{"ips-capture-id": "c1"})


def test_partitions_of_two_fields_with_one_name_are_refused(catalog: SqlCatalog) -> None:
    """Bucket 1 of 4 and bucket 1 of 8 hold other rows."""
    with_namesakes(catalog)
    record = capture(catalog, "db.t", into="icdc.x")
    with pytest.raises(InputError, match=r"several partitionings: part \(bucket\[4\] of column 1\); part \(buck"):
        captured_partitions(catalog, record.icdc_table)


def test_events_of_two_fields_with_one_name_are_refused(catalog: SqlCatalog) -> None:
    """A key would name two partitions."""
    with_namesakes(catalog)
    with pytest.raises(InputError, match=r"db\.t was written with several partitionings: part \(bucket\[4\]"):
        written_partitions(open_source(catalog, Source("db.t")), "c1")
