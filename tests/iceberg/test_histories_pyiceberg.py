"""Histories that could make an append capture silently wrong, as PyIceberg writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField

from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg import capture, drop_icdc
from airflow_provider_ips.iceberg.avro.container import BlockWriter, Header
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.icdc import build_icdc
from tests.kit.local_tables import SCHEMA, append, files_under, head, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from airflow_provider_ips.core.positions import Position

MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


def local(location: str) -> Path:
    """A file of the catalog under test."""
    return Path(location.removeprefix("file://"))


def append_to(table: Table, branch: str, *ids: int) -> int:
    """Commit rows to a branch and give the snapshot's id."""
    days = [date(2026, 10, 1)] * len(ids)
    table.append(pa.table({"id": ids, "day": days, "note": ["b"] * len(ids)}, schema=SCHEMA), branch=branch)
    return table.refresh().metadata.refs[branch].snapshot_id


class TestAnotherBranchBecomesMain:
    """``audit`` got 2, main got 3, and then main was set to ``audit``, which got 4."""

    @pytest.fixture
    def seen(self, catalog: SqlCatalog) -> Position:
        """The position that a consumer of main had."""
        table = new_table(catalog)
        base = append(table, 1)
        table.manage_snapshots().create_branch(base, "audit").commit()
        append_to(table, "audit", 2)
        append(table, 3)
        seen = open_source(catalog, Source("db.t")).position
        tip = append_to(table, "audit", 4)
        table.manage_snapshots().set_current_snapshot(tip).commit()
        assert rows(catalog, "db.t") == [1, 2, 4]
        return seen

    def test_is_a_gap(self, catalog: SqlCatalog, seen: Position) -> None:
        """3 was processed and is no longer there; 2 is older than 3 and was not processed."""
        with pytest.raises(GapError, match="not an ancestor"):
            plan_capture(open_source(catalog, Source("db.t")), committed=seen, settings=CaptureSettings())

    def test_resync_is_refused_for_the_file_that_is_older_by_number(self, catalog: SqlCatalog, seen: Position) -> None:
        """Selecting by number would leave 2 out for ever."""
        with pytest.raises(GapError, match="prove nothing"):
            plan_capture(
                open_source(catalog, Source("db.t")), committed=seen, settings=CaptureSettings(on_gap="resync")
            )

    def test_resync_is_refused_after_the_checkpoint_expired_too(self, catalog: SqlCatalog, seen: Position) -> None:
        """The older snapshot is still there, and nothing shows that the checkpoint descended from it."""
        catalog.load_table("db.t").maintenance.expire_snapshots().by_id(seen.snapshot_id or 0).commit()
        with pytest.raises(GapError, match="prove nothing"):
            plan_capture(
                open_source(catalog, Source("db.t")), committed=seen, settings=CaptureSettings(on_gap="resync")
            )

    def test_full_takes_what_is_there(self, catalog: SqlCatalog, seen: Position) -> None:
        """The way on that the error names."""
        settings = CaptureSettings(on_gap="full")
        source = open_source(catalog, Source("db.t"))
        plan = plan_capture(source, committed=seen, settings=settings)
        capture(catalog, "db.t", into="icdc.other")  # makes the namespace
        build_icdc(
            catalog, source, plan, table=SourceTable("db.t"), settings=settings, icdc_table="icdc.x", identity={}
        )
        assert rows(catalog, "icdc.x") == [1, 2, 4]


def test_resync_after_a_rollback_takes_what_came_after_it(catalog: SqlCatalog) -> None:
    """The branch point is an ancestor of the checkpoint, so all that is older was seen."""
    table = new_table(catalog)
    base = append(table, 1)
    append(table, 2)
    seen = open_source(catalog, Source("db.t")).position
    table.manage_snapshots().rollback_to_snapshot(base).commit()
    append(table, 3)
    plan = plan_capture(open_source(catalog, Source("db.t")), committed=seen, settings=CaptureSettings(on_gap="resync"))
    assert sum(s.manifest.added_rows or 0 for s in plan.selections) == 1


