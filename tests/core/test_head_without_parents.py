"""A catalog that shows only the head, without its parent: what manifests say about earlier snapshots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history.selections import CapturePlan, Take
from airflow_provider_ips.core.history.snapshots import head_position, position_of, take_evidence
from airflow_provider_ips.core.lineage.expired_history import position_from_manifests
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture, plan_full, with_evidence
from airflow_provider_ips.core.planning.uncommitted import UncommittedCaptures
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from collections.abc import Callable

RESYNC = CaptureSettings(on_gap="resync")
LOG = CaptureSettings(on_other_operation="skip")


@pytest.fixture
def history() -> InMemoryHistory:
    """A table with two appends."""
    history = InMemoryHistory("db.t")
    history.append()
    history.append()
    return history


def as_shown(history: InMemoryHistory) -> InMemoryHistory:
    """The history as such a catalog shows it."""
    assert history.head is not None
    return replace(
        history,
        snapshots={history.head.snapshot_id: replace(history.head, parent_id=None)},
        manifests={history.head.snapshot_id: history.manifests[history.head.snapshot_id]},
        written={},
    )


def resync(history: InMemoryHistory, committed: Position, *, on_gap: str = "resync") -> CapturePlan:
    """Plan by what such a catalog shows, and note what a checkpoint notes of the end."""
    shown = as_shown(history)
    return with_evidence(shown, plan_capture(shown, committed=committed, settings=CaptureSettings(on_gap=on_gap)))


def head_checkpoint(history: InMemoryHistory) -> Position:
    """The position that a capture up to the head stores."""
    return take_evidence(history, head_position(history))


def paths(history: InMemoryHistory, plan: CapturePlan) -> set[str]:
    """The data files that a plan takes."""
    return {
        file.path
        for s in plan.selections
        for file in history.entries[s.manifest.path]
        if file.is_live and (s.take is Take.WHOLE or file.sequence_number > (s.newer_than or 0))
    }


def test_what_the_checkpoints_snapshot_wrote_proves_that_the_head_descends_from_it(history: InMemoryHistory) -> None:
    """So all files with a lower number were there, and were processed."""
    checkpoint = head_checkpoint(history)
    history.append(files=2)
    history.append(files=3)
    assert len(paths(history, resync(history, checkpoint))) == 5


def test_deleted_rows_that_an_expired_snapshot_may_have_restored_are_not_taken_for_processed(
    history: InMemoryHistory,
) -> None:
    """They lie in files that are older than the checkpoint by number, and were not live there."""
    history.delete_rows()
    checkpoint = head_checkpoint(history)
    history.merge_append(files=2)
    history.append(files=3)
    with pytest.raises(GapError, match="cannot be resynchronised"):
        resync(history, checkpoint)


def test_of_an_expired_snapshot_that_is_named_by_its_id_a_resync_says_what_is_unknown(history: InMemoryHistory) -> None:
    """That the table has no delete file now does not show that it never had one. Its own checkpoint would say so."""
    known = head_checkpoint(history)
    history.merge_append(files=2)
    named, proven = resync(history, replace(known, evidence=None)), resync(history, known)
    assert named.selections == proven.selections
    assert any("only the id is known" in warning for warning in named.warnings)
    assert not any("only the id is known" in warning for warning in proven.warnings)


def test_an_append_alone_leaves_all_older_manifests_as_they_were(history: InMemoryHistory) -> None:
    """The deletes among them apply as they did at the checkpoint, so nothing was restored."""
    history.delete_rows()
    checkpoint = head_checkpoint(history)
    history.append(files=3)
    assert len(paths(history, resync(history, checkpoint))) == 3


def test_the_writer_before_a_delete_is_not_the_checkpoint(history: InMemoryHistory) -> None:
    """At an empty commit after a delete, an ancestor wrote the newest manifest: after a rollback to it, rows are live
    that the checkpoint did not have.
    """
    before = head_position(history)
    history.remove()
    history.commit("append")
    checkpoint = head_checkpoint(history)
    history.rollback(before)
    history.append(files=3)
    with pytest.raises(GapError, match="cannot be resynchronised"):
        plan_capture(history, committed=checkpoint, settings=CaptureSettings(on_gap="resync"))


@pytest.mark.parametrize(("empty", "is_proven"), [(1, True), (2, False)])
def test_an_empty_commit_right_after_an_append_has_its_rows(
    history: InMemoryHistory, empty: int, *, is_proven: bool
) -> None:
    """No number is left for a delete in between. Of two empty commits the first may have been a delete."""
    for _ in range(empty):
        history.commit("append")
    checkpoint = head_checkpoint(history)
    history.merge_append(files=3)
    if is_proven:
        assert len(paths(history, resync(history, checkpoint))) == 3
    else:
        with pytest.raises(GapError, match="cannot be resynchronised"):
            resync(history, checkpoint)


def test_a_position_with_the_rows_of_the_one_before_has_its_writer(history: InMemoryHistory) -> None:
    before = head_checkpoint(history)
    history.commit("append")
    history.commit("append")
    checkpoint = take_evidence(history, head_position(history), before)
    history.merge_append(files=3)
    assert len(paths(history, resync(history, checkpoint))) == 3


def test_merged_manifests_still_say_which_snapshot_added_a_file(history: InMemoryHistory) -> None:
    """By the snapshot id of each entry."""
    checkpoint = head_checkpoint(history)
    history.merge_append(files=2)
    history.merge_append(files=3)
    assert len(paths(history, resync(history, checkpoint))) == 5


@pytest.mark.parametrize("append", [InMemoryHistory.append, InMemoryHistory.merge_append])
def test_after_a_rollback_numbers_prove_nothing(
    history: InMemoryHistory, append: Callable[[InMemoryHistory], Position]
) -> None:
    """After a rollback of the metadata the same numbers come again: files that have them would not be captured."""
    lost = Position(table_uuid=history.table_uuid, snapshot_id=4711, sequence_number=3, committed_at_ms=3000)
    append(history)
    append(history)
    with pytest.raises(GapError, match="not known to be its ancestor"):
        resync(history, lost)


def test_where_every_live_file_was_written_since_all_are_taken(history: InMemoryHistory) -> None:
    """Compaction leaves no trace of the checkpoint, and no older file either. It may keep the number of the rows."""
    checkpoint = head_position(history)
    live = [file.path for file in history.live_files]
    compacted = replace(history.data_file(), sequence_number=checkpoint.sequence_number)
    history.commit("replace", add=[compacted], remove=live)
    history.append()
    plan = resync(history, checkpoint)
    assert paths(history, plan) == {file.path for file in history.live_files}
    assert "a superset" in plan.warnings[-1]


def test_with_all_files_come_the_deletes_that_are_older_than_the_checkpoint(history: InMemoryHistory) -> None:
    """They may apply to what compaction wrote under an older number."""
    history.delete_rows()
    checkpoint = history.append()
    live = [file.path for file in history.live_files]
    compacted = replace(history.data_file(), sequence_number=2)
    history.commit("replace", add=[compacted], remove=live)
    plan = resync(history, checkpoint)
    assert {s.manifest.content for s in plan.selections} == {"data", "deletes"}


def test_a_compaction_that_left_older_files_alone_is_refused(history: InMemoryHistory) -> None:
    """The checkpoint's own file was compacted, and nothing proves that the others were there then."""
    checkpoint = head_position(history)
    history.commit("replace", add=[history.data_file()], remove=[history.live_files[-1].path])
    with pytest.raises(GapError, match="not known to be its ancestor"):
        resync(history, checkpoint)


