"""Lineage on real tables: whatever became of a checkpoint, an exact capture or an error that names the ways on."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import GapError, UnsupportedTableError
from airflow_provider_ips.core.history.snapshots import take_evidence
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg import capture
from airflow_provider_ips.iceberg.icdc.namespace import check_icdc_namespace
from airflow_provider_ips.iceberg.manifests.lists import ManifestList, write_manifest_list
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from tests.kit.icdc import build_icdc
from tests.kit.local_tables import append, new_catalog, new_table, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.results.capture_record import SourceRecord

NUMBERS = count()


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    made = new_catalog(tmp_path)
    check_icdc_namespace(made, "icdc")
    return made


def position(catalog: SqlCatalog) -> Position:
    """The position of a consumer that has processed everything."""
    source = open_source(catalog, Source("db.t"))
    return take_evidence(source, source.position)


def take(catalog: SqlCatalog, committed: Position | None, **settings: str) -> SourceRecord:
    """One capture from a checkpoint, as the operator makes it."""
    wanted = CaptureSettings(**settings)  # type: ignore[arg-type]
    source = open_source(catalog, Source("db.t"))
    plan = plan_capture(source, committed=committed, settings=wanted)
    into = f"icdc.x{next(NUMBERS)}"
    return build_icdc(
        catalog, source, plan, table=SourceTable("db.t"), settings=wanted, icdc_table=into, identity={"into": into}
    )


def taken(catalog: SqlCatalog, committed: Position | None, **settings: str) -> list[int]:
    """The ids that it holds."""
    table = take(catalog, committed, **settings).icdc_table
    return [] if table is None else rows(catalog, table)


def expire(table: Table, *snapshot_ids: int) -> None:
    """Forget snapshots. PyIceberg clears the parents of those that stay."""
    table.refresh()
    table.maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()
    table.refresh()


def forget_metadata(table: Table) -> None:
    """Have the table name none of its older metadata files."""
    with table.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "1"})
    with table.transaction() as change:
        change.set_properties({"note": "another version"})


def gap(catalog: SqlCatalog, committed: Position | None, **settings: str) -> GapError:
    """The error that a capture ends in."""
    with pytest.raises(GapError) as raised:
        take(catalog, committed, **settings)
    return raised.value


class TestExpiry:
    """Rows 1 to 5, one snapshot each; the checkpoint is at 2."""

    @pytest.fixture
    def table(self, catalog: SqlCatalog) -> Table:
        return new_table(catalog)

    @pytest.fixture
    def ids(self, table: Table) -> list[int]:
        return [append(table, number) for number in (1, 2)]

    @pytest.fixture
    def seen(self, catalog: SqlCatalog, ids: list[int]) -> Position:
        return position(catalog)

    @pytest.fixture
    def newer(self, table: Table, seen: Position) -> list[int]:
        return [append(table, number) for number in (3, 4, 5)]

    def test_of_the_checkpoint_itself_loses_nothing(
        self, catalog: SqlCatalog, table: Table, seen: Position, ids: list[int], newer: list[int]
    ) -> None:
        """Its child's parent was cleared; the metadata file of the child's own commit still says it."""
        expire(table, *ids)
        assert table.metadata.snapshots[0].parent_snapshot_id is None
        assert taken(catalog, seen) == [3, 4, 5]

    def test_of_the_checkpoint_and_of_older_metadata_is_a_gap(
        self, catalog: SqlCatalog, table: Table, seen: Position, ids: list[int], newer: list[int]
    ) -> None:
        """What the child's parent was is no longer known. Sequence numbers still order them, and the error says so."""
        expire(table, *ids)
        forget_metadata(table)
        error = gap(catalog, seen)
        assert "on_gap='full' captures the whole table (5 files" in error.remedy
        assert re.search(r"sequence number 2 \(3 files, at most \d+ bytes; no loss; a superset", error.remedy)
        assert taken(catalog, seen, on_gap="resync") == [3, 4, 5]
        assert taken(catalog, seen, on_gap="full") == [1, 2, 3, 4, 5]

    @pytest.mark.parametrize("which", [0, 1])
    def test_inside_the_range_is_a_gap_that_a_resync_closes_exactly(
        self, catalog: SqlCatalog, table: Table, seen: Position, newer: list[int], which: int
    ) -> None:
        """The checkpoint's child, or a later one: the remaining snapshots do not show what it added."""
        expire(table, newer[which])
        error = gap(catalog, seen)
        assert re.search(r"\(3 files, at most \d+ bytes; no loss; exact: appends alone", error.remedy)
        record = take(catalog, seen, on_gap="resync")
        assert rows(catalog, record.icdc_table or "") == [3, 4, 5]
        assert record.captured.files == 3

    def test_a_resync_over_compaction_says_that_it_is_a_superset(
        self, catalog: SqlCatalog, table: Table, seen: Position, newer: list[int]
    ) -> None:
        """An overwrite with the same rows gives old rows a new file."""
        table.overwrite(table.scan().to_arrow())
        expire(table, newer[0])
        assert "no loss; a superset: snapshot" in gap(catalog, seen).remedy
        record = take(catalog, seen, on_gap="resync")
        assert rows(catalog, record.icdc_table or "") == [1, 2, 3, 4, 5]
        assert any("a superset: snapshot" in warning for warning in record.warnings)


