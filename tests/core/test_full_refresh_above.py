"""With ``full_refresh_above``, a range that is most of the table becomes a capture of all live files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.requests.detached import plan_detached
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

ABOVE = CaptureSettings(full_refresh_above=0.6)


@pytest.mark.parametrize(("old", "new", "kind"), [(4, 6, Kind.RANGE), (3, 7, Kind.FULL), (9, 1, Kind.RANGE)])
def test_above_the_share_everything_is_taken(old: int, new: int, kind: Kind) -> None:
    """At exactly the share, the range is taken."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=old)
    history.append(files=new)

    plan = plan_capture(history, committed=committed, settings=ABOVE)

    assert plan.kind is kind
    assert len(plan.selections) == (2 if kind is Kind.FULL else 1)
    assert (plan.from_exclusive, plan.to_inclusive.snapshot_id) == (committed, 2)
    assert bool(plan.warnings) is (kind is Kind.FULL)


def test_it_says_why() -> None:
    """The log shows both sizes."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=1)
    history.append(files=9)

    [note] = plan_capture(history, committed=committed, settings=ABOVE).warnings

    assert "the range has 9,000 of the table's 10,000 bytes" in note


def test_a_retry_takes_everything_again_whatever_came_since() -> None:
    """The pending capture remembers that it took all live files."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=1)
    history.append(files=9)
    plan = plan_capture(history, committed=committed, settings=ABOVE)
    history.append(files=1)

    again = plan_between(
        history, kind=plan.kind, from_exclusive=committed, to_inclusive=plan.to_inclusive, settings=ABOVE
    )

    assert again.selections == plan.selections


def test_a_limit_comes_first() -> None:
    """A run that is limited must not take the whole table."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=1)
    history.append(files=9)
    history.append(files=9)

    plan = plan_capture(history, committed=committed, settings=replace(ABOVE, max_snapshots=1))

    assert plan.kind is Kind.RANGE


def test_a_requested_range_stays_that_range() -> None:
    """It is what the person named."""
    history = InMemoryHistory("db.t")
    first = history.append(files=1)
    history.append(files=9)

    plan = plan_detached(history, RunRequest(kind=RunKind.SNAPSHOT, since_snapshot=str(first.snapshot_id)), ABOVE)

    assert plan.kind is Kind.RANGE


@pytest.mark.parametrize("share", [0, 1, -0.5, 60, True, "0.6"])
def test_what_is_not_a_share_is_refused(share: object) -> None:
    """60 was meant as per cent, and would never be reached."""
    with pytest.raises(InputError, match="not a share of the table"):
        CaptureSettings(full_refresh_above=share)  # type: ignore[arg-type]


def test_changes_are_refused() -> None:
    """All live rows do not show which were removed."""
    with pytest.raises(InputError, match="contradicts data_operations"):
        CaptureSettings(full_refresh_above=0.6, data_operations=ALL_OPERATIONS)
