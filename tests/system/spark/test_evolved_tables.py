"""Tables that Spark evolved in every way that renumbers, reorders or respecifies, read back by both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.advice.target_evidence import has_stamp
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from airflow_provider_ips.stamps import STAMP_CONF, is_stamped
from dags_examples.jobs.append import already_holds

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

BEFORE = "(1, 2)"
COLUMNS = "id, a, b, day, category"
FILTERS = ("day = date'2026-01-05'", "category = 'c4' and id > 11", "id = 3", "day = date'2026-01-01'", "b >= 4.5")


def evolve(lake: LakeOfTwoEngines, name: str, format_version: int) -> int:
    """Make a table with a long past; give the snapshot after which everything else was appended."""
    table = f"lake.{name}"
    ddl, then = lake.spark.sql, f"alter table {table}"
    ddl(
        f"create table {table} (id int, a string, b float, day date, cat string) using iceberg partitioned by (day) "
        f"tblproperties ('format-version'='{format_version}', 'commit.manifest.min-count-to-merge'='3')"
    )
    ddl(f"insert into {table} values (1, 'x', 1.5, date'2026-01-01', 'c1'), (2, 'y', 2.5, date'2026-01-02', 'c2')")
    snapshot = lake.catalog.load_table(name).current_snapshot()
    assert snapshot is not None
    ddl(f"insert into {table} values (3, 'p', 3.5, date'2026-01-01', 'c1')")
    for change in (
        "drop column a",
        "add column a string",
        "alter column id type bigint",
        "alter column b type double",
        "rename column cat to category",
        "alter column category first",
        "add partition field bucket(4, category)",
    ):
        ddl(f"{then} {change}")
    insert = f"insert into {table} (id, a, b, day, category) values"
    ddl(f"{insert} (5000000000, 'n', 4.5, date'2026-01-03', 'c3')")
    for change in (
        "drop partition field bucket(4, category)",
        "drop partition field day",
        "write ordered by id",
        "add column extra int",
        "add partition field extra",
    ):
        ddl(f"{then} {change}")
    ddl(f"insert into {table} (id, a, b, day, category, extra) values (6, 'm', 5.5, date'2026-01-04', 'c4', 7)")
    ddl(f"{then} drop partition field extra")
    if format_version > 1:  # a v1 spec keeps a void field on the column, which Spark then refuses to drop
        ddl(f"{then} drop column extra")
    for i in range(10, 16):
        ddl(f"{insert} ({i}, 'm{i}', 5.5, date'2026-01-05', 'c4')")
    return snapshot.snapshot_id


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_an_evolved_table_reads_the_same_through_its_icdc_table(lake: LakeOfTwoEngines, format_version: int) -> None:
    """Every value in its column, in both engines, and no filter prunes a row that is there."""
    name, icdc = f"db.evolved{format_version}", f"icdc.evolved{format_version}"
    since = evolve(lake, name, format_version)
    record = capture(lake.catalog, name, since=since, into=icdc, range_columns=["id", "b"])

    expected = lake.sql(f"select {COLUMNS} from lake.{name} where id not in {BEFORE}")
    assert len(expected) == record.captured.records == 9
    assert lake.sql(f"select {COLUMNS} from lake.{icdc}") == expected
    wanted = COLUMNS.split(", ")
    arrow = lake.catalog.load_table(icdc).scan().to_arrow().select(wanted)
    assert sorted((tuple(r[c] for c in wanted) for r in arrow.to_pylist()), key=repr) == expected
    for condition in FILTERS:
        there = lake.sql(f"select id from lake.{name} where id not in {BEFORE} and {condition}")
        assert lake.sql(f"select id from lake.{icdc} where {condition}") == there, condition
    assert [(r.column, r.lower, r.upper) for r in record.ranges] == [("id", 3, 5000000000), ("b", 3.5, 5.5)]

    whole, columns = f"icdc.whole{format_version}", COLUMNS
    assert capture(lake.catalog, name, into=whole).kind is Kind.FULL
    if format_version == 3:  # rows keep who they are and when they changed
        columns += ", _row_id, _last_updated_sequence_number"
        tail = lake.sql(f"select {columns} from lake.{name} where id not in {BEFORE}")
        assert lake.sql(f"select {columns} from lake.{icdc}") == tail
    assert lake.sql(f"select {columns} from lake.{whole}") == lake.sql(f"select {columns} from lake.{name}")


def test_compaction_in_the_range_adds_nothing(lake: LakeOfTwoEngines) -> None:
    """The originals stand for themselves."""
    since = evolve(lake, "db.compacted", 2)
    expected = lake.sql(f"select {COLUMNS} from lake.db.compacted where id not in {BEFORE}")
    lake.spark.sql(
        "call lake.system.rewrite_data_files(table => 'db.compacted', options => map('min-input-files', '2'))"
    )
    capture(lake.catalog, "db.compacted", since=since, into="icdc.compacted")
    assert lake.sql(f"select {COLUMNS} from lake.icdc.compacted") == expected


def test_spark_cannot_destroy_what_an_icdc_table_points_to(lake: LakeOfTwoEngines) -> None:
    """``gc.enabled=false`` makes it refuse a purge, an expiry and an orphan clean-up."""
    lake.spark.sql("create table lake.db.guarded (id int) using iceberg")
    lake.spark.sql("insert into lake.db.guarded values (1)")
    capture(lake.catalog, "db.guarded", into="icdc.guarded")
    for statement in (
        "drop table lake.icdc.guarded purge",
        "call lake.system.expire_snapshots(table => 'icdc.guarded', older_than => timestamp'2030-01-01 00:00:00')",
        "call lake.system.remove_orphan_files(table => 'icdc.guarded')",
    ):
        with pytest.raises(Exception, match="GC is disabled"):
            lake.spark.sql(statement)
    assert lake.sql("select id from lake.db.guarded") == lake.sql("select id from lake.icdc.guarded") == [(1,)]
    lake.spark.sql("drop table lake.icdc.guarded")
    assert lake.sql("select id from lake.db.guarded") == [(1,)]


def test_a_view_is_named_as_one(lake: LakeOfTwoEngines) -> None:
    """Spark made it; PyIceberg's SQL catalog only says that there is no such table."""
    lake.spark.sql("create table lake.db.viewed (id int) using iceberg")
    lake.spark.sql("create view lake.db.a_view as select id from lake.db.viewed")
    with pytest.raises(InputError, match=r"db\.a_view is a view, not a table"):
        capture(lake.catalog, "db.a_view", into="icdc.of_a_view")
    with pytest.raises(InputError, match=r"db\.neither does not exist"):
        capture(lake.catalog, "db.neither", into="icdc.of_neither")


