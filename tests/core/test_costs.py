"""Planning costs what the range costs, however long the table's history is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.lineage.named_positions import starting_position
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from airflow_provider_ips.core.history.snapshots import SnapshotFacts
    from airflow_provider_ips.core.positions import Position

HISTORY = 500


@dataclass(slots=True)
class VisitedHistory(InMemoryHistory):
    """Notes which snapshots are looked at."""

    visited: list[int] = field(default_factory=list)

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        """Look at one."""
        self.visited.append(snapshot_id)
        return InMemoryHistory.snapshot(self, snapshot_id)


@pytest.fixture
def positions() -> tuple[VisitedHistory, list[Position]]:
    """A long history, and the position of each of its snapshots."""
    history = VisitedHistory("db.t")
    positions = [history.append() for _ in range(HISTORY)]
    history.visited.clear()
    return history, positions


@pytest.mark.parametrize("snapshots", [1, 10])
def test_a_range_visits_its_own_snapshots(positions: tuple[VisitedHistory, list[Position]], snapshots: int) -> None:
    """A few each, and none of the hundreds before."""
    history, there = positions
    plan = plan_capture(history, committed=there[-1 - snapshots], settings=CaptureSettings())
    assert len(plan.verdicts) == snapshots
    assert len(history.visited) <= 3 * snapshots + 3
    assert min(history.visited) >= HISTORY - snapshots


def test_a_whole_history_is_visited_a_few_times(positions: tuple[VisitedHistory, list[Position]]) -> None:
    """The cost grows with its length, not with the square of it."""
    history, there = positions
    plan = plan_capture(history, committed=there[0], settings=CaptureSettings())
    assert len(plan.verdicts) == HISTORY - 1
    assert len(history.visited) <= 4 * HISTORY


def test_a_recent_snapshot_is_found_at_once(positions: tuple[VisitedHistory, list[Position]]) -> None:
    """It takes no walk to the beginning of the history."""
    history, there = positions
    assert starting_position(history, snapshot_id=there[-2].snapshot_id, time_ms=None) == there[-2]
    assert len(history.visited) <= 3
