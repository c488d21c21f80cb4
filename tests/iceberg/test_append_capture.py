"""Append capture on real tables, read back row by row."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog import load_catalog

from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.manifests.lists import ManifestList, with_fields, write_manifest_list
from airflow_provider_ips.iceberg.source.iceberg_source import open_source, position_at
from tests.kit.local_tables import append, head, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


@pytest.mark.parametrize("format_version", ["1", "2"])
@pytest.mark.parametrize("properties", [{}, MERGING], ids=["plain", "merging"])
def test_a_range_holds_what_was_appended_in_it(
    catalog: SqlCatalog, format_version: str, properties: dict[str, str]
) -> None:
    """Row by row, whether manifests can be copied or must be spliced."""
    table = new_table(catalog, format_version=format_version, properties=properties)
    append(table, 1, 2)
    since = append(table, 3)
    append(table, 4, 5)
    until = append(table, 6)
    append(table, 7)
    record = capture(catalog, "db.t", since=since, until=until, into="icdc.x")
    assert rows(catalog, "icdc.x") == [4, 5, 6]
    assert (record.captured.files, record.captured.records) == (2, 3)
    assert rows(catalog, "db.t") == [1, 2, 3, 4, 5, 6, 7]


def test_everything_is_all_live_rows(catalog: SqlCatalog) -> None:
    """A full capture carries removals over: what was deleted stays deleted."""
    table = new_table(catalog)
    append(table, 1, 2, 3)
    append(table, 4)
    table.delete("id = 2")
    record = capture(catalog, "db.t", into="icdc.full")
    assert record.kind is Kind.FULL
    assert rows(catalog, "icdc.full") == [1, 3, 4]
    assert record.captured.records == record.table.records == 3


@pytest.mark.parametrize("statement", ["delete", "overwrite", "upsert"])
def test_what_removes_rows_is_refused_and_leaves_nothing(catalog: SqlCatalog, statement: str) -> None:
    """PyIceberg commits an overwrite and an upsert as delete followed by append: the append alone would be wrong."""
    table = new_table(catalog)
    since = append(table, 1, 2)
    arrow = table.scan().to_arrow()
    if statement == "delete":
        table.delete("id = 1")
    elif statement == "overwrite":
        table.overwrite(arrow, overwrite_filter="id = 1")
    else:
        table.upsert(arrow.set_column(2, "note", [["a", "b"]]), join_cols=["id"])
    append(table, 9)
    with pytest.raises(RefusedOperationError, match="removes 1 data files"):
        capture(catalog, "db.t", since=since, into="icdc.x")
    assert not catalog.table_exists("icdc.x")


def test_skip_captures_the_log_of_appends(catalog: SqlCatalog) -> None:
    """Also rows that were deleted later: it is a log."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    table.delete("id = 2")
    append(table, 3)
    capture(catalog, "db.t", since=since, into="icdc.x", on_other_operation="skip")
    assert rows(catalog, "icdc.x") == [2, 3]


def test_a_column_dropped_and_added_again_does_not_bring_old_values_back(catalog: SqlCatalog) -> None:
    """Field ids are kept, so the old file's ``note`` is not the new one."""
    table = new_table(catalog)
    since = append(table, 1)
    append(table, 2)
    with table.update_schema() as update:
        update.delete_column("note")
    with table.update_schema() as update:
        update.add_column("note", catalog.load_table("db.t").metadata.schemas[0].find_type("note"))
    append(table, 3)
    capture(catalog, "db.t", since=since, into="icdc.x")
    read = catalog.load_table("icdc.x").scan().to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["note"]) for r in read] == [(2, None), (3, "n3")]
    assert catalog.load_table("icdc.x").schema() == table.refresh().schema()


