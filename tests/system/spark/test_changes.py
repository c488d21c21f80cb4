"""Change capture of what Spark and streaming writers do, read row by row by both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_ips.core.errors import GapError, RefusedOperationError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.local_tables import files_under
from tests.system.spark.stories import Story

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from tests.kit.spark import LakeOfTwoEngines

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

Rows = list[tuple[object, ...]]
MODES = [("2", "copy-on-write"), ("2", "merge-on-read"), ("3", "copy-on-write"), ("3", "merge-on-read")]


class Changes(Story):
    """A story whose captures are of changes."""

    def __init__(self, lake: LakeOfTwoEngines, columns: str, *, mode: str = "copy-on-write", **options: str) -> None:
        modes = {f"write_{what}_mode": mode for what in ("delete", "update", "merge")}
        super().__init__(lake, columns, **modes, **options)

    def insert(self, values: str) -> int:
        """Append rows as one file."""
        return self.run(f"insert into {{t}} select /*+ COALESCE(1) */ * from values {values}")

    @property
    def location(self) -> str:
        """Where the table's files are."""
        return self.lake.catalog.load_table(self.name).location()

    def rows(self) -> Rows:
        """The table as it is."""
        return self.lake.sql(f"select * from {self.table}")

    def change(self, since: int, **options: object) -> SourceRecord:
        """Capture all three operations."""
        return self.capture(since, data_operations=ALL_OPERATIONS, **{"on_superset": "allow", **options})

    def source(self, record: SourceRecord, what: str = "*") -> Rows:
        """The captured rows; both engines must agree."""
        return self._both(record.icdc_table, what)

    def before(self, record: SourceRecord, what: str = "*") -> Rows:
        """The rows' origin; both engines must agree."""
        return self._both(record.before_table, what)

    def _both(self, table: str | None, what: str) -> Rows:
        assert table is not None
        by_spark = self.lake.sql(f"select {what} from lake.{table}")
        if what == "*":
            found = self.lake.catalog.load_table(table).scan().to_arrow().to_pylist()
            assert sorted((tuple(row.values()) for row in found), key=repr) == by_spark
        return by_spark


@pytest.mark.parametrize(("format_version", "mode"), MODES)
def test_a_merge_is_told_by_what_is_new_and_what_it_replaced(
    lake: LakeOfTwoEngines, format_version: str, mode: str
) -> None:
    """Updated, inserted and deleted rows; a file that no change touched is in neither table; no source file moves."""
    story = Changes(lake, "id int, a string", mode=mode, format_version=format_version)
    story.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    first = story.insert("(9, 'z')")
    story.run(
        "merge into {t} using (select * from values (1, 'A'), (3, 'gone'), (4, 'd') as v(id, a)) v on {t}.id = v.id "
        "when matched and v.a = 'gone' then delete when matched then update set a = v.a "
        "when not matched then insert *"
    )
    before = files_under(story.location)
    record = story.change(first)
    unchanged = [(2, "b")] if mode == "copy-on-write" else []
    assert story.source(record) == sorted([(1, "A"), *unchanged, (4, "d")])
    assert story.before(record) == [(1, "a"), (2, "b"), (3, "c")]
    assert record.superset == bool(unchanged)
    assert files_under(story.location) == before
    if unchanged and format_version == "3":
        assert lake.sql(f"select * from lake.{record.icdc_table} where {record.predicate}") == [(1, "A"), (4, "d")]
    else:
        assert record.predicate is None
        assert ("row-exact" if not unchanged else "format version 2") in record.no_predicate


@pytest.mark.parametrize(("format_version", "mode"), MODES)
def test_a_superset_is_refused_unless_it_is_allowed(lake: LakeOfTwoEngines, format_version: str, mode: str) -> None:
    """Only where files carry rows from before the range: an update of rows appended in it is exact."""
    story = Changes(lake, "id int, a string", mode=mode, format_version=format_version)
    first = story.insert("(1, 'a'), (2, 'b')")
    story.insert("(3, 'c'), (4, 'd')")
    second = story.run("update {t} set a = 'C' where id = 3")
    record = story.change(first, on_superset="fail")
    assert story.source(record) == [(3, "C"), (4, "d")]
    assert story.before(record) == []
    story.run("update {t} set a = 'A' where id = 1")
    if mode == "copy-on-write":
        with pytest.raises(RefusedOperationError, match="carry unchanged rows along"):
            story.change(second, on_superset="fail")
    else:
        assert story.source(story.change(second, on_superset="fail")) == [(1, "A")]
    complete = story.change(second, on_superset="complete")
    assert story.source(complete) == [(1, "A"), (2, "b")]
    assert complete.superset


