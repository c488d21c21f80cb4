"""What writers count and what their manifest lists name: no honest table may look as if its list had been cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.live_files import check_manifest_list
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.totals import totals_in_summary, totals_of_entries
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

APPENDS = (
    "insert into {t} select /*+ coalesce(1) */ cast(id as int), cast(id % 3 as int) from range(20)",
    "insert into {t} values (30, 0), (31, 1)",
    "insert into {t} select 1, 1 where false",
)
MERGE = """merge into {t} t using (select 7 id, 1 p union all select 70, 2) s on t.id = s.id
when matched then update set p = s.p when not matched then insert *"""
CHANGES = (
    "update {t} set p = 2 where id = 3",
    "update {t} set id = -4 where id = 4",
    "delete from {t} where id in (5, 6)",
    "delete from {t} where id = 9",
    "delete from {t} where id = 12",
    MERGE,
    "delete from {t} where p = 0",
    "insert overwrite {t} values (80, 1), (81, 2)",
    "delete from {t}",
    "insert into {t} values (90, 0)",
)
UPKEEP = (
    ("rewrite_position_delete_files", "options => map('rewrite-all', 'true')"),
    ("rewrite_data_files", "options => map('rewrite-all', 'true')"),
    ("rewrite_manifests", ""),
)


def check(story: Story, after: str) -> None:
    """Compare every retained snapshot's list with its totals."""
    source = open_source(story.lake.catalog, Source(story.name))
    for snapshot in source.retained_snapshots():
        check_manifest_list(f"{story.name} after {after!r}", snapshot, source.reads_manifests(snapshot.snapshot_id))


@pytest.mark.parametrize(
    ("format_version", "mode"), [("1", "copy-on-write"), ("2", "merge-on-read"), ("3", "merge-on-read")]
)
def test_every_kind_of_commit_counts_what_it_lists(lake: LakeOfTwoEngines, format_version: str, mode: str) -> None:
    """By Spark and PyIceberg, with upkeep after every change, on every format."""
    modes = {f"write_{what}_mode": mode for what in ("delete", "update", "merge")}
    story = Story(lake, "id int, p int", partitioned="p", format_version=format_version, **modes)
    for statement in APPENDS:
        story.run(statement)
        check(story, statement)
    for index, statement in enumerate(CHANGES):
        story.run(statement)
        check(story, statement)
        procedure, arguments = UPKEEP[index % len(UPKEEP)]
        if procedure != "rewrite_position_delete_files" or format_version == "2":
            story.call(procedure, arguments)
            check(story, procedure)
    story.lake.spark.sql(f"create or replace table {story.table} using iceberg as select 1 id, 0 p")
    check(story, "create or replace")


@pytest.mark.parametrize("format_version", ["1", "2"])
def test_pyiceberg_counts_what_it_lists(lake: LakeOfTwoEngines, format_version: str) -> None:
    """Appends, overwrites, upserts and deletes, of whole files and of parts."""
    story = Story(lake, "id int, p int", format_version=format_version)
    story.insert("(1, 1), (2, 1)")
    table = lake.catalog.load_table(story.name)
    arrow = pa.table({"id": pa.array([3, 4], pa.int32()), "p": pa.array([1, 1], pa.int32())})
    table.append(arrow)
    table.upsert(arrow.set_column(1, "p", pa.array([5, 1], pa.int32())), join_cols=["id"])
    table.overwrite(arrow, overwrite_filter="id = 1")
    table.delete("id = 2")
    table.delete("id = 4")
    table.overwrite(arrow)
    table.delete("id > 0")
    table.append(arrow)
    check(story, "pyiceberg")


@pytest.mark.parametrize("format_version", ["2", "3"])
def test_an_icdc_tables_summary_counts_its_deletes(lake: LakeOfTwoEngines, format_version: str) -> None:
    """Of all live files as the source's own summary does, and of a change: no engine may count by records alone."""
    modes = {f"write_{what}_mode": "merge-on-read" for what in ("delete", "update", "merge")}
    story = Story(lake, "id int, p int", format_version=format_version, **modes)
    first = story.insert("(1, 1), (2, 1), (3, 1), (4, 2)")
    story.run("delete from {t} where id in (1, 3)")
    story.run("update {t} set p = 9 where id = 2")
    source = lake.catalog.load_table(story.name)

    whole = lake.catalog.load_table(str(story.capture(None).icdc_table))
    assert totals_in_summary(whole) == totals_of_entries(whole) == totals_in_summary(source)
    assert totals_in_summary(whole)["position-deletes"] == 3

    record = story.capture(first, data_operations=ALL_OPERATIONS, on_superset="allow")
    for name in (record.icdc_table, record.before_table):
        table = lake.catalog.load_table(str(name))
        assert totals_in_summary(table) == totals_of_entries(table)
