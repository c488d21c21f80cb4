"""A table of which only the head is shown, without its parent: what its manifests tell of the snapshots before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history import head_position, position_of
from airflow_provider_ips.core.memory import InMemoryHistory
from airflow_provider_ips.core.plan import plan_capture, replan
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.selection import CapturePlan, Take
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.core.traces import traced_position

if TYPE_CHECKING:
    from collections.abc import Callable

RESYNC = CaptureSettings(on_gap="resync")


@pytest.fixture
def history() -> InMemoryHistory:
    """A table with two appends."""
    history = InMemoryHistory("db.t")
    history.append()
    history.append()
    return history


def as_shown(history: InMemoryHistory) -> InMemoryHistory:
    """What a catalog gives that shows the head alone."""
    assert history.head is not None
    return replace(
        history,
        snapshots={history.head.snapshot_id: replace(history.head, parent_id=None)},
        manifests={history.head.snapshot_id: history.manifests[history.head.snapshot_id]},
        written={},
    )


def resync(history: InMemoryHistory, committed: Position, *, on_gap: str = "resync") -> CapturePlan:
    """Plan on what such a catalog shows."""
    return plan_capture(as_shown(history), committed=committed, settings=CaptureSettings(on_gap=on_gap))


def paths(history: InMemoryHistory, plan: CapturePlan) -> set[str]:
    """The data files that a plan takes."""
    return {
        file.path
        for s in plan.selections
        for file in history.entries[s.manifest.path]
        if file.is_live and (s.take is Take.WHOLE or file.sequence_number > (s.newer_than or 0))
    }


def test_what_the_checkpoints_snapshot_wrote_proves_that_the_head_descends_from_it(history: InMemoryHistory) -> None:
    """So everything with a smaller number was there, and was processed."""
    checkpoint = head_position(history)
    history.append(files=2)
    history.append(files=3)
    assert len(paths(history, resync(history, checkpoint))) == 5


def test_merged_manifests_still_say_which_snapshot_added_a_file(history: InMemoryHistory) -> None:
    """By the snapshot id of each entry."""
    checkpoint = head_position(history)
    history.merge_append(files=2)
    history.merge_append(files=3)
    assert len(paths(history, resync(history, checkpoint))) == 5


@pytest.mark.parametrize("append", [InMemoryHistory.append, InMemoryHistory.merge_append])
def test_after_a_rollback_numbers_prove_nothing(
    history: InMemoryHistory, append: Callable[[InMemoryHistory], Position]
) -> None:
    """The numbers start again where the table was rolled back to. What took the lost ones' would not be captured."""
    lost = Position(table_uuid=history.table_uuid, snapshot_id=4711, sequence_number=3, committed_at_ms=3000)
    append(history)
    append(history)
    with pytest.raises(GapError, match="not known to be its ancestor"):
        resync(history, lost)


def test_where_every_live_file_was_written_since_all_are_taken(history: InMemoryHistory) -> None:
    """Compaction leaves no trace of the checkpoint, but nothing older either. It may hand on the rows' own number."""
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
    """The checkpoint's own file is gone, and nothing says of the others that they were there."""
    checkpoint = head_position(history)
    history.commit("replace", add=[history.data_file()], remove=[history.live_files[-1].path])
    with pytest.raises(GapError, match="not known to be its ancestor"):
        resync(history, checkpoint)


def test_a_checkpoint_on_the_empty_table_takes_everything() -> None:
    """Whatever is there now came after it."""
    history = InMemoryHistory("db.t")
    empty = head_position(history)
    history.append(files=2)
    history.merge_append(files=3)
    plan = resync(history, empty)
    assert plan.kind is Kind.RESYNC
    assert len(paths(history, plan)) == 5


def test_a_commit_of_nothing_does_not_move_the_checkpoint_to_where_it_cannot_be_found_again(
    history: InMemoryHistory,
) -> None:
    """It wrote no file, so from there on nothing would prove anything."""
    checkpoint = head_position(history)
    history.commit("append")
    plan = resync(history, checkpoint)
    assert plan.kind is Kind.EMPTY
    assert plan.to_inclusive.snapshot_id == checkpoint.snapshot_id
    history.append(files=2)
    assert len(paths(history, resync(history, plan.to_inclusive))) == 2


def test_rows_and_then_a_commit_of_nothing_end_where_the_rows_came(history: InMemoryHistory) -> None:
    """Nothing is left to process there, a retry finds the same end, and the next rows are found from it."""
    checkpoint = head_position(history)
    written = history.append(files=2)
    history.commit("append")
    plan = resync(history, checkpoint)
    assert plan.to_inclusive.snapshot_id == written.snapshot_id
    assert resync(history, plan.to_inclusive, on_gap="fail").is_empty
    again = replan(
        as_shown(history),
        kind=plan.kind,
        from_exclusive=checkpoint,
        to_inclusive=plan.to_inclusive,
        settings=RESYNC,
    )
    assert (again.to_inclusive, again.selections) == (plan.to_inclusive, plan.selections)
    history.append(files=3)
    assert len(paths(history, resync(history, plan.to_inclusive))) == 3


def test_where_parents_are_shown_the_end_is_the_head(history: InMemoryHistory) -> None:
    """There a commit of nothing is a place like any other."""
    checkpoint = head_position(history)
    nothing = history.commit("append")
    assert plan_capture(history, committed=checkpoint, settings=RESYNC).to_inclusive == nothing


def test_a_snapshot_that_is_not_shown_is_placed_by_its_manifest(history: InMemoryHistory) -> None:
    """By number; one that left no manifest is not placed at all."""
    older = history.snapshots[1]
    assert traced_position(history, 1) == replace(position_of(history, older), committed_at_ms=0)
    assert traced_position(history, 4711) is None
    assert traced_position(InMemoryHistory("db.empty"), 1) is None
