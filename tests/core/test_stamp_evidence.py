"""Whether a target has a snapshot with the stamp of a capture."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ips.core.advice.target_evidence import STAMP, has_stamp, stamp_since
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


def test_a_newer_stamp_of_the_same_consumer_is_found_unless_it_is_known_or_rolled_back() -> None:
    """Stamps of other consumers, and those from before the checkpoint was written, say nothing about it."""
    target = InMemoryHistory("db.target")
    stamped(target, "1-mine")
    before = target.append()
    stamped(target, "2-mine")
    stamped(target, "3-other")

    assert stamp_since(target, "mine", known={"1-mine"}, after_ms=before.committed_at_ms) == "2-mine"
    assert stamp_since(target, "mine", known={"1-mine", "2-mine"}, after_ms=0) is None
    assert stamp_since(target, "mine", known=(), after_ms=before.committed_at_ms + 10**9) is None
    target.rollback(before)
    assert stamp_since(target, "mine", known={"1-mine"}, after_ms=0) is None
