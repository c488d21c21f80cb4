"""``skip_retention``: deletes of whole old files are skipped, and nothing else that removes rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ips.core.errors import RefusedOperationError
from airflow_provider_ips.core.history.files import Content
from airflow_provider_ips.core.history.snapshots import head_position
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture
from airflow_provider_ips.core.record import Decision, Kind
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

SKIP_RETENTION = CaptureSettings(on_other_operation="skip_retention")


class Days(InMemoryHistory):
    """A table partitioned by day."""

    def insert(self, *days: object, spec_id: int = 0) -> None:
        """Append one file for each day."""
        self.commit("append", add=[replace(self.data_file(partition=(day,)), spec_id=spec_id) for day in days])

    def drop(self, *days: object, operation: str = "delete") -> None:
        """Delete all files of the days."""
        self.commit(operation, remove=[f.path for f in self.live_files if f.partition[0] in days])

    def compact_day(self, day: object) -> None:
        """Rewrite the files of one day into one."""
        old = [f.path for f in self.live_files if f.partition == (day,)]
        self.commit("replace", add=[self.data_file(partition=(day,))], remove=old)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def history(request: pytest.FixtureRequest) -> Days:
    """Three old days, in either format: partitions decide, also where all sequence numbers are 0."""
    made = Days("db.t", format_version=request.param)
    made.insert(1, 2, 3)
    return made


def captured(history: Days, committed: object, **options: object) -> int:
    """How many files a capture takes."""
    wanted = replace(SKIP_RETENTION, **options)  # type: ignore[arg-type]
    plan = plan_capture(history, committed=committed, settings=wanted)  # type: ignore[arg-type]
    return sum(v.files or 0 for v in plan.verdicts if v.decision is Decision.CAPTURED)


def refusal(history: Days, committed: object) -> str:
    """Why a capture is refused."""
    with pytest.raises(RefusedOperationError) as refused:
        captured(history, committed)
    return refused.value.problem


def test_daily_retention_is_skipped(history: Days) -> None:
    """Each day, a new one is appended and the oldest is deleted; with ``fail`` this stops the DAG."""
    committed = head_position(history)
    for day in (4, 5):
        history.insert(day)
        history.drop(day - 3)
    assert captured(history, committed) == 2
    plan = plan_capture(history, committed=committed, settings=SKIP_RETENTION)
    passed = [v.reason for v in plan.verdicts if v.decision is Decision.IGNORED]
    assert passed == ["retention: it removes 1 data files, all from partitions that gained nothing"] * 2
    with pytest.raises(RefusedOperationError):
        plan_capture(history, committed=committed, settings=CaptureSettings())


def test_a_retry_skips_the_same(history: Days) -> None:
    """Planned again, whatever was appended since, even to a day that was deleted in the range."""
    committed = head_position(history)
    history.insert(4)
    history.drop(1)
    end = head_position(history)
    history.insert(1)
    again = plan_between(history, kind=Kind.RANGE, from_exclusive=committed, to_inclusive=end, settings=SKIP_RETENTION)
    assert [v.decision for v in again.verdicts] == [Decision.CAPTURED, Decision.IGNORED]


@pytest.mark.parametrize("before", [True, False], ids=["gained-before", "gained-after"])
def test_a_delete_from_a_partition_that_gained_rows_is_not_retention(history: Days, *, before: bool) -> None:
    """Rows that are removed and appended are a correction, in either order."""
    committed = head_position(history)
    if before:
        history.insert(2)
    history.drop(2)
    if not before:
        history.insert(2)
    assert "from a partition that gained rows in the range" in refusal(history, committed)


def test_a_delete_of_a_file_of_the_range_is_not_retention(history: Days) -> None:
    """A consumer would keep rows that the source removed."""
    committed = head_position(history)
    history.insert(4)
    history.drop(4)
    assert "partition that gained rows" in refusal(history, committed)


def test_a_table_without_partitions_is_one_partition(history: Days) -> None:
    """The whole table gained rows, or nothing did."""
    plain = InMemoryHistory("db.t", format_version=history.format_version)
    plain.append(files=3)
    committed = head_position(plain)
    plain.remove()
    assert plan_capture(plain, committed=committed, settings=SKIP_RETENTION).is_empty
    plain.append()
    with pytest.raises(RefusedOperationError, match="gained rows"):
        plan_capture(plain, committed=committed, settings=SKIP_RETENTION)


@pytest.mark.parametrize("operation", ["overwrite", "append", "delete"])
def test_a_rewrite_is_refused_by_what_it_did(history: Days, operation: str) -> None:
    """Copy-on-write leaves rows out of a file that it rewrites; the operation in its summary does not matter."""
    committed = head_position(history)
    old = history.live_files[0]
    history.commit(operation, add=[history.data_file(partition=old.partition)], remove=[old.path])
    assert "is not an append" in refusal(history, committed)


def test_a_row_level_delete_is_refused(history: Days) -> None:
    """It removes rows, and no file."""
    committed = head_position(history)
    history.delete_rows()
    assert "adds 1 delete files" in refusal(history, committed)


def test_partitions_of_another_spec_cannot_be_compared(history: Days) -> None:
    """Unless the range gained nothing at all."""
    committed = head_position(history)
    history.drop(1)
    assert captured(history, committed) == 0
    history.insert(4, spec_id=1)
    assert "partitioned by another spec" in refusal(history, committed)


def test_compacted_days_may_be_deleted(history: Days) -> None:
    """Compaction in the range gives old rows a new file, in the partition that they were in."""
    committed = head_position(history)
    history.compact_day(1)
    history.insert(4)
    history.drop(1)
    assert captured(history, committed) == 1


def test_nan_is_a_partition_that_gained_rows(history: Days) -> None:
    """Although it does not equal itself."""
    history.insert(float("nan"))
    committed = head_position(history)
    history.insert(float("nan"))
    old = next(f for f in history.live_files if f.partition[0] != f.partition[0])
    history.commit("delete", remove=[old.path])
    assert "partition that gained rows" in refusal(history, committed)


class TestDeleteFiles:
    """They are removed with the data files that they apply to."""

    @pytest.fixture
    def history(self) -> Days:
        made = Days("db.t")
        made.insert(1, 2)
        made.commit("overwrite", add=[made.delete_file(partition=(1,))])
        return made

    @staticmethod
    def drop(history: Days, *days: int) -> None:
        """Remove days and every delete file."""
        deletes = [f.path for f in history.live_entries(history.head_id) if f.content is not Content.DATA]
        history.commit("delete", remove=[f.path for f in history.live_files if f.partition[0] in days] + deletes)

    def test_of_a_deleted_day_are_retention(self, history: Days) -> None:
        """The files that they applied to are removed, too."""
        committed = head_position(history)
        self.drop(history, 1)
        assert captured(history, committed) == 0

    def test_of_a_day_that_stays_restore_rows(self, history: Days) -> None:
        """No run would process these."""
        committed = head_position(history)
        self.drop(history, 2)
        assert "deleted rows may be back" in refusal(history, committed)


def test_a_summary_that_counts_other_removals_is_refused(history: Days) -> None:
    """Something was removed that the manifests do not show."""
    committed = head_position(history)
    history.drop(1)
    facts = history.snapshots[2]
    history.snapshots[2] = replace(facts, summary={**facts.summary, "deleted-data-files": "2"})
    assert "2 data files were removed, its manifests name 1" in refusal(history, committed)


DAY = st.integers(min_value=0, max_value=5)
COMMITS = st.lists(st.tuples(st.sampled_from(["insert", "drop", "compact", "one"]), DAY), min_size=1, max_size=14)


def play(history: Days, commits: list[tuple[str, int]]) -> tuple[set[int], set[int], int]:
    """Make commits; return the days that gained files, those that lost some, and how many files were appended."""
    gained: set[int] = set()
    lost: set[int] = set()
    appended = 0
    for what, day in commits:
        there = [f.path for f in history.live_files if f.partition == (day,)]
        if what == "insert":
            history.insert(day)
            gained.add(day)
            appended += 1
        elif what == "compact" and there:
            history.compact_day(day)
        elif what in ("drop", "one") and there:
            history.commit("delete", remove=there if what == "drop" else there[:1])
            lost.add(day)
    return gained, lost, appended


@settings(max_examples=400, deadline=None)
@given(st.lists(DAY, max_size=8), COMMITS, st.sampled_from([1, 2]))
def test_skips_only_deletes_in_days_that_gained_nothing(
    old: list[int], commits: list[tuple[str, int]], version: int
) -> None:
    """Refused if and only if a day both lost and gained files; otherwise the complete log of appends."""
    history = Days("db.t", format_version=version)
    history.insert(*old)
    committed = head_position(history)
    gained, lost, appended = play(history, commits)
    if gained & lost:
        assert "partition that gained rows" in refusal(history, committed)
    else:
        assert captured(history, committed) == appended
        assert captured(history, committed, on_other_operation="skip") == appended


@settings(max_examples=200, deadline=None)
@given(st.lists(DAY, max_size=8), COMMITS, st.integers(1, 3))
def test_bounded_catch_up_takes_the_same_log(old: list[int], commits: list[tuple[str, int]], limit: int) -> None:
    """Where the whole range is not refused, its parts are not either, and compose."""
    history = Days("db.t")
    history.insert(*old)
    committed = head_position(history)
    gained, lost, appended = play(history, commits)
    taken, bounded = 0, replace(SKIP_RETENTION, max_snapshots=limit)
    while not gained & lost:
        plan = plan_capture(history, committed=committed, settings=bounded)
        taken += sum(v.files or 0 for v in plan.verdicts if v.decision is Decision.CAPTURED)
        if plan.to_inclusive == committed:
            assert taken == appended
            break
        committed = plan.to_inclusive