def test_files_without_ids_are_read_by_the_sources_name_mapping(catalog: SqlCatalog, tmp_path: Path) -> None:
    """``add_files`` brings plain Parquet; the mapping is a property that readers need."""
    import pyarrow.parquet as pq

    table = new_table(catalog)
    since = append(table, 1)
    bare = tmp_path / "bare.parquet"
    pq.write_table(table.scan().to_arrow().slice(0, 1), bare)
    table.add_files([f"file://{bare}"])
    capture(catalog, "db.t", since=since, into="icdc.x")
    assert rows(catalog, "icdc.x") == [1]
    assert "schema.name-mapping.default" in catalog.load_table("icdc.x").properties


def test_a_branch_is_a_source_of_its_own(catalog: SqlCatalog) -> None:
    """Its lineage, not main's."""
    table = new_table(catalog)
    since = append(table, 1)
    table.manage_snapshots().create_branch(since, "audit").commit()
    append(table, 2)
    arrow = table.scan("id = 2").to_arrow()
    table.append(arrow.set_column(0, "id", [[7]]), branch="audit")
    capture(catalog, "db.t", since=since, into="icdc.x", branch="audit")
    assert rows(catalog, "icdc.x") == [7]
    with pytest.raises(InputError, match="no branch 'adit'"):
        capture(catalog, "db.t", since=since, into="icdc.y", branch="adit")


def test_nothing_new_makes_no_table(catalog: SqlCatalog) -> None:
    """And says so."""
    since = append(new_table(catalog), 1)
    record = capture(catalog, "db.t", since=since, into="icdc.x")
    assert (record.kind, record.icdc_table, record.captured.files) == (Kind.EMPTY, None, 0)
    assert not catalog.table_exists("icdc.x")


def test_the_position_at_a_time_or_a_snapshot(catalog: SqlCatalog) -> None:
    """What ``airflow ips seed`` writes."""
    table = new_table(catalog)
    first = append(table, 1)
    append(table, 2)
    source = open_source(catalog, Source("db.t"))
    snapshot = source.snapshot(first)
    assert snapshot is not None
    assert position_at(source).snapshot_id == head(table)
    assert position_at(source, time_ms=snapshot.committed_at_ms).snapshot_id == first
    assert position_at(source, snapshot_id=first).sequence_number == 1
    with pytest.raises(GapError, match="12345 is not in the lineage"):
        position_at(source, snapshot_id=12345)


class TestRanges:
    """Bounds from metadata: exact, or unknown; never narrower than the data."""

    def test_columns_give_values_that_sql_understands(self, catalog: SqlCatalog) -> None:
        """Dates as ISO text, numbers as numbers."""
        table = new_table(catalog)
        since = append(table, 1)
        append(table, 20, 30, day=date(2026, 10, 5))
        append(table, 5, day=date(2026, 9, 1))
        record = capture(catalog, "db.t", since=since, into="icdc.x", range_columns=["id", "day", "note"])
        assert [(r.column, r.lower, r.upper) for r in record.ranges] == [
            ("id", 5, 30),
            ("day", "2026-09-01", "2026-10-05"),
            ("note", "n20", "n5"),
        ]

    def test_spliced_manifests_give_the_range_of_the_captured_files_only(self, catalog: SqlCatalog) -> None:
        """Older entries of the same manifest do not widen it."""
        table = new_table(catalog, properties=MERGING)
        append(table, 1000)
        since = append(table, 2000)
        append(table, 5)
        record = capture(catalog, "db.t", since=since, into="icdc.x", range_columns=["id"])
        assert [(r.lower, r.upper) for r in record.ranges] == [(5, 5)]

    def test_a_file_without_bounds_makes_the_range_unknown(self, catalog: SqlCatalog) -> None:
        """With the number of files that have no bounds."""
        table = new_table(catalog)
        since = append(table, 1)
        append(table, 2)
        with table.transaction() as change:
            change.set_properties({"write.metadata.metrics.default": "none"})
        append(table, 3)
        (span,) = capture(catalog, "db.t", since=since, into="icdc.x", range_columns=["id"]).ranges
        assert (span.known, span.lower, span.upper) == (False, None, None)
        assert "1 of 2" in span.reason

    @pytest.mark.parametrize("column", ["nope", "Id"])
    def test_an_unknown_column_is_refused_before_anything_is_written(self, catalog: SqlCatalog, column: str) -> None:
        """With the ones there are."""
        table = new_table(catalog)
        append(table, 1)
        with pytest.raises(InputError, match="id, day, note"):
            capture(catalog, "db.t", into="icdc.x", range_columns=[column])
        assert not catalog.table_exists("icdc.x")


