"""Runs that failed behind their capture may have written to the target; the next one accounts for them."""

import pytest

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.memory import InMemoryHistory
from airflow_provider_ips.core.plan import plan_capture
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings

CHANGES = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow")
ONE_BY_ONE = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow", max_snapshots=1)


def test_limits_do_not_end_a_range_before_what_a_failed_run_wrote():
    """A run that was too big fails, its successor gets a limit: what came and went is its to take back."""
    history = InMemoryHistory("db.t")
    start = history.append()
    first, second = history.append(), history.append()
    last = history.append()

    def end(**attempts):
        return plan_capture(history, committed=start, settings=ONE_BY_ONE, **attempts).to_inclusive

    assert end() == first
    assert end(attempted=first) == first
    assert end(attempted=first, attempted_last=second) == second
    assert end(attempted=last) == last
    appends = CaptureSettings(max_snapshots=1)
    assert plan_capture(history, committed=start, settings=appends, attempted=last).to_inclusive == first


def test_a_rollback_to_the_checkpoint_is_no_empty_run_for_a_target_that_was_written():
    """The head is where the checkpoint is, and the target is not."""
    history = InMemoryHistory("db.t")
    start = history.append()
    attempted = history.append()
    history.rollback(start)

    with pytest.raises(GapError, match="never committed"):
        plan_capture(history, committed=start, settings=CHANGES, attempted=attempted)
    assert plan_capture(history, committed=start, settings=CHANGES, attempted=start).is_empty
    assert plan_capture(history, committed=start, settings=CaptureSettings(), attempted=attempted).is_empty


def test_of_several_failed_runs_none_may_be_rolled_back():
    """The first is still in the lineage; what the second wrote is not."""
    history = InMemoryHistory("db.t")
    start = history.append()
    first = history.append()
    second = history.append()
    history.rollback(first)
    history.append()

    plan_capture(history, committed=start, settings=CHANGES, attempted=first)
    with pytest.raises(GapError, match="never committed"):
        plan_capture(history, committed=start, settings=CHANGES, attempted=first, attempted_last=second)


@pytest.mark.parametrize("rows", [True, False])
def test_a_failed_first_run_over_a_table_that_was_made_anew_asks_for_an_empty_target(rows):
    """With rows in the new table or without: the old one's are in the target, perhaps."""
    old, new = InMemoryHistory("db.t"), InMemoryHistory("db.t", table_uuid="another")
    attempted = old.append()
    if rows:
        new.append()

    plan = plan_capture(new, committed=None, settings=CHANGES, attempted=attempted)

    assert any("empty the target" in warning for warning in plan.warnings)
    assert not plan_capture(new, committed=None, settings=CaptureSettings(), attempted=attempted).warnings