def test_a_checkpoint_on_the_empty_table_takes_everything() -> None:
    """All files were added after it."""
    history = InMemoryHistory("db.t")
    empty = head_position(history)
    history.append(files=2)
    history.merge_append(files=3)
    plan = resync(history, empty)
    assert plan.kind is Kind.RESYNC
    assert len(paths(history, plan)) == 5


def test_an_empty_commit_is_told_by_the_same_live_manifests_and_rows_after_it_are_found(
    history: InMemoryHistory,
) -> None:
    """It wrote no file; what the snapshot before it wrote proves that it was an ancestor."""
    checkpoint = head_checkpoint(history)
    empty = history.commit("append")
    plan = resync(history, checkpoint)
    assert (plan.kind, plan.to_inclusive) == (Kind.EMPTY, empty)
    history.append(files=2)
    assert len(paths(history, resync(history, plan.to_inclusive))) == 2


def test_without_evidence_the_same_head_is_not_known_to_be_the_same(history: InMemoryHistory) -> None:
    """The newest manifest is the checkpoint's, and that proves nothing."""
    checkpoint = head_position(history)
    history.commit("append")
    with pytest.raises(GapError):
        resync(history, checkpoint, on_gap="fail")


@pytest.mark.parametrize("on_gap", ["fail", "full"])
def test_a_removal_that_left_no_trace_is_no_empty_commit(history: InMemoryHistory, on_gap: str) -> None:
    """A whole file is deleted, an empty commit drops the manifest that says so, and only the head is shown."""
    checkpoint = head_checkpoint(history)
    removed = history.live_files[0].path
    history.commit("delete", remove=[removed])
    history.commit("append")
    if on_gap == "fail":
        with pytest.raises(GapError):
            resync(history, checkpoint, on_gap=on_gap)
        return
    plan = resync(history, checkpoint, on_gap=on_gap)
    assert plan.kind is Kind.FULL
    assert removed not in paths(history, plan)