@pytest.mark.parametrize(("format_version", "mode"), MODES)
def test_compaction_is_no_change_wherever_it_comes(lake: LakeOfTwoEngines, format_version: str, mode: str) -> None:
    """Before, between and after changes: no stale or deleted rows, and unchanged ones only where that is unknown."""
    story = Changes(lake, "id int, a string", mode=mode, format_version=format_version)
    story.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    first = story.insert("(4, 'd'), (5, 'e')")
    compact = "options => map('rewrite-all', 'true')"
    story.insert("(6, 'f'), (7, 'g')")
    story.run("delete from {t} where id = 7")
    story.call("rewrite_data_files", compact)
    record = story.change(first, on_superset="fail")
    assert story.source(record) == [(6, "f")]
    assert story.before(record) == []
    story.run("update {t} set a = 'F' where id = 6")
    record = story.change(first)
    assert set(story.source(record)) >= {(6, "F")}
    assert set(story.source(record)) <= set(story.rows())
    assert {row[0] for row in story.before(record)} == {1, 2, 3, 4, 5}
    story.call("rewrite_data_files", compact)
    story.run("delete from {t} where id = 1")
    record = story.change(first)
    assert {(6, "F")} <= set(story.source(record)) <= set(story.rows())
    assert {(1, "a")} <= set(story.before(record))
    complete = story.change(first, on_superset="complete")
    touched = {row[0] for row in (*story.source(complete), *story.before(complete))}
    then = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]
    assert sorted([row for row in then if row[0] not in touched] + story.source(complete)) == story.rows()


