"""Whether a target has a snapshot with the stamp of a capture."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ips.core.advice.target_evidence import STAMP, has_stamp
from airflow_provider_ips.testing import InMemoryHistory


def stamped(history: InMemoryHistory, capture_id: str) -> None:
    """Append with a stamp."""
    position = history.append()
    assert position.snapshot_id is not None
    facts = history.snapshots[position.snapshot_id]
    history.snapshots[position.snapshot_id] = replace(facts, summary={**facts.summary, STAMP: capture_id})


def test_a_stamp_counts_as_long_as_its_rows_are_live() -> None:
    """Later commits do not matter; a rollback removes it with its rows."""
    target = InMemoryHistory("db.target")
    before = target.append()
    stamped(target, "one")
    target.append()
    assert has_stamp(target, "one")
    assert not has_stamp(target, "two")
    target.rollback(before)
    assert not has_stamp(target, "one")


def test_an_empty_target_has_none() -> None:
    """It has no history."""
    assert not has_stamp(InMemoryHistory("db.target"), "one")
