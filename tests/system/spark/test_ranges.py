"""Captures in mode RANGE: Spark reads by itself what an ICDC table of the same range holds, or the range is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, ParseException

from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError, UnsupportedTableError
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_ips.core.identifiers import CapturedRange
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

Rows = list[tuple[object, ...]]
MERGE_ON_READ = {f"write_{what}_mode": "merge-on-read" for what in ("delete", "update", "merge")}


class Ranged(Story):
    """A story whose ranges are read by Spark itself, in every way that a job may."""

    def range(self, since: int | None, **options: Any) -> CapturedRange:
        """What a capture hands over; nothing is made for it."""
        record = self.capture(since, into=None, mode="RANGE", **options)
        assert record.captured_range is not None
        assert record.mode == "RANGE"
        return record.captured_range

    def by_range(self, since: int | None, **options: Any) -> Rows:
        """The rows by the reader's options, which SQL must read as well."""
        captured = self.range(since, **options)
        sql = captured.as_sql("lake")
        by_sql = self.lake.sql(f"select * from {sql}")
        assert by_sql == self.lake.sql(f"select s.* from {sql} s where true")
        assert self.lake.sql(f"select count(*) from {sql}") == [(len(by_sql),)]
        if captured.read_options is not None:
            read = self.lake.spark.read.format("iceberg").options(**captured.read_options)
            assert sorted(map(tuple, read.load(self.table).collect()), key=repr) == by_sql
        return by_sql

    def by_icdc(self, since: int | None, **options: Any) -> Rows:
        """The rows of a table of its own."""
        return self.lake.sql(f"select * from lake.{self.capture(since, **options).icdc_table}")

    def by_spark(self, since: int) -> Rows:
        """What Spark's incremental read gives, whether that is right or not."""
        options = {"start-snapshot-id": str(since), "end-snapshot-id": str(self.head)}
        read = self.lake.spark.read.format("iceberg").options(**options).load(self.table)
        return sorted(map(tuple, read.collect()), key=repr)


def filled(lake: LakeOfTwoEngines, **options: str) -> tuple[Ranged, int]:
    """A table by days with two files of three rows each, both consumed."""
    story = Ranged(lake, "id int, day string", partitioned="day", **options)
    story.insert("(1, 'a'), (2, 'a'), (3, 'b')")
    return story, story.insert("(4, 'a'), (5, 'b')")


def appends(story: Ranged) -> None:
    story.insert("(6, 'a')")
    story.insert("(7, 'c'), (8, 'c')")


def merged_manifests(story: Ranged) -> None:
    story.run("alter table {t} set tblproperties ('commit.manifest.min-count-to-merge'='2')")
    appends(story)
    story.insert("(9, 'a')")


def compacted(story: Ranged) -> None:
    appends(story)
    story.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    story.call("rewrite_manifests", "")
    story.insert("(9, 'a')")


def evolved(story: Ranged) -> None:
    story.insert("(6, 'a')")
    story.run("alter table {t} add column note string")
    story.run("alter table {t} add partition field bucket(2, id)")
    story.insert("(7, 'c', 'x')")
    story.run("alter table {t} rename column note to remark")
    story.run("alter table {t} drop column remark")


def rolled_back(story: Ranged) -> None:
    kept = story.insert("(6, 'a')")
    story.insert("(7, 'a')")
    story.call("rollback_to_snapshot", f"snapshot_id => {kept}")
    story.insert("(8, 'b')")


def cherry_picked(story: Ranged) -> None:
    story.run("alter table {t} set tblproperties ('write.wap.enabled'='true')")
    story.lake.spark.conf.set("spark.wap.id", f"audit {story.name}")
    story.run("insert into {t} values (6, 'a')")
    story.lake.spark.conf.unset("spark.wap.id")
    story.insert("(7, 'b')")
    story.call("publish_changes", f"wap_id => 'audit {story.name}'")


def deleted_after(story: Ranged) -> None:
    """Of files that the range has appended."""
    appends(story)
    story.run("delete from {t} where id in (6, 2)")
    story.insert("(9, 'a')")


def retained(story: Ranged) -> None:
    appends(story)
    story.run("delete from {t} where day = 'b'")


def overwrote_nothing(story: Ranged) -> None:
    story.lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    story.run("insert overwrite {t} values (6, 'z')")
    story.lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    story.insert("(7, 'a')")


@pytest.mark.parametrize("format_version", ["1", "2", "3"])
def test_spark_reads_a_range_as_its_icdc_table(lake: LakeOfTwoEngines, format_version: str) -> None:
    """Whatever a history of appends may have in between, one after the other, and the whole of it at the end."""
    story, first = filled(lake, format_version=format_version)
    since = first
    for write in (appends, merged_manifests, rolled_back, cherry_picked, compacted, evolved):
        write(story)
        assert story.by_range(since) == story.by_icdc(since), write.__name__
        assert {"start-snapshot-id": str(since), "end-snapshot-id": str(story.head)} == story.range(since).read_options
        since = story.head
    assert len(story.by_range(first)) == len(story.by_icdc(first)) == 17