def test_a_rolled_back_snapshot_may_be_named_as_the_start(catalog: SqlCatalog) -> None:
    """The error has the choices, and each of them can be taken."""
    table = new_table(catalog)
    base, lost = append(table, 1), append(table, 2)
    table.manage_snapshots().rollback_to_snapshot(base).commit()
    append(table, 3)
    with pytest.raises(GapError, match="retained but not an ancestor of the head") as raised:
        capture(catalog, "db.t", since=lost, into="icdc.gap")
    assert "on_gap='full' captures the whole table (2 files" in raised.value.remedy
    assert "on_gap='resync' captures the live files newer than sequence number 2 (1 file" in raised.value.remedy
    for on_gap, expected in (("resync", [3]), ("full", [1, 3])):
        capture(catalog, "db.t", since=lost, into=f"icdc.{on_gap}", on_gap=on_gap)
        assert rows(catalog, f"icdc.{on_gap}") == expected


def test_an_expired_snapshot_may_be_named_as_the_start(catalog: SqlCatalog) -> None:
    """A notebook does not have its number and time; an older metadata file has."""
    table = new_table(catalog)
    first, second = append(table, 1), append(table, 2)
    append(table, 3)
    append(table, 4)
    expire(table, first, second)
    capture(catalog, "db.t", since=second, into="icdc.exact")
    assert rows(catalog, "icdc.exact") == [3, 4]
    with pytest.raises(
        GapError, match=r"on_gap='resync' captures the live files newer than sequence number 1 \(3 files"
    ):
        capture(catalog, "db.t", since=first, into="icdc.gap")
    capture(catalog, "db.t", since=first, into="icdc.newer", on_gap="resync")
    assert rows(catalog, "icdc.newer") == [2, 3, 4]


class TestTheEmptyTable:
    """A consumer may have been there before the first row came."""

    @pytest.mark.parametrize("format_version", ["1", "2"])
    def test_everything_since_is_captured(self, catalog: SqlCatalog, format_version: str) -> None:
        """Also on format v1, which numbers nothing."""
        table = new_table(catalog, format_version=format_version)
        empty = position(catalog)
        assert taken(catalog, empty) == []
        append(table, 1)
        append(table, 2)
        assert taken(catalog, empty) == [1, 2]
        table.manage_snapshots().create_branch(table.refresh().snapshots()[0].snapshot_id, "audit").commit()
        assert taken(catalog, empty) == [1, 2]

    @pytest.mark.parametrize("format_version", ["1", "2"])
    @pytest.mark.parametrize("forgets", [False, True], ids=["metadata-named", "metadata-forgotten"])
    def test_a_cut_off_history_that_begins_like_a_first_snapshot_is_a_gap(
        self, catalog: SqlCatalog, format_version: str, *, forgets: bool
    ) -> None:
        """Row 1 was appended and removed before row 2. A range that begins at 2 would not show it."""
        table = new_table(catalog, format_version=format_version)
        empty = position(catalog)
        old = append(table, 1)
        table.delete("id = 1")
        emptied = table.refresh().metadata.current_snapshot_id
        assert emptied is not None
        append(table, 2)
        before = datetime.fromtimestamp(table.metadata.snapshots[0].timestamp_ms / 1000, tz=UTC) - timedelta(days=1)
        expire(table, old, emptied)
        assert table.metadata.snapshots[0].parent_snapshot_id is None
        if forgets:
            forget_metadata(table)
        assert "nothing proves that the oldest retained snapshot is the table's first" in gap(catalog, empty).problem
        assert "lies before the retained history" in gap(catalog, None, initial=before.isoformat()).problem
        assert taken(catalog, empty, on_gap="full") == [2]

    def test_a_first_snapshot_is_known_by_its_number_long_after(self, catalog: SqlCatalog) -> None:
        """However few older metadata files the table names."""
        table = new_table(catalog)
        append(table, 1)
        append(table, 2)
        forget_metadata(table)
        assert taken(catalog, None, initial="2020-01-01T00:00:00+00:00") == [1, 2]


