"""Laws of append capture, over thousands of invented histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ips.core.errors import RefusedOperationError
from airflow_provider_ips.core.history.snapshots import head_position
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture
from airflow_provider_ips.core.record import Decision
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from airflow_provider_ips.core.history.selections import CapturePlan
    from airflow_provider_ips.core.positions import Position

SKIP = CaptureSettings(on_other_operation="skip")
COMMITS = st.lists(
    st.tuples(
        st.sampled_from(["append", "overwrite", "merge", "compact", "remove", "rows", "empty"]),
        st.integers(min_value=1, max_value=5),
    ),
    max_size=25,
)


def play(history: InMemoryHistory, commits: list[tuple[str, int]]) -> list[tuple[Position, int]]:
    """Make commits; return each position with the files that were appended there."""
    ledger = []
    for name, count in commits:
        appended = 0
        if name in ("append", "overwrite"):
            position, appended = history.append(files=count, operation=name), count
        elif name == "merge":
            position, appended = history.merge_append(files=count), count
        elif name == "compact":
            position = history.compact()
        elif name == "rows":
            position = history.delete_rows(delete_files=count)
        else:
            position = history.remove(files=min(count, live(history)) if name == "remove" else 0)
        ledger.append((position, appended))
    return ledger


def live(history: InMemoryHistory) -> int:
    """Live data files at the head."""
    return (history.head.count("total-data-files") or 0) if history.head else 0


def captured(plan: CapturePlan) -> list[tuple[int, int]]:
    """Snapshots and the files captured of each."""
    return [(v.snapshot_id, v.files or 0) for v in plan.verdicts if v.decision is Decision.CAPTURED]


@settings(max_examples=400, deadline=None)
@given(COMMITS, st.sets(st.integers(min_value=0, max_value=25)))
def test_any_split_of_a_history_captures_every_appended_file_once(
    commits: list[tuple[str, int]], cuts: set[int]
) -> None:
    """Adjacent ranges compose: many runs take the same log as one run over all of it."""
    history = InMemoryHistory("db.t")
    committed = head_position(history)
    log: list[tuple[int, int]] = []
    start, expected = committed, []
    for index, commit in enumerate(commits):
        expected += [(p.snapshot_id, n) for p, n in play(history, [commit]) if n]
        if index in cuts:
            plan = plan_capture(history, committed=committed, settings=SKIP)
            log += captured(plan)
            committed = plan.to_inclusive
    log += captured(plan_capture(history, committed=committed, settings=SKIP))
    assert log == expected
    assert captured(plan_capture(history, committed=start, settings=SKIP)) == expected


@settings(max_examples=300, deadline=None)
@given(COMMITS, st.integers(min_value=1, max_value=4), st.integers(min_value=1, max_value=9))
def test_bounded_catch_up_loses_and_repeats_nothing(commits: list[tuple[str, int]], snapshots: int, files: int) -> None:
    """And every run takes at least one snapshot, so the consumer catches up."""
    history = InMemoryHistory("db.t")
    committed = head_position(history)
    expected = [(p.snapshot_id, n) for p, n in play(history, commits) if n]
    bounded = CaptureSettings(on_other_operation="skip", max_snapshots=snapshots, max_files=files)
    log: list[tuple[int, int]] = []
    for _ in range(len(commits) + 1):
        plan = plan_capture(history, committed=committed, settings=bounded)
        taken = captured(plan)
        assert len(taken) <= snapshots
        assert sum(n for _, n in taken) <= files or len(taken) == 1
        log += taken
        committed = plan.to_inclusive
    assert log == expected
    assert committed == head_position(history)


@settings(max_examples=300, deadline=None)
@given(COMMITS, COMMITS)
def test_the_same_range_again_is_the_same_capture(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> None:
    """A retry changes nothing, whatever was committed meanwhile."""
    history = InMemoryHistory("db.t")
    start = head_position(history)
    play(history, before)
    first = plan_capture(history, committed=start, settings=SKIP)
    play(history, after)
    again = plan_between(
        history,
        kind=first.kind,
        from_exclusive=first.from_exclusive,
        to_inclusive=first.to_inclusive,
        settings=SKIP,
    )
    assert captured(again) == captured(first)
    assert again.to_inclusive == first.to_inclusive


@settings(max_examples=300, deadline=None)
@given(COMMITS)
def test_what_is_refused_is_never_captured(commits: list[tuple[str, int]]) -> None:
    """With ``fail``, a plan exists only if nothing in the range removed anything."""
    history = InMemoryHistory("db.t")
    start = head_position(history)
    play(history, commits)
    removing = any(
        s.count("deleted-data-files") and s.operation != "replace" for s in history.snapshots.values()
    ) or any(name == "rows" for name, _ in commits)
    if removing:
        with pytest.raises(RefusedOperationError):
            plan_capture(history, committed=start, settings=CaptureSettings())
    else:
        plan = plan_capture(history, committed=start, settings=CaptureSettings())
        assert all(v.decision is not Decision.REFUSED for v in plan.verdicts)