def test_a_first_run_at_a_time_takes_what_was_published_after_it(catalog: SqlCatalog) -> None:
    """Rows written to a branch before that time and published after it were not there to be processed."""
    table = new_table(catalog)
    base = append(table, 1)
    table.manage_snapshots().create_branch(base, "audit").commit()
    staged = append_to(table, "audit", 2)
    written = table.snapshot_by_id(staged)
    assert written is not None
    table.manage_snapshots().set_current_snapshot(staged).commit()
    append(table, 3)
    start = datetime.fromtimestamp(written.timestamp_ms / 1000, tz=UTC).isoformat()
    capture(catalog, "db.t", into="icdc.x", initial=start)
    assert rows(catalog, "icdc.x") == [2, 3]


def test_a_tag_is_no_branch(catalog: SqlCatalog) -> None:
    """It never moves: the first capture would be the last that finds anything."""
    table = new_table(catalog)
    table.manage_snapshots().create_tag(append(table, 1), "release").commit()
    with pytest.raises(InputError, match="is a tag"):
        open_source(catalog, Source("db.t", "release"))


@pytest.mark.parametrize("location", ["{parent}", "{home}/", "{parent}//t", "{parent}/x/../t", "file:{path}"])
def test_the_sources_own_folder_is_no_home_however_it_is_written(catalog: SqlCatalog, location: str) -> None:
    """Files of an ICDC table there would be the source's orphans. The table's name completes its location."""
    table = new_table(catalog)
    append(table, 1)
    home = table.location()
    parent = home.rpartition("/")[0]
    requested = location.format(home=home, parent=parent, path=local(home))
    before = files_under(home)
    with pytest.raises(InputError, match="under the source's"):
        capture(catalog, "db.t", into="icdc.t", location=requested)
    assert files_under(home) == before


class TestDamagedManifests:
    """A manifest list says how much its manifests hold, and that is compared with what is there."""

    def test_one_that_lost_its_last_block_is_refused(self, catalog: SqlCatalog) -> None:
        """Cut off between blocks it reads like a shorter one, in every reader."""
        table = new_table(catalog, properties=MERGING)
        since = append(table, 1)
        with table.transaction() as both:
            both.append(pa.table({"id": [2], "day": [date(2026, 10, 1)], "note": ["x"]}, schema=SCHEMA))
        snapshot = table.current_snapshot()
        assert snapshot is not None
        (manifest,) = snapshot.manifests(table.io)
        assert (manifest.added_files_count, manifest.existing_files_count) == (1, 1)
        self.keep_blocks(local(manifest.manifest_path), containing_status=0)
        with pytest.raises(UnsupportedTableError, match="holds 1 entries, its manifest list says 2"):
            capture(catalog, "db.t", since=since, into="icdc.x")
        assert not catalog.table_exists("icdc.x")

    @staticmethod
    def keep_blocks(path: Path, *, containing_status: int) -> None:
        """Write a manifest again without the blocks whose entries have another status."""
        with path.open("rb") as stream:
            header = Header.read(stream)
            kept = [data for _, data in header.blocks(stream) if data[0] >> 1 == containing_status]
        with path.open("wb") as stream:
            writer = BlockWriter(stream, replace(header))
            for data in kept:
                writer.add(data)
            writer.flush()

    def test_one_that_is_shorter_than_listed_is_refused_and_leaves_nothing(
        self, catalog: SqlCatalog, tmp_path: Path
    ) -> None:
        """A copy does not read entries, but it counts bytes."""
        table = new_table(catalog)
        append(table, 1)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        path = local(snapshot.manifests(table.io)[0].manifest_path)
        path.write_bytes(path.read_bytes()[:-1])
        before = files_under(f"file://{tmp_path}")
        with pytest.raises(UnsupportedTableError, match="bytes, its manifest list says"):
            capture(catalog, "db.t", into="icdc.x")
        assert files_under(f"file://{tmp_path}").keys() == before.keys()


