"""What the error over a gap says about each choice, compared with what the choice then does."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ips.core.errors import CatalogError, GapError
from airflow_provider_ips.core.history.files import DATA, Content
from airflow_provider_ips.core.history.selections import Take
from airflow_provider_ips.core.lineage.resync import preview_resync
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import FILE_BYTES, InMemoryHistory

if TYPE_CHECKING:
    from airflow_provider_ips.core.positions import Position


def rolled_back(*, format_version: int = 2) -> tuple[InMemoryHistory, Position]:
    """One file, a checkpoint that was rolled back, three files since."""
    history = InMemoryHistory("db.t", format_version=format_version)
    first = history.append(files=1)
    lost = history.append(files=1)
    history.rollback(first)
    history.append(files=3)
    return history, lost


def remedy(history: InMemoryHistory, committed: Position) -> str:
    """The remedy in the error."""
    with pytest.raises(GapError) as gap:
        plan_capture(history, committed=committed, settings=CaptureSettings())
    return gap.value.remedy


def test_each_choice_is_described_with_files_bytes_and_whether_it_is_exact() -> None:
    """All that is needed to choose, in the error itself."""
    text = remedy(*rolled_back())
    assert "on_gap='full' captures the whole table (4 files, 4000 bytes; no loss; a superset" in text
    assert "newer than sequence number 2 (3 files, at most 3000 bytes; no loss; exact: appends alone" in text


def test_compaction_since_makes_it_a_superset() -> None:
    """The error names the snapshot."""
    history, lost = rolled_back()
    history.compact()
    assert "(1 file, at most 1000 bytes; no loss; a superset: snapshot 4 (replace" in remedy(history, lost)


def test_merged_manifests_make_it_an_upper_bound() -> None:
    """Which of their files are newer is not in the manifest list."""
    history, lost = rolled_back()
    history.merge_append(files=2)
    assert "(at most 6 files, at most 5000 bytes; no loss; exact" in remedy(history, lost)


def test_a_cherry_picked_snapshot_may_have_been_processed_where_it_came_from() -> None:
    """Its files get new numbers."""
    history, lost = rolled_back()
    history.append(files=1)
    facts = history.snapshots[4]
    history.snapshots[4] = replace(facts, summary={**facts.summary, "source-snapshot-id": "2"})
    history.written[4] = history.snapshots[4]
    assert "a superset: snapshot 4" in remedy(history, lost)


def test_a_row_restored_after_the_rollback_is_not_taken_for_processed() -> None:
    """Its file is older than the checkpoint, which did not show the row."""
    history = InMemoryHistory("db.t")
    history.append()
    deleted = history.delete_rows()
    lost = history.append()
    history.rollback(deleted)
    delete = next(file for file in history.live_entries(history.head_id) if file.content is not Content.DATA)
    history.commit("delete", remove=[delete.path])
    history.append()
    with pytest.raises(GapError, match="deleted rows may have been restored"):
        plan_capture(history, committed=lost, settings=CaptureSettings(on_gap="resync"))


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_resync_that_is_refused_says_why_in_both_places(format_version: int) -> None:
    """In the error that lists the choices, and in the one over ``on_gap='resync'``."""
    history, lost = rolled_back(format_version=format_version)
    if format_version > 1:
        history.head_id = 1
    why = preview_resync(history, lost, history.head).refusal
    assert why
    text = remedy(history, lost)
    assert f"on_gap='resync' is not possible here, because sequence numbers prove nothing ({why})" in text
    with pytest.raises(GapError, match="cannot be resynchronised") as refused:
        plan_capture(history, committed=lost, settings=CaptureSettings(on_gap="resync"))
    assert refused.value.consequence == why
    assert re.search(r"on_gap='full' captures the whole table \(\d files?, \d+ bytes", refused.value.remedy)


def test_captures_of_changes_have_no_resync_and_say_so() -> None:
    """Nothing shows which rows were removed, so the error says that they are still in the target."""
    history, lost = rolled_back()
    changes = CaptureSettings(data_operations=("append", "overwrite", "delete"))
    with pytest.raises(GapError) as gap:
        plan_capture(history, committed=lost, settings=changes)
    assert "on_gap='full' captures the whole table (4 files" in gap.value.remedy
    assert "on_gap='resync' is not possible here (All three operations are captured" in gap.value.remedy
    assert "empty it before the job" in gap.value.remedy
    with pytest.raises(GapError, match="never which rows were removed"):
        plan_capture(history, committed=lost, settings=replace(changes, on_gap="resync"))
    full = plan_capture(history, committed=lost, settings=replace(changes, on_gap="full"))
    assert any("empty it before the job" in warning for warning in full.warnings)


class Unreadable(InMemoryHistory):
    """A storage that does not answer."""

    def reads_manifests(self, snapshot_id: int) -> tuple:
        raise CatalogError("the storage does not answer")


def test_the_gap_is_reported_even_if_the_storage_does_not_answer() -> None:
    """What is wrong matters more than how many files a choice would take."""
    history, lost = rolled_back()
    silent = Unreadable("db.t", snapshots=history.snapshots, manifests=history.manifests, head_id=history.head_id)
    assert "could not be looked into (the storage does not answer)" in remedy(silent, lost)


COMMITS = st.lists(
    st.tuples(st.sampled_from(["append", "merge", "compact", "remove", "rewrite"]), st.integers(1, 4)), max_size=12
)


def commit(history: InMemoryHistory, name: str, count: int) -> Position:
    """One commit of a kind."""
    live = (history.head.count("total-data-files") or 0) if history.head else 0
    if name == "merge":
        return history.merge_append(files=count)
    if name == "compact":
        return history.compact()
    if name == "remove":
        return history.remove(files=min(count, live))
    if name == "rewrite":
        return history.rewrite_rows(added=count, removed=min(count, live))
    return history.append(files=count)


@settings(max_examples=300, deadline=None)
@given(COMMITS, COMMITS)
def test_a_resync_never_takes_more_than_was_announced(
    before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    """Upper bounds hold; and a resync that is called exact takes only what was appended since."""
    history = InMemoryHistory("db.t")
    base = history.append()
    for name, count in before:
        commit(history, name, count)
    lost = history.append()
    history.rollback(base)
    history.append(files=2)
    appended = 2 + sum(count for name, count in after if name in ("append", "merge"))
    for name, count in after:
        commit(history, name, count)
    announced = preview_resync(history, lost, history.head)
    removed = any(name not in ("append", "merge", "compact") for name, _ in before)
    assert bool(announced.refusal) == (removed and not announced.takes_all)
    if announced.refusal:
        with pytest.raises(GapError):
            plan_capture(history, committed=lost, settings=CaptureSettings(on_gap="resync"))
        return
    plan = plan_capture(history, committed=lost, settings=CaptureSettings(on_gap="resync"))
    data = [s for s in plan.selections if s.manifest.content == DATA]
    at_most = sum((s.manifest.added_files or 0) + (s.manifest.existing_files or 0) for s in data)
    assert announced.files == at_most
    assert announced.files_exact == all(s.take is Take.WHOLE for s in data)
    if not announced.superset:
        assert {name for name, _ in after} <= {"append", "merge"}
        assert announced.size_bytes == appended * FILE_BYTES
