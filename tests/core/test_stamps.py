"""Whether a target holds what a job wrote for a capture."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ips.core.memory import InMemoryHistory
from airflow_provider_ips.core.stamps import STAMP, carries_stamp


def stamped(history: InMemoryHistory, capture_id: str) -> None:
    """Append under a stamp."""
    position = history.append()
    assert position.snapshot_id is not None
    facts = history.snapshots[position.snapshot_id]
    history.snapshots[position.snapshot_id] = replace(facts, summary={**facts.summary, STAMP: capture_id})


def test_a_stamp_counts_as_long_as_its_rows_are_live() -> None:
    """Later commits do not cover it; a rollback takes it away with its rows."""
    target = InMemoryHistory("db.target")
    before = target.append()
    stamped(target, "one")
    target.append()
    assert carries_stamp(target, "one")
    assert not carries_stamp(target, "two")
    target.rollback(before)
    assert not carries_stamp(target, "one")


def test_an_empty_target_carries_none() -> None:
    """There is no history to ask."""
    assert not carries_stamp(InMemoryHistory("db.target"), "one")