def test_a_range_can_be_merged_from(lake: LakeOfTwoEngines) -> None:
    """MERGE takes no options of a table by itself, and a subquery as well as a table."""
    story, since = filled(lake)
    appends(story)
    target = Ranged(lake, "id int, day string")
    captured = story.range(since).as_sql("lake")
    for _ in range(2):
        target.run(f"merge into {{t}} t using {captured} s on t.id = s.id when not matched then insert *")
    assert lake.sql(f"select * from {target.table}") == [(6, "a"), (7, "c"), (8, "c")]


@pytest.mark.parametrize(
    ("write", "passing", "options"),
    [
        (deleted_after, "skip", {}),
        (deleted_after, "skip", MERGE_ON_READ),
        (retained, "skip_retention", {}),
    ],
)
def test_deletes_that_are_skipped_are_skipped_by_spark(
    lake: LakeOfTwoEngines, write: Callable[[Ranged], None], passing: str, options: dict[str, str]
) -> None:
    """The incremental read takes the log of appends, as the capture does, and is refused where that is not wanted."""
    story, since = filled(lake, **options)
    write(story)
    assert story.by_range(since, on_other_operation=passing) == story.by_icdc(since, on_other_operation=passing)
    with pytest.raises(RefusedOperationError, match="is not an append"):
        story.range(since)


def test_a_range_that_spark_would_read_otherwise_is_refused(lake: LakeOfTwoEngines) -> None:
    """An overwrite into a new partition is an append, which Spark's incremental read leaves out without a word."""
    story, since = filled(lake)
    overwrote_nothing(story)
    assert story.by_icdc(since) == [(6, "z"), (7, "a")]
    assert story.by_spark(since) == [(7, "a")]
    with pytest.raises(RefusedOperationError, match="takes snapshots with the operation append only"):
        story.range(since)


def test_all_rows_are_read_as_of_a_snapshot(lake: LakeOfTwoEngines) -> None:
    """A first run, with the deletes that apply; not once the schema has changed, by which that snapshot is read."""
    story, _ = filled(lake, **MERGE_ON_READ)
    story.run("delete from {t} where id = 2")
    assert story.range(None).read_options == {"versionAsOf": str(story.head)}
    assert story.by_range(None) == story.by_icdc(None) == [(1, "a"), (3, "b"), (4, "a"), (5, "b")]
    record = story.capture(None, into=None, mode="RANGE")
    assert (record.snapshot_id, record.branch) == (story.head, None)
    story.run("alter table {t} add column note string")
    with pytest.raises(UnsupportedTableError, match="has another schema now"):
        story.range(None)
    story.run("insert into {t} values (6, 'a', 'x')")
    assert story.by_range(None) == story.by_icdc(None)


def test_a_name_that_is_taken_for_a_table_fails(lake: LakeOfTwoEngines) -> None:
    """A job that has not been changed for this mode never reads the whole source instead."""
    story, since = filled(lake)
    appends(story)
    captured = story.range(since)
    for name in (f"lake.{captured}", str(captured)):
        with pytest.raises(AnalysisException):
            lake.spark.table(name)
    with pytest.raises(ParseException):
        lake.spark.table(captured.as_sql("lake"))


def test_a_range_whose_snapshots_expire_is_an_error_of_the_engine(lake: LakeOfTwoEngines) -> None:
    """Also if the job comes much later; its start may expire, as the next snapshot names it."""
    story, since = filled(lake)
    appends(story)
    captured = story.range(since)
    story.insert("(9, 'a')")
    story.call("expire_snapshots", f"snapshot_ids => array({since})")
    assert story.lake.sql(f"select id from {captured.as_sql('lake')}") == [(6,), (7,), (8,)]
    assert story.by_range(since) == [(6, "a"), (7, "c"), (8, "c"), (9, "a")]
    story.call("expire_snapshots", "older_than => timestamp'2999-01-01 00:00:00', retain_last => 1")
    with pytest.raises(Exception, match=r"Cannot find|not a parent ancestor"):
        story.lake.sql(f"select id from {captured.as_sql('lake')}")
    with pytest.raises(GapError):
        story.range(since)


def test_what_no_range_can_be_is_refused(lake: LakeOfTwoEngines) -> None:
    """Before anything is looked at, and with the modes that can."""
    story, since = filled(lake)
    appends(story)
    for wrong in (
        {"partitions": "day = 'a'"},
        {"data_operations": ("append", "overwrite", "delete")},
        {"on_gap": "resync"},
    ):
        with pytest.raises(InputError, match="capture_mode='RANGE' does not go with"):
            story.range(since, **wrong)
    with pytest.raises(InputError, match="does not fit mode RANGE"):
        story.range(since, location="file:///tmp/icdc")


def test_no_engine_of_today_reads_changes_by_sql(lake: LakeOfTwoEngines) -> None:
    """`CHANGES FROM VERSION` comes with Spark 4.2. Once this fails, the page on modes has to be read again."""
    story, since = filled(lake)
    with pytest.raises(ParseException):
        lake.sql(f"select * from {story.table} changes from version {since} to version {story.head}")
