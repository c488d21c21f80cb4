"""Lineage as Spark's statements and procedures make it: an exact capture, or an error that names the ways on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg import drop_icdc
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.icdc import build_icdc
from tests.system.spark.stories import NUMBERS, Story

if TYPE_CHECKING:
    from airflow_provider_ips.core.positions import Position
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]


class Consumer:
    """One checkpoint on a story's table, moved by what it takes."""

    def __init__(self, story: Story, branch: str = "main") -> None:
        self.story = story
        self.branch = branch
        self.committed: Position | None = open_source(story.lake.catalog, Source(story.name, branch)).position

    def take(self, **settings: object) -> list[int]:
        """Capture from the checkpoint, commit, and give the ids that Spark reads."""
        wanted = CaptureSettings(**settings)  # type: ignore[arg-type]
        catalog, into = self.story.lake.catalog, f"icdc.lineage_{next(NUMBERS)}"
        source = open_source(catalog, Source(self.story.name, self.branch))
        plan = plan_capture(source, committed=self.committed, settings=wanted)
        table = SourceTable(self.story.name, branch=self.branch)
        record = build_icdc(
            catalog, source, plan, table=table, settings=wanted, icdc_table=into, identity={"into": into}
        )
        self.committed = record.to_inclusive
        if record.icdc_table is None:
            return []
        found = [row[0] for row in self.story.lake.sql(f"select id from lake.{into}")]
        drop_icdc(catalog, into)
        return sorted(found)  # type: ignore[arg-type]

    def gap(self, **settings: object) -> GapError:
        """The error that a capture ends in; the checkpoint stays."""
        with pytest.raises(GapError) as raised:
            self.take(**settings)
        return raised.value


def expire(story: Story, *snapshot_ids: int) -> None:
    """Spark's procedure, for just these."""
    ids = ", ".join(str(i) for i in snapshot_ids)
    story.call("expire_snapshots", f"snapshot_ids => array({ids})")


@pytest.mark.parametrize("format_version", ["1", "2", "3"])
def test_expiry_by_spark_keeps_what_can_be_proven(lake: LakeOfTwoEngines, format_version: str) -> None:
    """The checkpoint itself may expire; its child, or a later one, may not."""
    story = Story(lake, "id int", format_version=format_version)
    story.insert("(1)")
    consumer = Consumer(story)
    checkpoint = story.head
    child = story.insert("(2)")
    story.insert("(3)")
    expire(story, checkpoint)
    start = consumer.committed
    assert consumer.take() == [2, 3]
    consumer.committed = start
    expire(story, child)
    story.insert("(4)")
    error = consumer.gap()
    assert "on_gap='full' captures the whole table (4 files" in error.remedy
    if format_version == "1":
        assert "on_gap='resync' is not possible here" in error.remedy
        assert "all carry number 0" in consumer.gap(on_gap="resync").consequence
        assert consumer.take(on_gap="full") == [1, 2, 3, 4]
    else:
        assert re.search(r"\(3 files, at most \d+ bytes; no loss; exact: appends alone", error.remedy)
        assert consumer.take(on_gap="resync") == [2, 3, 4]


def test_a_rollback_and_a_cherry_pick_of_what_was_rolled_back(lake: LakeOfTwoEngines) -> None:
    """Its rows were processed, removed, and come again: no loss, and said to be a superset."""
    story = Story(lake, "id int")
    base = story.insert("(1)")
    lost = story.insert("(2)")
    consumer = Consumer(story)
    story.call("rollback_to_snapshot", f"snapshot_id => {base}")
    story.insert("(3)")
    assert "exact: appends alone" in consumer.gap().remedy
    story.call("cherrypick_snapshot", f"snapshot_id => {lost}")
    error = consumer.gap()
    assert "retained but not an ancestor of the head" in error.problem
    assert "was cherry-picked, and may have been processed" in error.remedy
    assert consumer.take(on_gap="resync") == [2, 3]
    story.insert("(4)")
    assert consumer.take() == [4]


def test_rolled_back_and_nothing_new_is_a_gap_with_full_alone(lake: LakeOfTwoEngines) -> None:
    """The head's number is below the checkpoint's."""
    story = Story(lake, "id int")
    base = story.insert("(1)")
    story.insert("(2)")
    consumer = Consumer(story)
    story.call("rollback_to_snapshot", f"snapshot_id => {base}")
    assert "number is not above the checkpoint's" in consumer.gap().remedy
    assert "number is not above the checkpoint's" in consumer.gap(on_gap="resync").consequence
    assert consumer.take(on_gap="full") == [1]


