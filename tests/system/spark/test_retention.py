"""Retention as Spark and PyIceberg run it: whole old days go, and the log of appends goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import RefusedOperationError
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]


def days(lake: LakeOfTwoEngines, format_version: str) -> tuple[Story, int]:
    """Three old days of two rows each, with a row-level delete on one of them where the format has such."""
    story = Story(
        lake, "id int, day date", partitioned="day", format_version=format_version, write_delete_mode="merge-on-read"
    )
    day = "cast(date_add(date'2026-10-01', cast(id / 10 as int)) as date)"
    story.run(
        f"insert into {{t}} select /*+ coalesce(1) */ cast(id as int), {day} from values 1, 2, 11, 12, 21, 22 v(id)"
    )
    if format_version != "1":
        story.run("delete from {t} where id = 2")
    return story, story.head


@pytest.mark.parametrize("format_version", ["1", "2", "3"])
def test_whole_days_go_while_new_ones_come(lake: LakeOfTwoEngines, format_version: str) -> None:
    """With their delete files. In format v1 all numbers are 0, and partitions decide."""
    story, since = days(lake, format_version)
    story.insert("(31, date'2026-10-04')")
    story.run("delete from {t} where day < date'2026-10-02'")
    story.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    story.insert("(41, date'2026-10-05')")
    story.run("delete from {t} where day = date'2026-10-02'")
    with pytest.raises(RefusedOperationError, match="is not an append"):
        story.capture(since)
    record = story.capture(since, on_other_operation="skip_retention")
    assert lake.sql(f"select id from lake.{record.icdc_table}") == [(31,), (41,)]
    passed_over = [v.reason for v in record.verdicts if v.reason.startswith("retention")]
    assert len(passed_over) == 2
    assert ("removes 1 delete files" in passed_over[0]) == (format_version != "1")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("delete from {t} where id = 11", "is not an append: it adds 1 delete files"),
        ("update {t} set id = 99 where id = 11", "is not an append"),
        ("delete from {t} where day = date'2026-10-04'", "more than retention: it removes"),
        ("insert overwrite {t} values (50, date'2026-10-04')", "is not an append"),
        ("truncate table {t}", "more than retention: it removes"),
    ],
)
def test_anything_else_is_refused(lake: LakeOfTwoEngines, statement: str, says: str) -> None:
    """A row-level delete, an update, a day of the range itself, an overwrite, everything."""
    story, since = days(lake, "2")
    story.insert("(31, date'2026-10-04')")
    story.run(statement)
    with pytest.raises(RefusedOperationError, match=says):
        story.capture(since, on_other_operation="skip_retention")


def test_a_day_that_late_rows_came_for_is_no_retention(lake: LakeOfTwoEngines) -> None:
    """Whether they went with it cannot be left open."""
    story, since = days(lake, "2")
    story.insert("(13, date'2026-10-02')")
    story.run("delete from {t} where day <= date'2026-10-02'")
    with pytest.raises(RefusedOperationError, match="from a partition that gained rows in the range"):
        story.capture(since, on_other_operation="skip_retention")


def test_a_changed_partitioning_is_compared_with_nothing(lake: LakeOfTwoEngines) -> None:
    """Days and hours of the same rows are different partitions."""
    story, since = days(lake, "2")
    story.run("alter table {t} add partition field bucket(4, id)")
    story.run("delete from {t} where day = date'2026-10-01'")
    assert story.captured(since, on_other_operation="skip_retention") == []
    story.insert("(31, date'2026-10-04')")
    with pytest.raises(RefusedOperationError, match="partitioned by another spec"):
        story.capture(since, on_other_operation="skip_retention")


def test_pyiceberg_deletes_whole_files_too(lake: LakeOfTwoEngines) -> None:
    """Its delete of a part of a file is a rewrite, and refused."""
    story, since = days(lake, "1")
    story.insert("(31, date'2026-10-04')")
    table = lake.catalog.load_table(story.name)
    table.delete("day < '2026-10-02'")
    assert story.captured(since, on_other_operation="skip_retention") == [31]
    table.refresh().delete("id = 11")
    with pytest.raises(RefusedOperationError, match="is not an append"):
        story.capture(since, on_other_operation="skip_retention")
