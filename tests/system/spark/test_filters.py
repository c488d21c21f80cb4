"""Partition filters over what Spark writes: deletes of every kind, and both engines read the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import InputError
from tests.system.spark.test_changes import MODES, Changes

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

CONDITIONS = [
    "day >= '2026-10-02'",
    "day = '2026-10-01' or day is null",
    "day != '2026-10-02'",
]


@pytest.mark.parametrize(("format_version", "mode"), MODES)
def test_a_filtered_capture_holds_the_rows_of_the_whole_one_that_meet_it(
    lake: LakeOfTwoEngines, format_version: str, mode: str
) -> None:
    """Of everything, and of changes on both sides, with updates, deletes and a row that moves between partitions."""
    story = Changes(lake, "id int, a string, day date", partitioned="day", mode=mode, format_version=format_version)
    days = [f"date'2026-10-0{n}'" for n in (1, 2, 3)]
    story.insert(", ".join(f"({10 * n + i}, 'a', {day})" for n, day in enumerate(days, 1) for i in range(4)))
    story.insert("(1, 'a', null), (2, 'b', null)")
    first = story.run("delete from {t} where id = 10")
    story.run("update {t} set a = 'changed' where id in (11, 21, 1)")
    story.run(f"update {{t}} set day = {days[2]} where id = 22")
    story.insert(f"(50, 'new', {days[0]}), (51, 'new', {days[2]})")
    story.run("delete from {t} where id in (12, 31)")
    story.run(f"delete from {{t}} where day = {days[1]} and id = 23")

    whole = story.change(first)
    for condition in CONDITIONS:
        assert story.source(story.capture(None, partitions=condition)) == lake.sql(
            f"select * from {story.table} where {condition}"
        )
        some = story.change(first, partitions=condition)
        assert story.source(some) == lake.sql(f"select * from lake.{whole.icdc_table} where {condition}")
        assert story.before(some) == lake.sql(f"select * from lake.{whole.before_table} where {condition}")


def test_what_spark_calls_days_hours_buckets_and_prefixes(lake: LakeOfTwoEngines) -> None:
    """The values that another writer gives its partitions are read as it means them."""
    story = Changes(
        lake,
        "id bigint, ts timestamp, note timestamp_ntz, name string, price decimal(9, 2)",
        partitioned="days(ts), hours(note), truncate(2, name), truncate(1000, price)",
    )
    moments = ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2026-10-01 05:30:00", "2026-10-02 00:00:00"]
    story.insert(
        ", ".join(
            f"({i}, timestamp'{moment}+00:00', timestamp_ntz'{moment}', '{name}', {price})"
            for i, (moment, name, price) in enumerate(
                (moment, name, price) for moment in moments for name, price in (("abc", 9.99), ("b", 10), ("é", -0.01))
            )
        )
    )
    for condition, sql in (
        ("ts >= '2026-10-01'", "ts >= timestamp'2026-10-01 00:00:00+00:00'"),
        (
            "note < '2026-10-01T06:00:00' and note >= '1971-01-01'",
            "note between '1971-01-01' and '2026-10-01 05:59:59'",
        ),
        ("name like 'ab%' or name = 'b'", "name like 'ab%' or name = 'b'"),
        ("price < 0 or price >= 10.00", "price < 0 or price >= 10.00"),
    ):
        assert story.source(story.capture(None, partitions=condition), "id") == lake.sql(
            f"select id from {story.table} where {sql}"
        )


def test_a_table_that_was_partitioned_later_is_told_by_its_new_files(lake: LakeOfTwoEngines) -> None:
    """Older files may hold any day: a range without them is filtered, one with them is refused and says why."""
    story = Changes(lake, "id int, day date")
    first = story.insert("(1, date'2026-10-01')")
    story.run("alter table {t} add partition field day")
    story.insert("(2, date'2026-10-01'), (3, date'2026-10-02')")

    assert story.captured(first, partitions="day = '2026-10-01'") == [2]
    with pytest.raises(InputError, match="which does not divide by 'day'"):
        story.capture(None, partitions="day = '2026-10-01'")
    story.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    assert story.captured(None, partitions="day = '2026-10-01'") == [1, 2]
