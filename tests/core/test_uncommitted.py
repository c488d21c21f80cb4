"""Runs that failed after their capture may have written to the target; the next one takes them into account."""

from dataclasses import replace

import pytest

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.planning.uncommitted import UncommittedCaptures
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

CHANGES = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow")
ONE_BY_ONE = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow", max_snapshots=1)


def ended(*ends):
    """Captures that were never committed, by where they ended."""
    return UncommittedCaptures(ends)


def test_limits_do_not_end_a_range_before_what_a_failed_run_wrote():
    """A run that was too big fails, the next one gets a limit: it has to correct what the first may have written."""
    history = InMemoryHistory("db.t")
    start = history.append()
    first, second = history.append(), history.append()
    last = history.append()

    def end(*uncommitted):
        wrote = ended(*uncommitted)
        return plan_capture(history, committed=start, settings=ONE_BY_ONE, uncommitted=wrote).to_inclusive

    assert end() == first
    assert end(first) == first
    assert end(first, second) == second
    assert end(last) == last
    appends = CaptureSettings(max_snapshots=1)
    assert plan_capture(history, committed=start, settings=appends, uncommitted=ended(last)).to_inclusive == first


def test_a_rollback_to_the_checkpoint_is_refused_where_the_target_was_written():
    """The head is where the checkpoint is, and the target is not."""
    history = InMemoryHistory("db.t")
    start = history.append()
    attempted = history.append()
    history.rollback(start)

    with pytest.raises(GapError, match="never committed"):
        plan_capture(history, committed=start, settings=CHANGES, uncommitted=ended(attempted))
    assert plan_capture(history, committed=start, settings=CHANGES, uncommitted=ended(start)).is_empty
    assert plan_capture(history, committed=start, settings=CaptureSettings(), uncommitted=ended(attempted)).is_empty


def test_a_log_of_appends_warns_of_rows_that_were_rolled_back():
    """A failed run may have inserted them. A log takes nothing back, so nothing else would ever tell."""
    history = InMemoryHistory("db.t")
    start = history.append()
    attempted = history.append()
    appends = CaptureSettings()
    assert plan_capture(history, committed=start, settings=appends, uncommitted=ended(attempted)).warnings == ()
    history.rollback(start)
    idle = plan_capture(history, committed=start, settings=appends, uncommitted=ended(attempted))
    history.append()
    following = plan_capture(history, committed=start, settings=appends, uncommitted=ended(attempted))

    assert [warning.rpartition(": ")[2] for warning in (*idle.warnings, *following.warnings)] == ["remove them"] * 2
    assert plan_capture(history, committed=start, settings=appends).warnings == ()


def test_a_first_run_from_now_is_refused_where_rows_that_were_rolled_back_were_written():
    """By a detached run or a refresh before it."""
    history = InMemoryHistory("db.t")
    start = history.append()
    written = history.append()
    latest = replace(CHANGES, initial="latest")
    assert plan_capture(history, committed=None, settings=latest, uncommitted=ended(written)).is_empty
    history.rollback(start)

    with pytest.raises(GapError, match="never committed"):
        plan_capture(history, committed=None, settings=latest, uncommitted=ended(written))


def test_of_several_failed_runs_none_may_be_rolled_back():
    """The first is still in the lineage; what the second wrote is not."""
    history = InMemoryHistory("db.t")
    start = history.append()
    first = history.append()
    second = history.append()
    history.rollback(first)
    history.append()

    plan_capture(history, committed=start, settings=CHANGES, uncommitted=ended(first))
    with pytest.raises(GapError, match="never committed"):
        plan_capture(history, committed=start, settings=CHANGES, uncommitted=ended(first, second))


@pytest.mark.parametrize("rows", [True, False])
def test_a_failed_first_run_over_a_table_that_was_created_again_requires_an_empty_target(rows):
    """Whether or not the new table has rows: those of the old one may be in the target."""
    old, new = InMemoryHistory("db.t"), InMemoryHistory("db.t", table_uuid="another")
    attempted = old.append()
    if rows:
        new.append()

    plan = plan_capture(new, committed=None, settings=CHANGES, uncommitted=ended(attempted))

    assert any("empty the target" in warning for warning in plan.warnings)
    assert not plan_capture(new, committed=None, settings=CaptureSettings(), uncommitted=ended(attempted)).warnings
