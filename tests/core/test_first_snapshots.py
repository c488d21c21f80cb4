"""Which snapshot is proven to be a table's first, and what a walk proves that expiry has ended."""

from __future__ import annotations

import pytest

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history.snapshots import head_position, take_evidence
from airflow_provider_ips.core.lineage.expired_history import is_first_snapshot
from airflow_provider_ips.core.lineage.walk import prove_lineage
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

RESYNC = CaptureSettings(on_gap="resync")


def emptied_and_filled_again(format_version: int = 2) -> InMemoryHistory:
    """Append, remove everything, append; then all but the newest are expired and its parent cleared."""
    history = InMemoryHistory("db.t", format_version=format_version)
    first = history.append(files=2)
    emptied = history.remove(files=2)
    last = history.append(files=3)
    history.manifests[3] = tuple(m for m in history.manifests[3] if m.added_snapshot_id == 3)
    history.expire(first)
    history.expire(emptied)
    history.cut_parent(last)
    return history


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize("forgets", [True, False], ids=["metadata-forgotten", "metadata-named"])
def test_a_snapshot_after_all_files_were_removed_is_not_the_first(format_version: int, *, forgets: bool) -> None:
    """It lists only what it added, like a first one; what was appended and removed before would be lost silently."""
    history = emptied_and_filled_again(format_version)
    if forgets:
        history.forget_metadata()
    assert history.head is not None
    assert not is_first_snapshot(history, history.head)


def test_a_checkpoint_on_the_empty_table_is_not_reached_by_such_a_snapshot() -> None:
    """The range would begin too late."""
    history = InMemoryHistory("db.t")
    empty = head_position(history)
    history = emptied_and_filled_again()
    with pytest.raises(GapError, match="nothing proves that the oldest retained snapshot is the table's first"):
        plan_capture(history, committed=empty, settings=CaptureSettings())


def test_the_metadata_file_of_its_commit_proves_a_first_snapshot_of_format_v1() -> None:
    """Without sequence numbers nothing else can; and without that file, nothing does."""
    history = InMemoryHistory("db.t", format_version=1)
    history.append()
    assert history.head is not None
    assert is_first_snapshot(history, history.head)
    history.forget_metadata()
    assert not is_first_snapshot(history, history.head)


def test_number_one_proves_a_first_snapshot_without_any_file() -> None:
    """No commit can have come before it."""
    history = InMemoryHistory("db.t")
    history.append()
    history.append()
    history.forget_metadata()
    assert is_first_snapshot(history, history.snapshots[1])


def test_a_replaced_table_has_a_new_first_snapshot_while_its_old_ones_are_retained() -> None:
    """CREATE OR REPLACE continues the numbers; all lower ones are retained, so no parent was expired."""
    history = InMemoryHistory("db.t")
    old = history.append()
    history.append()
    history.head_id = None
    history.append(files=2)
    history.forget_metadata()
    assert history.head is not None
    assert is_first_snapshot(history, history.head)
    history.expire(old)
    assert not is_first_snapshot(history, history.head)


def test_a_child_whose_parent_was_cleared_still_follows_the_checkpoint() -> None:
    """PyIceberg's expiry clears it; the file of the child's commit has it, so nothing of the range is missing."""
    history = InMemoryHistory("db.t")
    history.append()
    checkpoint = history.append()
    child = history.append(files=4)
    history.append(files=1)
    history.expire(checkpoint)
    history.cut_parent(child)
    lineage = prove_lineage(history, after=checkpoint, to=history.head)
    assert [s.snapshot_id for s in lineage.snapshots] == [3, 4]
    history.forget_metadata()
    with pytest.raises(GapError):
        prove_lineage(history, after=checkpoint, to=history.head)


def test_a_child_of_another_parent_does_not_follow() -> None:
    """The snapshots between the two are expired."""
    history = InMemoryHistory("db.t")
    checkpoint = history.append()
    between = history.append()
    child = history.append()
    history.expire(checkpoint)
    history.expire(between)
    history.cut_parent(child)
    with pytest.raises(GapError):
        prove_lineage(history, after=checkpoint, to=history.head)


class TestTheHeadMovedToAnotherBranch:
    """1; then audit's 2 beside main's 3, the checkpoint; main was set to audit, which got 4; all but 4 are expired."""

    @staticmethod
    def moved() -> InMemoryHistory:
        history = InMemoryHistory("db.t")
        base = history.append()
        audit = history.append()
        history.rollback(base)
        history.append()
        history.rollback(audit)
        tip = history.append()
        for snapshot_id in (1, 2, 3):
            history.expire(type(base)(table_uuid="", snapshot_id=snapshot_id, sequence_number=0, committed_at_ms=0))
        history.cut_parent(tip)
        return history

    def test_resync_is_refused_by_what_older_metadata_says(self) -> None:
        """2 is older than 3 by number and was never processed: a resync by number would never take it."""
        history = self.moved()
        seen = head_position(history)
        checkpoint = type(seen)(table_uuid=seen.table_uuid, snapshot_id=3, sequence_number=3, committed_at_ms=3000)
        with pytest.raises(GapError, match="not known to be its ancestor"):
            plan_capture(history, committed=checkpoint, settings=RESYNC)


def test_resync_over_a_long_expiry_takes_what_is_newer() -> None:
    """Older metadata files lead back to the checkpoint, one after another."""
    history = InMemoryHistory("db.t")
    history.append()
    checkpoint = history.append()
    for _ in range(6):
        history.append()
        oldest = min(history.snapshots)
        position = type(checkpoint)(
            table_uuid=checkpoint.table_uuid, snapshot_id=oldest, sequence_number=oldest, committed_at_ms=oldest
        )
        history.expire(position)
        history.cut_parent(type(position)(table_uuid="", snapshot_id=oldest + 1, sequence_number=0, committed_at_ms=0))
    plan = plan_capture(history, committed=checkpoint, settings=RESYNC)
    assert plan.kind is Kind.RESYNC
    assert [s.manifest.added_snapshot_id for s in plan.selections] == [8, 7, 6, 5, 4, 3]
    assert "exact" in plan.warnings[-1]


def test_a_catalog_that_shows_the_current_snapshot_alone_is_resynchronised_by_number() -> None:
    """As Nessie's REST catalog does: no parent, no log, and growing sequence numbers."""
    history = InMemoryHistory("db.t")
    history.append()
    checkpoint = take_evidence(history, history.append())
    history.append(files=2)
    last = history.append(files=3)
    for snapshot_id in (1, 2, 3):
        history.expire(type(last)(table_uuid="", snapshot_id=snapshot_id, sequence_number=0, committed_at_ms=0))
    history.cut_parent(last)
    history.forget_metadata()
    with pytest.raises(GapError, match="is not in the lineage") as gap:
        plan_capture(history, committed=checkpoint, settings=CaptureSettings())
    assert "(5 files, at most 7000 bytes; no loss" in gap.value.remedy
    assert "a superset: snapshots in between were expired" in gap.value.remedy
    plan = plan_capture(history, committed=checkpoint, settings=RESYNC)
    assert sum(s.manifest.added_files or 0 for s in plan.selections) == 5
