"""Which partitions a job wrote, by the snapshots with its capture's stamp, as Spark writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.iceberg.partitions.partition_sets import written_partitions
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"


def stamped(story: Story, capture_id: str, *statements: str) -> None:
    """Run statements whose snapshots carry a capture's id, as a job with Spark's conf does."""
    story.lake.spark.conf.set(STAMP, capture_id)
    try:
        for statement in statements:
            story.run(statement)
    finally:
        story.lake.spark.conf.unset(STAMP)


def touched(story: Story, capture_id: str) -> set[str] | None:
    return written_partitions(open_source(story.lake.catalog, Source(story.name)), capture_id)


def test_keys_of_every_transform(lake: LakeOfTwoEngines) -> None:
    """Days and hours as dates, values as SQL writes them, null by a name of its own, separators escaped."""
    story = Story(
        lake,
        "at timestamp, region string, flag boolean",
        partitioned="days(at), truncate(2, region), flag",
        format_version="2",
    )
    stamped(
        story,
        "one",
        "insert into {t} values (timestamp '2026-10-01 23:00:00', 'a|b', true)",
        "insert into {t} values (null, '50%', null), (null, ' ', false), (null, '', false)",
    )
    story.run("insert into {t} values (timestamp '2026-10-05 00:00:00', 'zz', true)")

    assert touched(story, "one") == {
        "2026-10-01|a%7C|true",
        "__HIVE_DEFAULT_PARTITION__|50|__HIVE_DEFAULT_PARTITION__",
        "__HIVE_DEFAULT_PARTITION__|%20|false",
        "__HIVE_DEFAULT_PARTITION__|%00|false",
    }
    assert touched(story, "another") is None


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_changed_and_emptied_partitions_are_touched(lake: LakeOfTwoEngines, mode: str) -> None:
    """By rewritten files or by delete files; those that a merge read and left alone are not."""
    modes = {f"write_{what}_mode": mode for what in ("delete", "update", "merge")}
    story = Story(lake, "id int, p int", partitioned="p", format_version="2", **modes)
    story.run("insert into {t} select cast(id as int), cast(id % 4 as int) from range(40)")
    stamped(story, "two", "update {t} set id = -1 where id = 1", "delete from {t} where id in (2, 6)")
    story.run("insert into {t} values (90, 3)")

    assert touched(story, "two") == {"1", "2"}


def test_a_table_whose_partitioning_changed_is_told_by_the_fields_of_each_file(lake: LakeOfTwoEngines) -> None:
    story = Story(lake, "id int, p int", partitioned="p", format_version="2")
    stamped(story, "three", "insert into {t} values (1, 7)")
    story.run("alter table {t} replace partition field p with bucket(4, id)")
    stamped(story, "three", "insert into {t} values (1, 8)")

    keys = touched(story, "three")

    assert keys is not None
    assert "7" in keys
    assert len(keys) == 2