class TestAnotherBranchBecameMainAndTheRestExpired:
    """``audit`` got 2, main got 3, the checkpoint; main was set to ``audit``, which got 4."""

    @pytest.fixture
    def seen(self, catalog: SqlCatalog) -> Position:
        table = new_table(catalog)
        base = append(table, 1)
        table.manage_snapshots().create_branch(base, "audit").commit()
        arrow = table.scan().to_arrow()
        table.append(arrow.set_column(0, "id", [[2]]), branch="audit")
        append(table, 3)
        seen = position(catalog)
        table.append(arrow.set_column(0, "id", [[4]]), branch="audit")
        tip = table.refresh().metadata.refs["audit"].snapshot_id
        table.manage_snapshots().set_current_snapshot(tip).remove_branch("audit").commit()
        table.refresh()
        expire(table, *(s.snapshot_id for s in table.snapshots() if s.snapshot_id != tip))
        assert rows(catalog, "db.t") == [1, 2, 4]
        return seen

    def test_resync_is_refused_for_the_row_that_is_older_by_number(self, catalog: SqlCatalog, seen: Position) -> None:
        """2 was never processed and its number is below the checkpoint's."""
        assert "not known to be its ancestor" in gap(catalog, seen, on_gap="resync").consequence

    def test_the_choices_say_so(self, catalog: SqlCatalog, seen: Position) -> None:
        """And ``full`` does what they promise."""
        error = gap(catalog, seen)
        assert "on_gap='resync' is not possible here" in error.remedy
        assert "on_gap='full' captures the whole table (3 files" in error.remedy
        assert taken(catalog, seen, on_gap="full") == [1, 2, 4]


def test_a_table_made_again_under_its_name_is_another(catalog: SqlCatalog) -> None:
    """Its sequence numbers began again, so only ``full`` can continue."""
    append(new_table(catalog), 1)
    seen = position(catalog)
    catalog.drop_table("db.t")
    append(new_table(catalog), 7)
    for on_gap in ("fail", "resync"):
        error = gap(catalog, seen, on_gap=on_gap)
        assert "another table now" in error.problem
        assert "on_gap='full'" in error.remedy
    assert taken(catalog, seen, on_gap="full") == [7]


def test_a_first_run_at_a_time_never_picks_what_was_rolled_back(catalog: SqlCatalog) -> None:
    """2 was the head then; it is not in the lineage now, so the run starts after 1, from which 3 descends."""
    table = new_table(catalog)
    base = append(table, 1)
    lost = table.snapshot_by_id(append(table, 2))
    assert lost is not None
    table.manage_snapshots().rollback_to_snapshot(base).commit()
    append(table, 3)
    then = datetime.fromtimestamp(lost.timestamp_ms / 1000, tz=UTC).isoformat()
    assert taken(catalog, None, initial=then) == [3]


def test_a_first_run_at_a_time_that_the_log_has_forgotten_is_refused(catalog: SqlCatalog) -> None:
    """2 was written before that time and published after it. Without the log it would be taken for processed."""
    table = new_table(catalog)
    base = append(table, 1)
    table.manage_snapshots().create_branch(base, "audit").commit()
    table.append(table.scan().to_arrow().set_column(0, "id", [[2]]), branch="audit")
    staged = table.snapshot_by_id(table.refresh().metadata.refs["audit"].snapshot_id)
    assert staged is not None
    then = datetime.fromtimestamp(staged.timestamp_ms / 1000, tz=UTC).isoformat()
    table.manage_snapshots().set_current_snapshot(staged.snapshot_id).commit()
    append(table, 3)
    assert taken(catalog, None, initial=then) == [2, 3]
    expire(table, base)
    error = gap(catalog, None, initial=then)
    assert "may have been published after it" in error.problem
    assert str(staged.snapshot_id) in error.remedy


