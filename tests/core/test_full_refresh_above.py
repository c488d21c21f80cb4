"""A range that is most of the table becomes a capture of all of it, where that is asked for and can be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ips.core.asked import Asked, Run
from airflow_provider_ips.core.detached import plan_detached
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.memory import InMemoryHistory
from airflow_provider_ips.core.plan import plan_capture, replan
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings

ABOVE = CaptureSettings(full_refresh_above=0.6)


@pytest.mark.parametrize(("old", "new", "kind"), [(4, 6, Kind.RANGE), (3, 7, Kind.FULL), (9, 1, Kind.RANGE)])
def test_above_the_share_everything_is_taken(old: int, new: int, kind: Kind) -> None:
    """At the share itself the range still is."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=old)
    history.append(files=new)

    plan = plan_capture(history, committed=committed, settings=ABOVE)

    assert plan.kind is kind
    assert len(plan.selections) == (2 if kind is Kind.FULL else 1)
    assert (plan.from_exclusive, plan.to_inclusive.snapshot_id) == (committed, 2)
    assert bool(plan.warnings) is (kind is Kind.FULL)


def test_it_says_why() -> None:
    """Whoever reads the log sees both sizes."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=1)
    history.append(files=9)

    [note] = plan_capture(history, committed=committed, settings=ABOVE).warnings

    assert "the range has 9,000 of the table's 10,000 bytes" in note


def test_a_retry_takes_everything_again_whatever_came_since() -> None:
    """It is pending as what it became."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=1)
    history.append(files=9)
    plan = plan_capture(history, committed=committed, settings=ABOVE)
    history.append(files=1)

    again = replan(history, kind=plan.kind, from_exclusive=committed, to_inclusive=plan.to_inclusive, settings=ABOVE)

    assert again.selections == plan.selections


def test_a_limit_comes_first() -> None:
    """Who bounds a run does not want all of the table in it."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=1)
    history.append(files=9)
    history.append(files=9)

    plan = plan_capture(history, committed=committed, settings=replace(ABOVE, max_snapshots=1))

    assert plan.kind is Kind.RANGE


def test_a_range_of_ones_own_stays_that_range() -> None:
    """A person who names a range does not mean everything."""
    history = InMemoryHistory("db.t")
    first = history.append(files=1)
    history.append(files=9)

    plan = plan_detached(history, Asked(run=Run.SNAPSHOT, since_snapshot=str(first.snapshot_id)), ABOVE)

    assert plan.kind is Kind.RANGE


@pytest.mark.parametrize("share", [0, 1, -0.5, 60, True, "0.6"])
def test_what_is_no_share_is_refused(share: object) -> None:
    """60 is meant as per cent, and would never be reached."""
    with pytest.raises(InputError, match="no share of the table"):
        CaptureSettings(full_refresh_above=share)  # type: ignore[arg-type]


def test_changes_are_refused() -> None:
    """All live rows do not tell which are gone."""
    with pytest.raises(InputError, match="contradicts data_operations"):
        CaptureSettings(full_refresh_above=0.6, data_operations=ALL_OPERATIONS)
