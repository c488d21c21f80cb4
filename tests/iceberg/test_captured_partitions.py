"""The partitions of captured files, as a DAG maps tasks over them: each once, none missing, or refused."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from pyiceberg.transforms import IdentityTransform

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.iceberg import capture, captured_partitions
from tests.kit.local_tables import append, head, new_catalog, new_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

CHANGES = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow"}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return new_catalog(tmp_path)


def by_day(catalog: Catalog) -> Table:
    """A table that is partitioned by the day itself."""
    table = new_table(catalog)
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    return table


def on(number: int) -> date:
    return date(2026, 10, number)


def test_each_touched_partition_is_there_once_and_in_order(catalog: Catalog) -> None:
    """Files of one day in several snapshots are one entry; what came before the range is none."""
    table = by_day(catalog)
    since = append(table, 1, day=on(9))
    for number in (3, 1, 3, 2):
        append(table, number, day=on(number))
    append(table, 5, day=None)  # type: ignore[arg-type]  # a partition of nulls
    record = capture(catalog, "db.t", since=since, into="icdc.t")

    found = captured_partitions(catalog, record.icdc_table)

    assert found == [{"day": None}, {"day": "2026-10-01"}, {"day": "2026-10-02"}, {"day": "2026-10-03"}]
    assert found == captured_partitions(catalog, record.icdc_table, None)


def test_changed_rows_name_the_partitions_that_they_left(catalog: Catalog) -> None:
    """A day that only lost rows is in the table of what was before, and nowhere else."""
    table = by_day(catalog)
    append(table, 1, 2, day=on(1))
    since = append(table, 3, day=on(2))
    table.delete("id = 1")
    append(table, 4, day=on(3))
    table.refresh()
    table.delete("id = 3")
    record = capture(catalog, "db.t", since=since, into="icdc.t", **CHANGES)  # type: ignore[arg-type]

    days = [{"day": f"2026-10-0{number}"} for number in (1, 2, 3)]

    assert captured_partitions(catalog, record.icdc_table, record.before_table) == days
    assert {"day": "2026-10-02"} not in captured_partitions(catalog, record.icdc_table)


def test_nothing_captured_is_an_empty_list(catalog: Catalog) -> None:
    """Also where the ICDC table is there."""
    table = by_day(catalog)
    append(table, 1)
    record = capture(catalog, "db.t", since=head(table), into="icdc.t")

    assert captured_partitions(catalog, record.icdc_table) == []
    assert captured_partitions(catalog) == []


def test_files_without_partition_are_refused(catalog: Catalog) -> None:
    """A list without them would pass their rows over."""
    append(new_table(catalog), 1)
    record = capture(catalog, "db.t", into="icdc.t")

    with pytest.raises(InputError, match="belong to no partition"):
        captured_partitions(catalog, record.icdc_table)


def test_files_of_two_partitionings_are_refused(catalog: Catalog) -> None:
    """A day of the one holds rows of a note of the other, and two tasks would write them."""
    table = by_day(catalog)
    append(table, 1)
    with table.update_spec() as update:
        update.remove_field("day")
        update.add_field("note", IdentityTransform(), "note")
    append(table, 2)
    record = capture(catalog, "db.t", into="icdc.t")

    with pytest.raises(InputError, match="several partitionings: day; note"):
        captured_partitions(catalog, record.icdc_table)