def test_a_first_run_at_a_time_whose_entry_expiry_took_from_the_log_is_refused(catalog: SqlCatalog) -> None:
    """At that time the head was 1, and later 2 once more. The entry before it would leave 2 out."""
    table = new_table(catalog)
    base, newer = append(table, 1), append(table, 2)
    table.manage_snapshots().rollback_to_snapshot(base).commit()
    then = datetime.fromtimestamp(table.metadata.snapshot_log[-1].timestamp_ms / 1000, tz=UTC).isoformat()
    table.manage_snapshots().set_current_snapshot(newer).commit()
    append(table, 3)
    assert taken(catalog, None, initial=then) == [2, 3]
    expire(table, base)
    assert "may have been published after it" in gap(catalog, None, initial=then).problem


@pytest.mark.parametrize("kept", [0, 1])
def test_a_manifest_list_that_lost_its_end_is_refused(catalog: SqlCatalog, kept: int) -> None:
    """Cut off between two blocks it reads like a shorter one, in every engine."""
    table = new_table(catalog)
    append(table, 1)
    append(table, 2)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    listed = ManifestList(table.io, snapshot.manifest_list).all()
    assert len(listed) == 2
    write_manifest_list(
        table.io.new_output(snapshot.manifest_list),
        listed[:kept],
        format_version=2,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=2,
    )
    with pytest.raises(UnsupportedTableError, match=f"names {kept} data files"):
        capture(catalog, "db.t", into="icdc.cut")
    assert not catalog.table_exists("icdc.cut")


class TestNothingHappened:
    """Rows 1 and 2 were captured; then everything but the head expires, its parent is cleared, and no log is kept."""

    @pytest.fixture
    def table(self, catalog: SqlCatalog) -> Table:
        table = new_table(catalog)
        append(table, 1)
        append(table, 2)
        return table

    @pytest.fixture
    def seen(self, catalog: SqlCatalog, table: Table) -> Position:
        """What the first capture noted."""
        return capture(catalog, "db.t", into="icdc.first").to_inclusive

    @staticmethod
    def commit_nothing(table: Table) -> None:
        """A commit that adds no file, as a job without rows makes it; then all others expire."""
        table.refresh()
        table.append(table.scan().to_arrow().slice(0, 0))
        expire(table, *[s.snapshot_id for s in table.metadata.snapshots if s != table.current_snapshot()])
        forget_metadata(table)

    def test_is_proven_by_the_live_manifests(self, catalog: SqlCatalog, table: Table, seen: Position) -> None:
        """They are those that the checkpoint saw."""
        self.commit_nothing(table)
        assert taken(catalog, seen) == []

    @pytest.mark.parametrize("on_gap", ["fail", "full"])
    def test_is_not_believed_of_a_head_that_left_no_trace(
        self, catalog: SqlCatalog, table: Table, seen: Position, on_gap: str
    ) -> None:
        """Row 1 was deleted with its file; the manifest that said so is no longer listed."""
        table.delete("id = 1")
        self.commit_nothing(table)
        if on_gap == "fail":
            gap(catalog, seen)
        else:
            assert taken(catalog, seen, on_gap="full") == [2]

    def test_rows_after_a_first_capture_of_an_empty_commit_are_an_ordinary_range(
        self, catalog: SqlCatalog, table: Table
    ) -> None:
        """The first capture notes the head itself, which is the parent of what follows."""
        self.commit_nothing(table)
        first = capture(catalog, "db.t", into="icdc.first").to_inclusive
        append(table.refresh(), 3)
        assert taken(catalog, first) == [3]

    def test_a_full_capture_of_an_emptied_table_is_a_table_without_rows(
        self, catalog: SqlCatalog, table: Table, seen: Position
    ) -> None:
        """The job has to empty its target."""
        table.delete("id >= 0")
        self.commit_nothing(table)
        record = take(catalog, seen, on_gap="full")
        assert record.icdc_table is not None
        assert rows(catalog, record.icdc_table) == []