class TestInput:
    """What cannot be captured is said before anything is written."""

    def test_a_missing_table_names_the_catalog(self, catalog: SqlCatalog) -> None:
        """And where to look."""
        with pytest.raises(InputError, match=r"db\.nope does not exist in catalog 'lake'"):
            capture(catalog, "db.nope", into="icdc.x")

    def test_a_misspelt_table_is_suggested(self, catalog: SqlCatalog) -> None:
        """From the tables of its namespace; a namespace that does not exist has none."""
        catalog.create_namespace_if_not_exists("db")
        new_table(catalog, "db.playback")
        with pytest.raises(InputError, match=r"did you mean 'db\.playback'\?"):
            capture(catalog, "db.plaback", into="icdc.x")
        with pytest.raises(InputError, match="check the spelling"):
            capture(catalog, "bd.playback", into="icdc.x")

    def test_a_sql_catalog_of_another_name_is_recognised(self, catalog: SqlCatalog) -> None:
        """The name is part of the key of a table, and by default that of the connection."""
        new_table(catalog, "db.playback")
        other = load_catalog("iceberg_default", **catalog.properties)
        with pytest.raises(InputError, match="the same database has it in catalog 'lake'") as caught:
            capture(other, "db.playback", into="icdc.x")
        assert '"catalog_name": "lake"' in caught.value.remedy

    @pytest.mark.parametrize("name", ["t", "db..t", "db.t;drop", ""])
    def test_a_malformed_identifier_is_refused(self, catalog: SqlCatalog, name: str) -> None:
        """With an example."""
        with pytest.raises(InputError, match=r"db\.playback|bare name"):
            capture(catalog, name, into="icdc.x")

    def test_a_since_outside_the_lineage_is_refused(self, catalog: SqlCatalog) -> None:
        """Also one that is no id at all."""
        append(new_table(catalog), 1)
        with pytest.raises(GapError, match="4711 is not in the lineage"):
            capture(catalog, "db.t", since="4711", into="icdc.x")
        with pytest.raises(InputError, match="'yesterday'"):
            capture(catalog, "db.t", since="yesterday", into="icdc.x")

    def test_an_encrypted_table_is_refused(self, catalog: SqlCatalog) -> None:
        """Its ICDC table would lack the keys."""
        append(new_table(catalog, properties={"encryption.key-id": "k1"}), 1)
        with pytest.raises(UnsupportedTableError, match="is encrypted"):
            capture(catalog, "db.t", into="icdc.x")


def test_counts_that_a_v1_list_leaves_out_are_counted_not_taken_for_zero(catalog: SqlCatalog) -> None:
    """The spec lets v1 lists omit them; the manifest itself is read then."""
    table = new_table(catalog, format_version="1")
    append(table, 1, 2)
    append(table, 3)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    bare = [
        with_fields(
            m, added_files_count=None, existing_files_count=None, added_rows_count=None, existing_rows_count=None
        )
        for m in ManifestList(table.io, snapshot.manifest_list).all()
    ]
    write_manifest_list(
        table.io.new_output(snapshot.manifest_list),
        bare,
        format_version=1,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=0,
    )
    record = capture(catalog, "db.t", into="icdc.x")
    assert (record.captured.files, record.captured.records) == (2, 3)
    assert rows(catalog, "icdc.x") == [1, 2, 3]
