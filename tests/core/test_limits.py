"""Limits of bounded catch-up, over ranges of thousands of snapshots."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from airflow_provider_ips.core.positions import Position


def calls_of_planning(history: InMemoryHistory, committed: Position, settings: CaptureSettings) -> int:
    """How many Python functions are entered; the same on every machine."""
    entered = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(note)
    try:
        plan_capture(history, committed=committed, settings=settings)
    finally:
        sys.setprofile(None)
    return entered


@cache
def backlog(snapshots: int) -> tuple[InMemoryHistory, Position]:
    """A table that gained so many snapshots since the checkpoint."""
    history = InMemoryHistory("db.t")
    committed = history.append()
    for _ in range(snapshots):
        history.append()
    return history, committed


@pytest.mark.parametrize("limits", [{}, {"max_files": 10**9}])
def test_planning_takes_as_long_as_the_range_and_not_as_its_square(limits: dict[str, int]) -> None:
    """A consumer of a busy table that was paused for a month has thousands of snapshots to process."""
    settings = CaptureSettings(**limits)  # type: ignore[arg-type]

    short, long = (calls_of_planning(*backlog(n), settings) for n in (200, 1_600))

    assert long / short < 10  # eight times the snapshots; a square would be sixty-four times