@pytest.mark.parametrize("format_version", ["2", "3"])
def test_several_deletes_on_one_file_and_what_they_leave(lake: LakeOfTwoEngines, format_version: str) -> None:
    """Deletes from before the range hide rows of the origin; those in it do not; one vector for each file."""
    story = Changes(lake, "id int, a string", mode="merge-on-read", format_version=format_version)
    story.insert("(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    first = story.run("delete from {t} where id = 1")
    story.run("delete from {t} where id = 2")
    story.run("delete from {t} where id = 3")
    record = story.change(first)
    assert (story.source(record), story.before(record)) == ([], [(2, "b"), (3, "c"), (4, "d")])
    complete = story.change(first, on_superset="complete")
    assert (story.source(complete), story.before(complete)) == ([(4, "d")], [(2, "b"), (3, "c"), (4, "d")])


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_a_position_delete_that_names_no_file_widens_to_its_partition(lake: LakeOfTwoEngines, granularity: str) -> None:
    """The keys of a whole partition come before; another partition stays out."""
    story = Changes(lake, "id int, p int", mode="merge-on-read", partitioned="p", write_delete_granularity=granularity)
    story.insert("(1, 1), (2, 1)")
    story.insert("(3, 1), (4, 1)")
    first = story.insert("(5, 2), (6, 2)")
    story.run("delete from {t} where id in (1, 3)")
    record = story.change(first)
    assert story.source(record) == []
    assert story.before(record) == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert story.source(story.change(first, on_superset="complete")) == [(2, 1), (4, 1)]


def test_overwritten_partitions_and_retention_are_removals(lake: LakeOfTwoEngines) -> None:
    """Whole files go: nothing is new but what was written, and the keys of what went come before."""
    story = Changes(lake, "id int, p int", partitioned="p")
    story.insert("(1, 1), (2, 2), (3, 3)")
    first = story.insert("(4, 1)")
    story.run("delete from {t} where p = 1")
    record = story.change(first, on_superset="fail")
    assert (story.source(record), story.before(record)) == ([], [(1, 1), (4, 1)])
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    story.run("insert overwrite {t} values (7, 2), (8, 9)")
    lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    record = story.change(first)
    assert (story.source(record), story.before(record)) == ([(7, 2), (8, 9)], [(1, 1), (2, 2), (4, 1)])


def test_row_lineage_reads_the_same_as_in_the_source(lake: LakeOfTwoEngines) -> None:
    """On v3, _row_id and _last_updated_sequence_number of captured rows are the source's own."""
    story = Changes(lake, "id int, a string", format_version="3")
    story.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    first = story.insert("(4, 'd')")
    story.run("update {t} set a = 'B' where id = 2")
    story.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    story.insert("(5, 'e')")
    story.run("delete from {t} where id = 3")
    record = story.change(first)
    lineage = "id, a, _row_id, _last_updated_sequence_number"
    of_table = {row[0]: row for row in lake.sql(f"select {lineage} from {story.table}")}
    captured = story.source(record, lineage)
    assert {row[0] for row in captured} >= {2, 5}
    assert all(row == of_table[row[0]] for row in captured)
    exact = lake.sql(f"select id from lake.{record.icdc_table} where {record.predicate}")
    assert exact == [(2,), (5,)]


def test_without_row_ids_there_is_no_predicate(lake: LakeOfTwoEngines) -> None:
    """Files from before the upgrade have no lineage, so the predicate would be a guess."""
    story = Changes(lake, "id int, a string")
    first = story.insert("(1, 'a'), (2, 'b')")
    story.run("alter table {t} set tblproperties ('format-version' = '3')")
    story.run("update {t} set a = 'A' where id = 1")
    record = story.change(first)
    assert story.source(record) == [(1, "A"), (2, "b")]
    assert record.superset
    assert record.predicate is None
    assert "before the upgrade" in record.no_predicate


def test_an_expired_checkpoint_is_a_gap_once_rows_were_changed(lake: LakeOfTwoEngines) -> None:
    """Its files may have been deleted with it, so the rows before the change cannot be read."""
    story = Changes(lake, "id int, a string", mode="merge-on-read")
    first = story.insert("(1, 'a'), (2, 'b')")
    committed = open_source(lake.catalog, Source(story.name)).position
    assert committed.snapshot_id == first
    story.insert("(3, 'c')")
    story.call("expire_snapshots", f"snapshot_ids => array({first})")
    everything = CaptureSettings(data_operations=ALL_OPERATIONS)
    plan = plan_capture(open_source(lake.catalog, Source(story.name)), committed=committed, settings=everything)
    assert [v.files for v in plan.verdicts] == [1]
    story.run("delete from {t} where id = 1")
    with pytest.raises(GapError, match="rows were changed or removed since"):
        plan_capture(open_source(lake.catalog, Source(story.name)), committed=committed, settings=everything)


@pytest.mark.parametrize("rewrites", [False, True], ids=["own manifests", "rewritten manifests"])
def test_a_file_that_is_added_twice_comes_once_for_each_time_in_the_range(
    lake: LakeOfTwoEngines, tmp_path: Path, *, rewrites: bool
) -> None:
    """Both engines read two entries of one path as the source does, once its manifests are rewritten, too."""
    story = Changes(lake, "id int, p int")
    story.insert("(1, 1), (2, 1)")
    path = f"file://{tmp_path}/shared.parquet"
    pq.write_table(
        pa.table({"id": pa.array([7, 8], pa.int32()), "p": pa.array([1, 1], pa.int32())}), tmp_path / "shared.parquet"
    )

    def add() -> int:
        lake.catalog.load_table(story.name).add_files([path], check_duplicate_files=False)
        return story.head

    since = add()
    add()
    if rewrites:
        story.call("rewrite_manifests", "")

    assert lake.sql(f"select id from {story.table}") == [(1,), (2,), (7,), (7,), (8,), (8,)]
    assert story.captured(since) == [7, 8]
    story.run("delete from {t} where id = 1")
    assert story.captured(since, data_operations=ALL_OPERATIONS, on_superset="allow") == [2, 7, 8]