def test_a_job_can_ask_its_target_for_the_stamp(lake: LakeOfTwoEngines) -> None:
    """Live history only: after a rollback the rows are not there, and must be inserted again."""
    lake.spark.sql("create table lake.db.stamped (id int) using iceberg")
    lake.spark.sql("insert into lake.db.stamped values (1)")
    first = lake.catalog.load_table("db.stamped").current_snapshot()
    assert first is not None
    with pytest.raises(InputError, match="no capture id"):
        is_stamped(lake.spark, "lake.db.stamped")
    lake.spark.conf.set(STAMP_CONF, "c1")
    assert not is_stamped(lake.spark, "lake.db.stamped")
    lake.spark.sql("insert into lake.db.stamped values (2)")
    assert is_stamped(lake.spark, "lake.db.stamped")
    assert not is_stamped(lake.spark, "lake.db.stamped", "c2")
    lake.spark.conf.unset(STAMP_CONF)
    lake.spark.sql(f"call lake.system.rollback_to_snapshot('db.stamped', {first.snapshot_id})")
    assert not is_stamped(lake.spark, "lake.db.stamped", "c1")


def test_the_stamp_is_seen_below_the_head_of_a_published_branch(lake: LakeOfTwoEngines) -> None:
    """Only the branch's newest commit ever was main's head. What was never published does not count."""
    table = "lake.db.published"
    lake.spark.sql(f"create table {table} (id int) using iceberg")
    assert not is_stamped(lake.spark, table, "c1")
    lake.spark.sql(f"insert into {table} values (1)")
    lake.spark.sql(f"alter table {table} create branch audit")
    lake.spark.conf.set(STAMP_CONF, "c1")
    lake.spark.sql(f"insert into {table}.branch_audit values (2)")
    lake.spark.conf.unset(STAMP_CONF)
    lake.spark.sql(f"insert into {table}.branch_audit values (3)")
    assert not is_stamped(lake.spark, table, "c1")
    lake.spark.sql(f"call lake.system.fast_forward('{table}', 'main', 'audit')")
    assert is_stamped(lake.spark, table, "c1")
    assert already_holds(lake.spark, table, "c1")
    assert not already_holds(lake.spark, table, "c2")


def test_the_stamp_of_what_was_cherry_picked_is_not_seen(lake: LakeOfTwoEngines) -> None:
    """The procedure commits a copy without it, whatever Spark's conf says: the job would insert again."""
    table = "lake.db.picked"
    lake.spark.sql(f"create table {table} (id int) using iceberg tblproperties ('write.wap.enabled'='true')")
    lake.spark.sql(f"insert into {table} values (1)")
    lake.spark.conf.set(STAMP_CONF, "c1")
    lake.spark.conf.set("spark.wap.id", "audited")
    lake.spark.sql(f"insert into {table} values (2)")
    lake.spark.conf.unset("spark.wap.id")
    lake.spark.conf.unset(STAMP_CONF)
    lake.spark.sql(f"insert into {table} values (3)")  # else main's head would become the staged snapshot itself
    lake.spark.conf.set(STAMP_CONF, "c1")
    lake.spark.sql(f"call lake.system.publish_changes('{table}', 'audited')")
    lake.spark.conf.unset(STAMP_CONF)
    assert lake.sql(f"select id from {table} order by id") == [(1,), (2,), (3,)]
    assert not is_stamped(lake.spark, table, "c1")
    assert not has_stamp(open_source(lake.catalog, Source("db.picked")), "c1")
