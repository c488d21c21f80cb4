"""Captures in mode BRANCH, read by Spark as `db.t.branch_…`: the rows that an ICDC table of the same range has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg import drop_icdc
from airflow_provider_ips.iceberg.manifests.lists import ManifestList
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

Rows = list[tuple[object, ...]]


class Both(NamedTuple):
    """One capture in both modes."""

    branch: SourceRecord
    icdc: SourceRecord


class Captured(Story):
    """A story whose captures are made in both modes."""

    def both(self, since: int, **options: object) -> Both:
        """Capture changes as a branch and as an ICDC table."""
        changes = {"data_operations": ALL_OPERATIONS, "on_superset": "allow", **options}
        return Both(self.capture(since, into=None, mode="BRANCH", **changes), self.capture(since, **changes))

    def read(self, name: str | None) -> Rows:
        """What Spark reads under the name that a job is given."""
        assert name is not None
        return self.lake.sql(f"select * from lake.{name}")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_branch_reads_as_the_icdc_table_of_the_same_range(lake: LakeOfTwoEngines, mode: str) -> None:
    """Rows with the deletes that apply to them, in both roles; partitions, renamed columns and compaction included."""
    modes = {f"write_{what}_mode": mode for what in ("delete", "update", "merge")}
    story = Captured(lake, "id int, a string, day date", **modes)
    story.run("alter table {t} add partition field day")
    story.run("insert into {t} values (1, 'a', date'2026-10-01'), (2, 'b', date'2026-10-01')")
    since = story.run("insert into {t} values (3, 'c', date'2026-10-02')")
    story.run("insert into {t} select /*+ COALESCE(1) */ * from values (4, 'd', date'2026-10-02'), (5, 'e', null)")
    story.run("update {t} set a = 'x' where id in (2, 4)")
    story.run("alter table {t} rename column a to b")
    story.run("delete from {t} where id = 3")
    story.run("insert into {t} values (6, 'f', date'2026-10-03')")
    made = story.both(since)
    for name in ("icdc_table", "before_table"):
        assert story.read(getattr(made.branch, name)) == story.read(getattr(made.icdc, name))
    assert (made.branch.captured, made.branch.before) == (made.icdc.captured, made.icdc.before)
    everything = story.capture(None, into=None, mode="BRANCH", data_operations=ALL_OPERATIONS)
    assert story.read(everything.icdc_table) == story.read(story.name)
    table = lake.catalog.load_table(story.name)
    for snapshot_id in (everything.snapshot_id, made.branch.snapshot_id):
        snapshot = table.metadata.snapshot_by_id(snapshot_id or 0)
        assert snapshot is not None
        listed = ManifestList(table.io, snapshot.manifest_list).all()
        assert {(m.added_files_count, m.deleted_files_count) for m in listed} == {(0, 0)}
    log = story.capture(since, into=None, mode="BRANCH", on_other_operation="skip")
    assert [row[0] for row in story.read(log.icdc_table)] == [4, 5, 6]


def test_a_capture_holds_its_files_and_costs_none(lake: LakeOfTwoEngines) -> None:
    """Compaction, expiry, rewriting of manifests and removal of orphans, before and after the branch is removed."""
    story = Captured(lake, "id int, a string", commit_manifest_min_count_to_merge="2")
    since = story.run("insert into {t} values (1, 'a')")
    for number in range(2, 6):
        story.run(f"insert into {{t}} values ({number}, 'x')")
    record = story.capture(since, into=None, mode="BRANCH")
    captured, name = story.read(record.icdc_table), story.name
    table = lake.sql(f"select * from {story.table}")
    lake.sql(f"call lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    lake.sql(f"call lake.system.rewrite_manifests('{name}')")
    expire = (
        f"call lake.system.expire_snapshots(table => '{name}', older_than => timestamp'2200-01-01', retain_last => 1)"
    )
    lake.sql(expire)
    orphans = f"call lake.system.remove_orphan_files(table => '{name}', older_than => timestamp'2020-01-01')"
    lake.sql(orphans)
    assert story.read(record.icdc_table) == captured
    assert [row[0] for row in captured] == [2, 3, 4, 5]
    assert lake.sql(f"select name from {story.table}.refs") == [(record.branch,), ("main",)]
    assert drop_icdc(lake.catalog, str(record.icdc_table))
    lake.sql(f"refresh table {story.table}")
    story.run("insert into {t} values (9, 'y')")
    lake.sql(expire)
    assert story.read(name) == [*table, (9, "y")]


def test_streams_and_changelogs_do_not_show_captures(lake: LakeOfTwoEngines) -> None:
    """An incremental read across the commits of two captures has what main gained; history has main's snapshots."""
    story = Captured(lake, "id int, a string")
    since = story.run("insert into {t} values (1, 'a')")
    story.run("insert into {t} values (2, 'b')")
    first = story.capture(since, into=None, mode="BRANCH")
    lake.sql(f"refresh table {story.table}")
    until = story.run("insert into {t} values (3, 'c')")
    drop_icdc(lake.catalog, str(first.icdc_table))
    story.capture(since, into=None, mode="BRANCH")
    options = {"start-snapshot-id": str(since), "end-snapshot-id": str(until)}
    lake.sql(f"refresh table {story.table}")
    read = lake.spark.read.format("iceberg").options(**options).load(story.table)
    assert sorted(row.id for row in read.collect()) == [2, 3]
    assert len(lake.sql(f"select * from {story.table}.history")) == 3


def test_format_version_3_needs_a_catalog_that_writes_it(lake: LakeOfTwoEngines) -> None:
    """Found out before anything is written."""
    story = Captured(lake, "id int, a string", format_version="3")
    since = story.run("insert into {t} values (1, 'a')")
    story.run("insert into {t} values (2, 'b')")
    with pytest.raises(UnsupportedTableError, match="format version 3"):
        story.capture(since, into=None, mode="BRANCH")