def test_bounds_are_read_right_behind_a_decimal_partition(catalog: SqlCatalog) -> None:
    """PyIceberg cannot skip a decimal: whatever follows it in the entry would be read from the wrong bytes."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "price", DecimalType(20, 2)))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "price"))
    table = catalog.create_table("db.t", schema, partition_spec=spec)
    arrow = table.schema().as_arrow()
    for number in (7, 9):
        table.append(pa.table({"id": [number], "price": [Decimal("123456.78")]}, schema=arrow))
    record = capture(catalog, "db.t", into="icdc.x", range_columns=["id"])
    assert [(r.lower, r.upper) for r in record.ranges] == [(7, 9)]


def test_a_delete_and_an_append_in_one_transaction_are_two_snapshots(catalog: SqlCatalog) -> None:
    """The append alone looks additive; the delete before it is what refuses the range."""
    table = new_table(catalog)
    since = append(table, 1)
    middle = append(table, 2)
    with table.transaction() as both:
        both.delete("id = 2")
        both.append(pa.table({"id": [3], "day": [date(2026, 10, 1)], "note": ["x"]}, schema=SCHEMA))
    with pytest.raises(RefusedOperationError, match="removes 1 data files"):
        capture(catalog, "db.t", since=since, into="icdc.x")
    capture(catalog, "db.t", since=since, until=middle, into="icdc.before")
    assert rows(catalog, "icdc.before") == [2]
    capture(catalog, "db.t", since=since, into="icdc.log", on_other_operation="skip")
    assert rows(catalog, "icdc.log") == [2, 3]


def test_an_upsert_that_only_inserts_is_an_append(catalog: SqlCatalog) -> None:
    """One that updates is not."""
    table = new_table(catalog)
    since = append(table, 1)
    day = [date(2026, 10, 1)]
    table.upsert(pa.table({"id": [2], "day": day, "note": ["new"]}, schema=SCHEMA), join_cols=["id"])
    inserted = head(table)
    capture(catalog, "db.t", since=since, into="icdc.x")
    assert rows(catalog, "icdc.x") == [2]
    table.upsert(pa.table({"id": [2], "day": day, "note": ["other"]}, schema=SCHEMA), join_cols=["id"])
    with pytest.raises(RefusedOperationError):
        capture(catalog, "db.t", since=inserted, into="icdc.y")


def test_an_end_and_a_limit_contradict_each_other(catalog: SqlCatalog) -> None:
    """The limit would be ignored without anyone noticing."""
    table = new_table(catalog)
    since = append(table, 1)
    until = append(table, 2)
    with pytest.raises(InputError, match="max_files"):
        capture(catalog, "db.t", since=since, until=until, into="icdc.x", max_files=1)


def test_infinity_travels_as_text(catalog: SqlCatalog) -> None:
    """JSON has no such number, and the database of XComs would refuse it.

    The partition's summary says that there is no NaN; PyIceberg's statistics of the column do not.
    """
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "x", DoubleType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "x"))
    table = catalog.create_table("db.t", schema, partition_spec=spec)
    table.append(pa.table({"id": [1, 2], "x": [1.0, float("inf")]}, schema=table.schema().as_arrow()))
    record = capture(catalog, "db.t", into="icdc.x", range_columns=["x"])
    assert [(r.lower, r.upper) for r in record.partitions] == [(1.0, "Infinity")]
    assert "do not say whether they hold NaN" in record.ranges[0].reason
    json.dumps(record.to_json(), allow_nan=False)


def test_an_icdc_table_that_lost_its_manifest_list_can_be_dropped(catalog: SqlCatalog) -> None:
    """A rule that deletes old files must not leave a name that no commit gets rid of."""
    append(new_table(catalog), 1)
    capture(catalog, "db.t", into="icdc.x")
    snapshot = catalog.load_table("icdc.x").current_snapshot()
    assert snapshot is not None
    local(snapshot.manifest_list).unlink()
    assert drop_icdc(catalog, "icdc.x")
    assert not catalog.table_exists("icdc.x")
    assert rows(catalog, "db.t") == [1]