def test_a_branch_is_written_audited_and_published(lake: LakeOfTwoEngines) -> None:
    """Consumers of main see it when it is published, once; a consumer of the branch sees it when it is written."""
    story = Story(lake, "id int", write_wap_enabled="true")
    story.insert("(1)")
    main = Consumer(story)
    story.run("alter table {t} create branch audit")
    audit = Consumer(story, "audit")
    lake.spark.conf.set("spark.wap.branch", "audit")
    story.insert("(2)")
    lake.spark.conf.unset("spark.wap.branch")
    assert (main.take(), audit.take()) == ([], [2])
    story.call("fast_forward", "branch => 'main', to => 'audit'")
    assert main.take() == [2]
    lake.spark.sql(f"insert into {story.table}.branch_audit values (3)")
    expire(story, lake.catalog.load_table(story.name).metadata.snapshots[0].snapshot_id)
    assert (main.take(), audit.take()) == ([], [3])


@pytest.mark.parametrize("expires", [False, True], ids=["retained", "expired"])
def test_main_is_set_to_the_head_of_another_branch(lake: LakeOfTwoEngines, *, expires: bool) -> None:
    """2 is older by number than what was processed and was never seen, so that only ``full`` loses nothing."""
    story = Story(lake, "id int")
    story.insert("(1)")
    story.run("alter table {t} create branch other")
    lake.spark.sql(f"insert into {story.table}.branch_other values (2)")
    story.insert("(3)")
    consumer = Consumer(story)
    lake.spark.sql(f"insert into {story.table}.branch_other values (4)")
    tip = lake.catalog.load_table(story.name).metadata.refs["other"].snapshot_id
    story.call("set_current_snapshot", f"snapshot_id => {tip}")
    story.run("alter table {t} drop branch other")
    if expires:
        expire(story, *(s.snapshot_id for s in lake.catalog.load_table(story.name).snapshots() if s.snapshot_id != tip))
    assert "on_gap='resync' is not possible here" in consumer.gap().remedy
    assert "not known to be its ancestor" in consumer.gap(on_gap="resync").consequence
    assert consumer.take(on_gap="full") == [1, 2, 4]


@pytest.mark.parametrize("expires", [False, True], ids=["retained", "expired"])
def test_a_replaced_table_counts_on_and_begins_anew(lake: LakeOfTwoEngines, *, expires: bool) -> None:
    """It keeps its uuid. By number all of the new table is newer, and none of the old is left."""
    story = Story(lake, "id int")
    story.insert("(1)")
    story.insert("(2)")
    consumer = Consumer(story)
    old = [s.snapshot_id for s in lake.catalog.load_table(story.name).snapshots()]
    story.run("create or replace table {t} using iceberg as select 10 id")
    story.insert("(11)")
    if expires:
        expire(story, *old)
    error = consumer.gap()
    assert "on_gap='full' captures the whole table (2 files" in error.remedy
    assert "(2 files" in error.remedy.partition("on_gap='resync'")[2]
    assert consumer.take(on_gap="resync") == [10, 11]
    story.insert("(12)")
    assert consumer.take() == [12]


def test_a_table_emptied_and_filled_again_does_not_begin_there(lake: LakeOfTwoEngines) -> None:
    """A consumer of the empty table that slept through all of it: row 1 came and went."""
    story = Story(lake, "id int")
    consumer = Consumer(story)
    old = [story.insert("(1)"), story.run("delete from {t}")]
    story.insert("(2)")
    expire(story, *old)
    assert "were expired" in consumer.gap().problem
    assert consumer.take(on_gap="full") == [2]


def test_a_dropped_and_recreated_table_is_another(lake: LakeOfTwoEngines) -> None:
    """The same name, another uuid."""
    story = Story(lake, "id int")
    story.insert("(1)")
    consumer = Consumer(story)
    story.lake.spark.sql(f"drop table {story.table}")
    story.lake.spark.sql(f"create table {story.table} (id int) using iceberg")
    story.insert("(7)")
    for on_gap in ("fail", "resync"):
        assert "another table now" in consumer.gap(on_gap=on_gap).problem
    assert consumer.take(on_gap="full") == [7]
    story.insert("(8)")
    assert consumer.take() == [8]
