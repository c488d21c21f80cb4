"""A range is proven only if the walk from its end reached its start."""

from __future__ import annotations

import pytest

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history.snapshots import head_position
from airflow_provider_ips.core.lineage.named_positions import starting_position
from airflow_provider_ips.core.lineage.walk import prove_lineage
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

SETTINGS = CaptureSettings()


def test_after_a_rollback_the_checkpoint_is_not_reached() -> None:
    """The walk misses it; taking all that it finds would process the whole table again."""
    history = InMemoryHistory("db.t")
    first = history.append()
    lost = history.append()
    history.rollback(first)
    history.append()
    with pytest.raises(GapError, match="retained but not an ancestor") as gap:
        plan_capture(history, committed=lost, settings=SETTINGS)
    assert "on_gap='full'" in gap.value.remedy


def test_after_expiry_of_the_checkpoint_its_child_still_names_it() -> None:
    """If only the checkpoint is expired, nothing is lost: every snapshot of the range is retained."""
    history = InMemoryHistory("db.t")
    checkpoint = history.append()
    history.append(files=4)
    history.expire(checkpoint)
    assert sum(v.files or 0 for v in plan_capture(history, committed=checkpoint, settings=SETTINGS).verdicts) == 4


def test_an_expired_snapshot_inside_the_range_is_a_gap() -> None:
    """What it added is unknown, and to leave it out would be a silent loss."""
    history = InMemoryHistory("db.t")
    checkpoint = history.append()
    inside = history.append()
    history.append()
    history.expire(inside)
    with pytest.raises(GapError, match="expired"):
        plan_capture(history, committed=checkpoint, settings=SETTINGS)


def test_a_checkpoint_on_the_empty_table_needs_a_proven_first_snapshot() -> None:
    """All files since the first snapshot are captured; a snapshot whose parent was cleared proves nothing."""
    history = InMemoryHistory("db.t")
    empty = head_position(history)
    history.append(files=2)
    second = history.append(files=3)
    assert len(prove_lineage(history, after=empty, to=history.head).snapshots) == 2
    history.cut_parent(second)
    with pytest.raises(GapError):
        plan_capture(history, committed=empty, settings=SETTINGS)


def test_a_snapshot_that_merged_or_removed_all_files_is_not_the_first() -> None:
    """Such a snapshot lists nothing older than itself either, when its parent was cleared."""
    for commit in (InMemoryHistory.merge_append, InMemoryHistory.remove):
        history = InMemoryHistory("db.t")
        empty = head_position(history)
        history.append(files=1)
        cut = commit(history)
        history.cut_parent(cut)
        with pytest.raises(GapError):
            plan_capture(history, committed=empty, settings=SETTINGS)


def test_a_table_of_another_uuid_is_another_table() -> None:
    """It was dropped and created again under the same name: even snapshot ids may match."""
    history = InMemoryHistory("db.t")
    checkpoint = history.append()
    again = InMemoryHistory("db.t", table_uuid="another")
    again.append()
    again.append()
    with pytest.raises(GapError, match="another table"):
        plan_capture(again, committed=checkpoint, settings=SETTINGS)
    with pytest.raises(GapError, match="another table"):
        plan_between(again, kind=Kind.RANGE, from_exclusive=None, to_inclusive=checkpoint, settings=SETTINGS)


def test_a_time_never_picks_a_snapshot_that_was_rolled_back() -> None:
    """The snapshot log has it, the lineage does not."""
    history = InMemoryHistory("db.t")
    first = history.append()
    history.append()
    history.rollback(first)
    history.append()
    assert starting_position(history, snapshot_id=None, time_ms=2_500) == first


def test_a_time_before_the_retained_history_is_refused() -> None:
    """Unless the oldest retained snapshot is the table's first: then it means the empty table."""
    history = InMemoryHistory("db.t")
    first = history.append()
    second = history.append()
    assert starting_position(history, snapshot_id=None, time_ms=1).snapshot_id is None
    history.expire(first)
    with pytest.raises(GapError, match="before the retained history"):
        starting_position(history, snapshot_id=None, time_ms=1_500)
    assert starting_position(history, snapshot_id=None, time_ms=2_000) == second


def test_a_circle_of_parents_ends_with_an_error() -> None:
    """Damaged metadata must not hang a worker."""
    history = InMemoryHistory("db.t")
    one, two = history.append(), history.append()
    assert one.snapshot_id is not None
    assert two.snapshot_id is not None
    looped = history.snapshots[one.snapshot_id]
    history.snapshots[one.snapshot_id] = type(looped)(
        snapshot_id=looped.snapshot_id,
        parent_id=two.snapshot_id,
        sequence_number=1,
        committed_at_ms=1,
        operation="append",
    )
    with pytest.raises(GapError, match="is its own ancestor"):
        starting_position(history, snapshot_id=99, time_ms=None)
