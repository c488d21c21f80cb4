"""What one capture takes, on histories of a few lines."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.history.selections import CapturePlan, Take
from airflow_provider_ips.core.history.snapshots import head_position
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Decision, Kind
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

SETTINGS = CaptureSettings()


def files(plan: CapturePlan) -> int:
    """How many files the verdicts captured."""
    return sum(v.files or 0 for v in plan.verdicts if v.decision is Decision.CAPTURED)


class CountedHistory(InMemoryHistory):
    """Counts the manifest lists that are opened."""

    def reads_manifests(self, snapshot_id: int) -> tuple:
        """One read each."""
        self.reads.append(snapshot_id)
        return super().reads_manifests(snapshot_id)

    @property
    def reads(self) -> list[int]:
        """Snapshots whose list was opened."""
        return _READS


_READS: list[int] = []


@pytest.fixture
def history() -> CountedHistory:
    """A new table."""
    _READS.clear()
    return CountedHistory("db.t")


def test_nothing_new_costs_no_file_read(history: CountedHistory) -> None:
    """The most frequent case."""
    committed = history.append()
    plan = plan_capture(history, committed=committed, settings=SETTINGS)
    assert (plan.kind, plan.is_empty, plan.to_inclusive) == (Kind.EMPTY, True, committed)
    assert history.reads == []


def test_a_range_of_plain_appends_opens_one_manifest_list(history: CountedHistory) -> None:
    """The list of the newest snapshot accounts for all of them."""
    committed = history.append()
    for _ in range(20):
        history.append(files=2)
    plan = plan_capture(history, committed=committed, settings=SETTINGS)
    assert files(plan) == 40
    assert history.reads == [21]
    assert {s.take for s in plan.selections} == {Take.WHOLE}


def test_merged_manifests_send_capture_to_the_snapshots_own_lists(history: CountedHistory) -> None:
    """Counts that do not add up prove nothing; the additions of the merging snapshot are copied entry by entry."""
    committed = history.append(files=5)
    history.append(files=1)
    history.merge_append(files=2)
    plan = plan_capture(history, committed=committed, settings=SETTINGS)
    assert files(plan) == 3
    assert [s.take for s in plan.selections] == [Take.WHOLE, Take.ADDED]


def test_compaction_is_not_a_change_and_adds_nothing(history: CountedHistory) -> None:
    """And a range of compactions alone opens nothing."""
    committed = history.append(files=5)
    history.compact()
    plan = plan_capture(history, committed=committed, settings=SETTINGS)
    assert plan.is_empty
    assert history.reads == []
    history.append(files=1)
    history.compact()
    assert files(plan_capture(history, committed=committed, settings=SETTINGS)) == 1


@pytest.mark.parametrize("operation", ["delete", "overwrite", "append"])
def test_a_removal_is_refused_whatever_its_operation(history: CountedHistory, operation: str) -> None:
    """And the next append does not hide it."""
    committed = history.append(files=5)
    history.remove(files=1, operation=operation)
    history.append()
    with pytest.raises(RefusedOperationError, match="removes 1 data files") as refusal:
        plan_capture(history, committed=committed, settings=SETTINGS)
    assert "airflow ips seed --table db.t --snapshot 2" in refusal.value.remedy
    assert 'data_operations=("append", "overwrite", "delete")' in refusal.value.remedy


@pytest.mark.parametrize("operation", ["overwrite", "append"])
def test_a_rewrite_is_refused_even_when_its_removals_are_no_longer_listed(
    history: CountedHistory, operation: str
) -> None:
    """The next commit drops manifests that hold only removals, so what is left looks like an append."""
    committed = history.append(files=5)
    history.rewrite_rows(added=2, removed=2, operation=operation)
    history.append()
    with pytest.raises(RefusedOperationError, match="adds 2 data files, removes 2 data files"):
        plan_capture(history, committed=committed, settings=SETTINGS)


def test_delete_files_are_a_change(history: CountedHistory) -> None:
    """Merge-on-read removes rows without removing a file."""
    committed = history.append(files=5)
    history.delete_rows()
    history.append()
    with pytest.raises(RefusedOperationError, match="adds 1 delete files"):
        plan_capture(history, committed=committed, settings=SETTINGS)


def test_an_overwrite_that_removes_nothing_is_an_append(history: CountedHistory) -> None:
    """A dynamic overwrite into a new partition."""
    committed = history.append()
    history.append(files=3, operation="overwrite")
    assert files(plan_capture(history, committed=committed, settings=SETTINGS)) == 3


def test_an_unknown_operation_is_refused(history: CountedHistory) -> None:
    """A later format may mean anything by it."""
    committed = history.append()
    history.append(operation="reshuffle")
    with pytest.raises(RefusedOperationError, match="'reshuffle' is unknown"):
        plan_capture(history, committed=committed, settings=SETTINGS)


def test_skip_leaves_out_changes_and_keeps_the_log_of_appends(history: CountedHistory) -> None:
    """The verdict says so."""
    committed = history.append(files=5)
    history.append(files=2)
    history.remove(files=3)
    plan = plan_capture(history, committed=committed, settings=CaptureSettings(on_other_operation="skip"))
    assert files(plan) == 2
    assert plan.verdicts[-1].decision is Decision.IGNORED
    assert "skipped" in plan.verdicts[-1].reason


def test_unknown_counts_are_never_taken_for_zero(history: CountedHistory) -> None:
    """A v1 list may leave counts out; the snapshot is refused, not taken for empty."""
    committed = history.append()
    history.merge_append(files=2)
    own = history.manifests[2][0]
    history.manifests[2] = (type(own)(**{n: getattr(own, n) for n in own.__slots__} | {"deleted_files": None}),)
    with pytest.raises(UnsupportedTableError, match="does not say"):
        plan_capture(history, committed=committed, settings=SETTINGS)


def test_a_summary_that_contradicts_the_manifests_is_refused(history: CountedHistory) -> None:
    """Something was removed that no manifest shows."""
    committed = history.append(files=5)
    history.append(files=2)
    facts = history.snapshots[2]
    history.snapshots[2] = type(facts)(
        **{n: getattr(facts, n) for n in facts.__slots__} | {"summary": {**facts.summary, "total-data-files": "4"}}
    )
    with pytest.raises(RefusedOperationError, match="grew by"):
        plan_capture(history, committed=committed, settings=SETTINGS)


class TestFirstRuns:
    """``initial`` in its four forms."""

    def test_full_takes_every_live_manifest(self, history: CountedHistory) -> None:
        """With the delete files that apply."""
        history.append(files=2)
        history.delete_rows()
        plan = plan_capture(history, committed=None, settings=SETTINGS)
        assert plan.kind is Kind.FULL
        assert {s.take for s in plan.selections} == {Take.WHOLE}
        assert len(plan.selections) == 2

    def test_full_of_an_empty_table_is_empty_and_remembers_that(self, history: CountedHistory) -> None:
        """The next run captures everything since."""
        plan = plan_capture(history, committed=None, settings=SETTINGS)
        assert plan.is_empty
        history.append(files=3)
        assert files(plan_capture(history, committed=plan.to_inclusive, settings=SETTINGS)) == 3

    def test_latest_takes_nothing_and_starts_from_now(self, history: CountedHistory) -> None:
        """Files that are there already count as processed."""
        history.append(files=3)
        plan = plan_capture(history, committed=None, settings=CaptureSettings(initial="latest"))
        assert plan.is_empty
        history.append(files=1)
        assert files(plan_capture(history, committed=plan.to_inclusive, settings=SETTINGS)) == 1

    def test_a_snapshot_id_or_a_time_starts_after_it(self, history: CountedHistory) -> None:
        """What came after is captured."""
        history.append(files=1)
        history.append(files=2)
        history.append(files=4)
        by_id = plan_capture(history, committed=None, settings=CaptureSettings(initial="1"))
        by_time = plan_capture(history, committed=None, settings=CaptureSettings(initial="1970-01-01T00:00:02+00:00"))
        assert (files(by_id), files(by_time)) == (6, 4)

    def test_a_snapshot_outside_the_lineage_is_refused(self, history: CountedHistory) -> None:
        """The error lists those that can be used."""
        history.append()
        with pytest.raises(GapError, match="99999 is not in the lineage"):
            plan_capture(history, committed=None, settings=CaptureSettings(initial="99999"))


class TestLimits:
    """A limited range never ends inside a snapshot, and takes at least one."""

    @pytest.mark.parametrize(
        ("limits", "expected"),
        [
            ({"max_snapshots": 2}, [2, 2, 1]),
            ({"max_files": 4}, [2, 2, 1]),
            ({"max_files": 1}, [1, 1, 1, 1, 1]),
            ({"max_bytes": 6000}, [3, 2]),
            ({"max_snapshots": 10}, [5]),
        ],
    )
    def test_a_backlog_is_worked_off_in_steps(
        self, history: CountedHistory, limits: dict[str, Any], expected: list[int]
    ) -> None:
        """Five snapshots of two files each; the numbers are snapshots per run."""
        committed = history.append()
        for _ in range(5):
            history.append(files=2)
        taken = []
        while not (plan := plan_capture(history, committed=committed, settings=CaptureSettings(**limits))).is_empty:
            taken.append(len(plan.verdicts))
            committed = plan.to_inclusive
        assert taken == expected
        assert committed == head_position(history)

    def test_limits_do_not_apply_to_full(self, history: CountedHistory) -> None:
        """It takes all live files, whatever they amount to."""
        history.append(files=9)
        history.append(files=9)
        plan = plan_capture(history, committed=None, settings=CaptureSettings(max_files=1))
        assert len(plan.selections) == 2

    def test_a_byte_limit_that_cannot_be_kept_is_refused(self, history: CountedHistory) -> None:
        """A summary without sizes."""
        committed = history.append()
        history.append()
        facts = history.snapshots[2]
        bare = {k: v for k, v in facts.summary.items() if k != "added-files-size"}
        history.snapshots[2] = type(facts)(**{n: getattr(facts, n) for n in facts.__slots__} | {"summary": bare})
        with pytest.raises(InputError, match="max_bytes=5"):
            plan_capture(history, committed=committed, settings=CaptureSettings(max_bytes=5))

    def test_the_same_range_again_ignores_limits(self, history: CountedHistory) -> None:
        """A retry takes what the first attempt took, whatever the DAG says now."""
        start = history.append()
        history.append()
        end = history.append()
        history.append()
        plan = plan_between(
            history,
            kind=Kind.RANGE,
            from_exclusive=start,
            to_inclusive=end,
            settings=CaptureSettings(max_snapshots=1),
        )
        assert (len(plan.verdicts), plan.to_inclusive) == (2, end)


class TestGaps:
    """What each choice of ``on_gap`` does."""

    @staticmethod
    def gap(history: InMemoryHistory) -> Position:
        """A checkpoint that was rolled back."""
        first = history.append(files=1)
        lost = history.append(files=1)
        history.rollback(first)
        history.append(files=3)
        return lost

    def test_full_starts_over(self, history: CountedHistory) -> None:
        """And warns why."""
        plan = plan_capture(history, committed=self.gap(history), settings=CaptureSettings(on_gap="full"))
        assert plan.kind is Kind.FULL
        assert "not in the lineage" in plan.warnings[0]

    def test_resync_takes_what_is_newer(self, history: CountedHistory) -> None:
        """Sequence numbers only grow, so nothing newer is missed."""
        plan = plan_capture(history, committed=self.gap(history), settings=CaptureSettings(on_gap="resync"))
        assert plan.kind is Kind.RESYNC
        assert [s.manifest.added_snapshot_id for s in plan.selections] == [3]

    def test_resync_takes_merged_manifests_apart(self, history: CountedHistory) -> None:
        """Their older entries were processed before."""
        lost = self.gap(history)
        history.merge_append(files=1)
        plan = plan_capture(history, committed=lost, settings=CaptureSettings(on_gap="resync"))
        assert [(s.take, s.newer_than) for s in plan.selections] == [(Take.NEWER, lost.sequence_number)]

    def test_resync_is_refused_where_numbers_prove_nothing(self) -> None:
        """In format v1 all sequence numbers are 0."""
        history = InMemoryHistory("db.t", format_version=1)
        lost = self.gap(history)
        with pytest.raises(GapError, match="prove nothing"):
            plan_capture(history, committed=lost, settings=CaptureSettings(on_gap="resync"))

    def test_resync_of_another_table_is_refused(self, history: CountedHistory) -> None:
        """Its sequence numbers started again."""
        history.append()
        stranger = Position(table_uuid="other", snapshot_id=1, sequence_number=1, committed_at_ms=1)
        with pytest.raises(GapError, match="another table"):
            plan_capture(history, committed=stranger, settings=CaptureSettings(on_gap="resync"))
