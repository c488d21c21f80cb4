"""An ICDC table that exists is used again only if it is exactly what the capture would write."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.types import StringType

from airflow_provider_ips.core.errors import IcdcConflictError
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg import capture
from tests.kit.local_tables import append, head, new_catalog, new_table, rows
from tests.kit.moves import compact

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


@pytest.fixture(params=["1", "2"])
def catalog(tmp_path: Path, request: pytest.FixtureRequest) -> SqlCatalog:
    """A catalog with a table of two appends and a delete that rewrites a file."""
    catalog = new_catalog(tmp_path)
    table = new_table(catalog, format_version=request.param)
    append(table, 1, 2)
    append(table, 3, 4)
    table.delete("id = 2")
    return catalog


def first_snapshot(catalog: SqlCatalog) -> int:
    """The snapshot after which the tests capture."""
    return catalog.load_table("db.t").snapshots()[0].snapshot_id


SKIP: dict[str, Any] = {"on_other_operation": "skip"}
CHANGES: dict[str, Any] = {"data_operations": ALL_OPERATIONS, "on_superset": "allow"}
COMPLETE: dict[str, Any] = {"data_operations": ALL_OPERATIONS, "on_superset": "complete"}


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (SKIP, CHANGES, "data_operations"),
        (CHANGES, SKIP, "data_operations"),
        (CHANGES, COMPLETE, "on_superset"),
        (SKIP, {**SKIP, "partitions": None, "since": None}, "from-snapshot-id"),
    ],
    ids=["append to changes", "changes to append", "allow to complete", "range to all rows"],
)
def test_other_settings_under_the_same_name_are_refused(
    catalog: SqlCatalog, first: dict[str, Any], second: dict[str, Any], named: str
) -> None:
    """The record of the second capture would describe other rows than the table has."""
    since = first_snapshot(catalog)
    capture(catalog, "db.t", into="icdc.x", **{"since": since, **first})
    before = rows(catalog, "icdc.x")
    with pytest.raises(IcdcConflictError, match=named):
        capture(catalog, "db.t", into="icdc.x", **{"since": since, **second})
    assert rows(catalog, "icdc.x") == before


def test_another_filter_under_the_same_name_is_refused(tmp_path: Path) -> None:
    """The same range and settings, and other rows."""
    catalog = new_catalog(tmp_path)
    table = new_table(catalog)
    with table.update_spec() as update:
        update.add_identity("day")
    append(table, 1, day=date(2026, 10, 1))
    append(table, 2, day=date(2026, 10, 2))
    capture(catalog, "db.t", into="icdc.x", partitions="day = '2026-10-01'")
    with pytest.raises(IcdcConflictError, match=r"ips\.partitions"):
        capture(catalog, "db.t", into="icdc.x", partitions="day = '2026-10-02'")
    assert rows(catalog, "icdc.x") == [1]


@pytest.mark.parametrize("options", [SKIP, CHANGES, COMPLETE])
def test_the_same_settings_use_what_is_there(catalog: SqlCatalog, options: dict[str, Any]) -> None:
    """Even if the source has gained a property that no reader goes by since."""
    since, until = first_snapshot(catalog), head(catalog.load_table("db.t"))
    first = capture(catalog, "db.t", since=since, until=until, into="icdc.x", **options)
    made = catalog.load_table("icdc.x").metadata_location
    with catalog.load_table("db.t").transaction() as change:
        change.set_properties({"owner": "ada"})
    again = capture(catalog, "db.t", since=since, until=until, into="icdc.x", **options)
    assert again == first
    assert catalog.load_table("icdc.x").metadata_location == made


@pytest.mark.parametrize("options", [SKIP, CHANGES])
@pytest.mark.parametrize("alter", ["add", "rename", "replace", "name mapping"])
def test_another_schema_of_the_source_is_another_capture(
    catalog: SqlCatalog, options: dict[str, Any], alter: str
) -> None:
    """A column that was dropped and added again would have its old values in the table that is there."""
    since, until = first_snapshot(catalog), head(catalog.load_table("db.t"))
    capture(catalog, "db.t", since=since, until=until, into="icdc.x", **options)
    table = catalog.load_table("db.t")
    if alter == "name mapping":
        with table.transaction() as change:
            change.set_properties({"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'})
    else:
        with table.update_schema() as update:
            if alter == "add":
                update.add_column("more", StringType())
            if alter == "rename":
                update.rename_column("note", "remark")
            if alter == "replace":
                update.delete_column("note")
    if alter == "replace":
        with table.update_schema() as update:
            update.add_column("note", StringType())
    with pytest.raises(IcdcConflictError, match=r"ips\.read-as"):
        capture(catalog, "db.t", since=since, until=until, into="icdc.x", **options)
    made = capture(catalog, "db.t", since=since, until=until, into="icdc.y", **options)
    assert made.icdc_table == "icdc.y"


def append_to(table: Table) -> None:
    """Write rows."""
    append(table, 99)


def overwrite(table: Table) -> None:
    """Replace all rows."""
    table.overwrite(table.scan().to_arrow().slice(0, 1))


def add_column(table: Table) -> None:
    """Alter the schema."""
    with table.update_schema() as update:
        update.add_column("more", StringType())


def rename_column(table: Table) -> None:
    """Alter the schema, with the same types."""
    with table.update_schema() as update:
        update.rename_column("note", "remark")


def add_partition_field(table: Table) -> None:
    """Alter the partitioning."""
    with table.update_spec() as update:
        update.add_identity("day")


def create_branch(table: Table) -> None:
    """Keep the snapshot under another name."""
    table.manage_snapshots().create_branch(head(table), "mine").commit()


def create_tag(table: Table) -> None:
    """Keep the snapshot under a tag."""
    table.manage_snapshots().create_tag(head(table), "mine").commit()


def set_property(table: Table) -> None:
    """Change how the table is read."""
    with table.transaction() as change:
        change.set_properties({"read.split.target-size": "1"})


def let_engines_delete(table: Table) -> None:
    """Take away the protection of the source's files."""
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "true"})


ALTERATIONS = [
    (append_to, "1 more snapshots .append."),
    (overwrite, "more snapshots"),
    (compact, "1 more snapshots .replace."),
    (add_column, "its schema changed"),
    (rename_column, "its schema changed"),
    (add_partition_field, "its partitioning changed"),
    (create_branch, "branches or tags were changed .mine."),
    (create_tag, "branches or tags were changed .mine."),
    (set_property, "its properties changed"),
    (let_engines_delete, "its properties changed"),
]


@pytest.mark.parametrize(("alter", "named"), ALTERATIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_table_that_was_changed_since_is_refused(
    catalog: SqlCatalog, alter: Callable[[Table], None], named: str
) -> None:
    """It is not what was captured any more. The error says what changed, and how to go on; and that way works."""
    first = capture(catalog, "db.t", into="icdc.x")
    alter(catalog.load_table("icdc.x"))
    with pytest.raises(IcdcConflictError, match=named) as failure:
        capture(catalog, "db.t", into="icdc.x")
    assert "drop icdc.x without purging it" in str(failure.value)
    catalog.drop_table("icdc.x")
    assert capture(catalog, "db.t", into="icdc.x") == first
    assert rows(catalog, "icdc.x") == [1, 3, 4]
