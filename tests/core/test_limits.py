"""Limits of bounded catch-up, over ranges of thousands of snapshots."""

import time
from functools import cache

import pytest

from airflow_provider_ips.core.memory import InMemoryHistory
from airflow_provider_ips.core.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings


def cpu_seconds(history, committed, settings):
    """The least of three, for garbage collection strikes when it likes."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        plan_capture(history, committed=committed, settings=settings)
        taken.append(time.process_time() - start)
    return min(taken)


@cache
def backlog(snapshots):
    """A table that gained so many snapshots since the checkpoint."""
    history = InMemoryHistory("db.t")
    committed = history.append()
    for _ in range(snapshots):
        history.append()
    return history, committed


@pytest.mark.parametrize("limits", [{}, {"max_files": 10**9}])
def test_planning_takes_as_long_as_the_range_and_not_as_its_square(limits):
    """A consumer that was paused for a month of a busy table has thousands of snapshots before it."""
    settings = CaptureSettings(**limits)

    short, long = (cpu_seconds(*backlog(n), settings) for n in (200, 1_600))

    assert long / short < 20  # eight times the snapshots; a square would be sixty-four times