def test_a_log_of_appends_is_not_known_to_be_complete_by_what_is_live(history: InMemoryHistory) -> None:
    """A file may have been added and removed since, also where no sequence number lies between."""
    checkpoint = head_checkpoint(history)
    for _ in range(2):
        history.commit("append")
        with pytest.raises(GapError):
            plan_capture(as_shown(history), committed=checkpoint, settings=LOG)


def test_a_log_of_appends_is_a_gap_where_a_rollback_left_the_same_rows() -> None:
    """The next number and the same rows: yet an append was rolled back, and another commit followed."""
    history = InMemoryHistory("db.t")
    first = history.append()
    history.append()
    history.remove(files=2)
    checkpoint = head_checkpoint(history)
    history.rollback(first)
    history.remove()
    with pytest.raises(GapError, match="rolled back"):
        plan_capture(history, committed=checkpoint, settings=LOG)


def test_a_first_run_that_may_have_written_is_followed_by_one_that_empties_the_target(history: InMemoryHistory) -> None:
    """Its rows are in the target, and the source has none any more: the job has to run, also for a log of appends."""
    uncommitted = UncommittedCaptures((head_checkpoint(history),))
    history.remove(files=2)
    assert plan_capture(history, committed=None, settings=LOG).is_empty
    plan = plan_capture(history, committed=None, settings=LOG, uncommitted=uncommitted)
    assert (plan.kind, plan.is_empty, plan.selections) == (Kind.FULL, False, ())


def test_a_full_capture_of_a_table_that_was_emptied_runs(history: InMemoryHistory) -> None:
    """A target has to be emptied, too; a first run has nothing to empty."""
    checkpoint = head_checkpoint(history)
    history.commit("delete", remove=[file.path for file in history.live_files])
    history.commit("append")
    plan = resync(history, checkpoint, on_gap="full")
    assert (plan.kind, plan.is_empty, plan.selections) == (Kind.FULL, False, ())
    assert not plan_full(as_shown(history), committed=checkpoint, settings=RESYNC).is_empty
    assert plan_capture(as_shown(history), committed=None, settings=RESYNC).is_empty


def test_a_range_that_ends_with_an_empty_commit_is_found_again(history: InMemoryHistory) -> None:
    """Nothing is left to process there, a retry finds the same end, and the next rows are found from it."""
    checkpoint = head_checkpoint(history)
    history.append(files=2)
    empty = history.commit("append")
    plan = resync(history, checkpoint)
    assert plan.to_inclusive == empty
    assert resync(history, plan.to_inclusive, on_gap="fail").is_empty
    history.commit("append")
    again = plan_between(
        as_shown(history),
        kind=plan.kind,
        from_exclusive=checkpoint,
        to_inclusive=plan.to_inclusive,
        settings=RESYNC,
    )
    assert again.selections == plan.selections
    history.append(files=3)
    assert len(paths(history, resync(history, plan.to_inclusive))) == 3


def test_a_first_capture_is_found_again_after_an_expiry_that_cleared_parents(history: InMemoryHistory) -> None:
    """It notes the head, and not a snapshot that has expired already; the next append has the head as its parent."""
    appended, empty = head_position(history), history.commit("append")
    history.expire(appended)
    history.cut_parent(empty)
    first = with_evidence(history, plan_capture(history, committed=None, settings=CaptureSettings()))
    history.append(files=2)
    assert len(plan_capture(history, committed=first.to_inclusive, settings=CaptureSettings()).selections) == 1


def test_where_parents_are_shown_the_end_is_the_head(history: InMemoryHistory) -> None:
    """There an empty commit can be found like any other."""
    checkpoint = head_position(history)
    nothing = history.commit("append")
    assert plan_capture(history, committed=checkpoint, settings=RESYNC).to_inclusive == nothing


def test_a_snapshot_that_is_not_shown_is_found_by_its_manifest(history: InMemoryHistory) -> None:
    """With its sequence number; one that left no manifest is not found."""
    older = history.snapshots[1]
    assert position_from_manifests(history, 1) == replace(position_of(history, older), committed_at_ms=0)
    assert position_from_manifests(history, 4711) is None
    assert position_from_manifests(InMemoryHistory("db.empty"), 1) is None
