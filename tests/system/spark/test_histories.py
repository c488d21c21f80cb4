"""Histories that could make an append capture silently wrong, as Spark writes them; both engines read the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import GapError, RefusedOperationError
from tests.kit.local_tables import files_under
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]


def test_a_range_follows_branches_wherever_main_goes(lake: LakeOfTwoEngines) -> None:
    """Staged, cherry-picked, fast-forwarded and rolled back: what main descends from counts, and only that."""
    story = Story(lake, "id int", write_wap_enabled="true")
    first = story.insert("(1)")
    lake.spark.conf.set("spark.wap.id", "staged")
    story.insert("(2)")
    lake.spark.conf.unset("spark.wap.id")
    staged = next(s for s in lake.catalog.load_table(story.name).metadata.snapshots if s.snapshot_id != first)
    assert story.captured(first) == []
    story.insert("(3)")
    assert story.captured(first) == [3]
    picked = story.call("cherrypick_snapshot", f"snapshot_id => {staged.snapshot_id}")
    assert story.captured(first) == [2, 3]
    with pytest.raises(GapError):
        story.capture(staged.snapshot_id)
    story.run("alter table {t} create branch audit")
    lake.spark.sql(f"insert into {story.table}.branch_audit values (4)")
    assert story.captured(picked) == []
    assert story.captured(picked, branch="audit") == [4]
    forward = story.call("fast_forward", "branch => 'main', to => 'audit'")
    assert story.captured(picked) == [4]
    story.call("rollback_to_snapshot", f"snapshot_id => {picked}")
    story.insert("(5)")
    assert story.captured(first) == [2, 3, 5]
    with pytest.raises(GapError):
        story.capture(forward)


@pytest.mark.parametrize("format_version", ["1", "3"])
def test_maintenance_between_appends_loses_and_adds_nothing(lake: LakeOfTwoEngines, format_version: str) -> None:
    """Rewritten manifests name another snapshot, compaction replaces files, and the range stays what was appended."""
    story = Story(lake, "id int, p int", partitioned="p", format_version=format_version)
    first = story.insert("(1, 1)")
    story.insert("(2, 1), (3, 2)")
    middle = story.insert("(4, 1)")
    story.call("rewrite_manifests", "")
    story.insert("(5, 3)")
    assert story.captured(first) == [2, 3, 4, 5]
    story.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    story.insert("(6, 1)")
    assert story.captured(first) == [2, 3, 4, 5, 6]
    assert story.captured(first, until=middle) == [2, 3, 4]
    assert story.captured(first, max_files=1) == [2, 3]
    assert story.captured(first, max_snapshots=3) == [2, 3, 4, 5]
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    into_new = story.run("insert overwrite {t} values (7, 9)")
    assert story.captured(first) == [2, 3, 4, 5, 6, 7]
    story.run("insert overwrite {t} values (8, 9)")
    lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    for since in (first, into_new):
        with pytest.raises(RefusedOperationError, match="removes 1 data files"):
            story.capture(since)
    assert story.captured(first, on_other_operation="skip") == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("format_version", "mode"), [("2", "copy-on-write"), ("3", "merge-on-read")])
def test_statements_that_change_rows_are_refused_by_what_they_did(
    lake: LakeOfTwoEngines, format_version: str, mode: str
) -> None:
    """A merge that only inserts is an append; none of this touches a file of the source."""
    modes = {f"write_{what}_mode": mode for what in ("delete", "update", "merge")}
    story = Story(lake, "id int, a string", partitioned="a", format_version=format_version, **modes)
    first = story.run("insert into {t} select /*+ coalesce(1) */ id, 'a' from range(5)")
    merge = "merge into {t} t using (%s) s on t.id = s.id %s when not matched then insert *"
    story.run(merge % ("select 10 id, 'n' a", ""))
    assert story.captured(first) == [10]
    for change in (
        "update {t} set a = 'z' where id = 1",
        "delete from {t} where id = 2",
        "delete from {t} where a = 'n'",
        merge % ("select 3 id, 'm' a union all select 11, 'm'", "when matched then update set a = s.a"),
    ):
        before = story.head
        story.run(change)
        with pytest.raises(RefusedOperationError, match="is not an append"):
            story.capture(before)
        assert story.captured(before, on_other_operation="skip") == []
    after = story.head
    story.run("delete from {t} where id = 999")
    story.insert("(20, 'q')")
    story.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    story.insert("(21, 'q')")
    location = lake.catalog.load_table(story.name).location()
    untouched = files_under(location)
    assert story.captured(after) == [20, 21]
    assert story.captured(None) == [0, 1, 3, 4, 11, 20, 21]
    assert files_under(location) == untouched


def test_a_replaced_table_begins_anew(lake: LakeOfTwoEngines) -> None:
    """It keeps its uuid and its old snapshots; only the lineage shows it."""
    story = Story(lake, "id int, a string")
    lost = story.insert("(1, 'x'), (2, 'x')")
    replaced = story.run("create or replace table {t} using iceberg as select 'q' a, 10L id")
    story.insert("('w', 11)")
    with pytest.raises(GapError):
        story.capture(lost)
    assert story.captured(replaced) == [11]
    assert story.captured(None, initial="2020-01-01T00:00:00+00:00") == [10, 11]


def test_upgrades_in_the_range_keep_rows_and_row_ids(lake: LakeOfTwoEngines) -> None:
    """From v1 by way of v2 to v3, with manifests merged by each; v3 gave the older manifests their row ids."""
    story = Story(lake, "id int", format_version="1", commit_manifest_min__count__to__merge="2")
    first = story.insert("(1)")
    for version in ("2", "3"):
        story.insert(f"({version}0)")
        story.insert(f"({version}1), ({version}2)")
        story.run("insert into {t} select 1 where false")
        story.run(f"alter table {{t}} set tblproperties ('format-version'='{version}')")
    story.run("alter table {t} set tblproperties ('commit.manifest-merge.enabled'='false')")
    story.insert("(40)")
    assert story.captured(first) == [20, 21, 22, 30, 31, 32, 40]
    icdc = story.capture(first).icdc_table
    columns = "select id, _row_id, _last_updated_sequence_number from"
    there = {row[0]: row[1:] for row in lake.sql(f"{columns} {story.table}")}
    here = {row[0]: row[1:] for row in lake.sql(f"{columns} lake.{icdc}")}
    # 20 to 30 are in manifests that were merged away before v3 gave ids; a wrong id would be worse than none.
    assert {i: here[i] for i in (31, 32, 40)} == {i: there[i] for i in (31, 32, 40)}
    assert all(here[i] in ((None, None), there[i]) for i in here)


def test_columns_with_defaults_read_the_same(lake: LakeOfTwoEngines) -> None:
    """Files from before a column was added give its initial default, not null."""
    story = Story(lake, "id int", format_version="3")
    first = story.insert("(1)")
    story.insert("(2)")
    jvm = lake.spark._jvm  # Spark's SQL cannot add a column with a default
    assert jvm is not None
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lake.spark._jsparkSession, story.table)
    types, literal = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Literal
    date = literal.of("2026-01-02").to(types.DateType.get())
    added = table.updateSchema().addColumn("n", types.IntegerType.get(), None, literal.of(7))
    added.addColumn("day", types.DateType.get(), None, date).commit()
    story.run("insert into {t} (id) values (3)")
    icdc = story.capture(first).icdc_table
    assert icdc is not None
    expected = lake.sql(f"select * from {story.table} where id > 1")
    assert [str(row[2]) for row in expected] == ["2026-01-02", "2026-01-02"]
    assert lake.sql(f"select * from lake.{icdc}") == expected
    assert sorted(lake.catalog.load_table(icdc).scan().to_arrow()["n"].to_pylist()) == [7, 7]


FILTERS = (
    "l = 9",
    "l = 5000000000",
    "f = 1.5",
    "f is null",
    "dc = 12.34",
    "dc = 1234567890123.45",
    "ts = timestamp'2026-01-01 01:02:03'",
    "dt = date'2026-01-01'",
    "st like 'a l%'",
    "bi = cast('xx' as binary)",
)


@pytest.mark.parametrize("format_version", ["1", "2"])
def test_promoted_partition_columns_prune_no_row_away(lake: LakeOfTwoEngines, format_version: str) -> None:
    """Spliced manifests get summaries of their own; one too narrow would hide rows from filters."""
    story = Story(
        lake,
        "id int, l int, f float, dc decimal(9, 2), ts timestamp, dt date, st string, bi binary",
        partitioned="l, f, dc, days(ts), months(dt), truncate(3, st), bi",
        format_version=format_version,
        commit_manifest_min__count__to__merge="2",
    )
    rest = "timestamp'2026-01-01 01:02:03', date'2026-01-01', 'a long string', cast('xx' as binary)"
    first = story.insert(f"(1, 9, float(1.5), 12.34, {rest})")
    story.insert(f"(2, 9, float(1.5), 12.34, {rest}), (3, 9, null, null, null, null, null, null)")
    for change in ("l type bigint", "f type double", "dc type decimal(18, 2)"):
        story.run(f"alter table {{t}} alter column {change}")
    story.insert(f"(4, 5000000000, double(2.5), 1234567890123.45, {rest})")
    record = story.capture(first, range_columns=["l", "id"])
    assert [(r.lower, r.upper) for r in record.ranges] == [(9, 5_000_000_000), (2, 4)]
    for condition in FILTERS:
        expected = lake.sql(f"select id from {story.table} where id > 1 and {condition}")
        assert expected
        assert lake.sql(f"select id from lake.{record.icdc_table} where {condition}") == expected, condition


def test_nan_makes_a_range_unknown(lake: LakeOfTwoEngines) -> None:
    """It is outside of all bounds, so rows between them would not be all the rows."""
    story = Story(lake, "id int, x double", partitioned="x")
    first = story.insert("(1, 1.0), (2, 2.0)")
    known = story.capture(None, range_columns=["x"])
    assert [(r.lower, r.upper) for r in (*known.ranges, *known.partitions)] == [(1.0, 2.0)] * 2
    story.insert("(3, 1.0), (4, double('NaN'))")
    unknown = story.capture(first, range_columns=["x"])
    assert [r.known for r in (*unknown.ranges, *unknown.partitions)] == [False, False]
