"""A detached run of changes may write rows from beyond the checkpoint: the next range has to account for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.checkpoint.entries import PendingCapture, SourceRange
from airflow_provider_ips.core.checkpoint.manual_changes import rewind
from airflow_provider_ips.core.checkpoint.traces import begin_replay, commit_refresh, remember_detached
from airflow_provider_ips.core.checkpoint.transitions import begin, commit
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.uncommitted import UncommittedCaptures, refuse_after_full_refresh
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

if TYPE_CHECKING:
    from airflow_provider_ips.core.checkpoint.document import Checkpoint

EVENTS = Source("db.events")
CONSUMER = "daily.capture"


def at(number: int) -> Position:
    return Position(table_uuid="uuid-1", snapshot_id=number, sequence_number=number, committed_at_ms=number)


def captured(name: str, start: int | None, end: int) -> PendingCapture:
    taken = SourceRange(
        source=EVENTS,
        kind=Kind.RANGE if start else Kind.FULL,
        from_exclusive=at(start) if start else None,
        to_inclusive=at(end),
        icdc_table=f"icdc.{name}",
    )
    run = RunIdentity(dag_id="daily", run_id=name, map_index=-1, run_after="2026-11-01T00:00:00+00:00")
    return PendingCapture(capture_id=name, run=run, started_at_ms=1, ranges=(taken,))


def committed_at_10() -> Checkpoint:
    begun = begin(None, consumer=CONSUMER, pending=(first := captured("first", None, 10)))
    return commit(begun, capture_id="first", run=first.run, now_ms=2).checkpoint


@pytest.mark.parametrize("kind", ["all rows", "a range"])
def test_its_end_is_remembered_where_it_is_beyond_the_checkpoint(kind: str) -> None:
    detached = captured("detached", None if kind == "all rows" else 5, 20)
    after = remember_detached(committed_at_10(), consumer=CONSUMER, detached=detached)
    assert after is not None
    assert UncommittedCaptures.of(after, EVENTS).ends == (at(20),)
    assert after.position_of(EVENTS) == at(10)
    assert remember_detached(after, consumer=CONSUMER, detached=detached) is after


@pytest.mark.parametrize("end", [7, 10])
def test_rows_up_to_the_checkpoint_are_known_already(end: int) -> None:
    before = committed_at_10()
    assert remember_detached(before, consumer=CONSUMER, detached=captured("detached", 3, end)) is before


def test_a_run_without_rows_and_tables_has_no_job_to_remember() -> None:
    """One without tables, but with rows, has."""
    before, detached = committed_at_10(), captured("detached", 5, 20)
    (taken,) = (replace(r, icdc_table=None) for r in detached.ranges)
    empty = replace(detached, ranges=(replace(taken, kind=Kind.EMPTY),))
    assert remember_detached(before, consumer=CONSUMER, detached=empty) is before
    assert remember_detached(before, consumer=CONSUMER, detached=replace(detached, ranges=(taken,))) is not before


def test_an_older_end_says_nothing_once_the_head_has_moved() -> None:
    """After a rollback the rows up to it are others than those up to the checkpoint."""
    after = remember_detached(
        committed_at_10(), consumer=CONSUMER, detached=captured("detached", None, 7), moved_heads=[EVENTS]
    )
    assert UncommittedCaptures.of(after, EVENTS).ends == (at(7),)


def test_one_that_is_older_than_the_pending_capture_is_refused() -> None:
    """The pending range was fixed without it, so its commit would leave a row that was deleted in between."""
    pending = begin(committed_at_10(), consumer=CONSUMER, pending=captured("usual", 10, 30))
    with pytest.raises(CheckpointConflictError, match="run daily/detached captured rows as they were before"):
        remember_detached(pending, consumer=CONSUMER, detached=captured("detached", None, 20))
    after = remember_detached(pending, consumer=CONSUMER, detached=captured("detached", None, 40))
    assert after is not None
    assert UncommittedCaptures.of(after, EVENTS).last_end == at(40)


ALL_ROWS = CapturePlan(kind=Kind.FULL, from_exclusive=None, to_inclusive=at(30))
A_RANGE = CapturePlan(kind=Kind.RANGE, from_exclusive=at(10), to_inclusive=at(30))


@pytest.mark.parametrize("follows_changes", [True, False])
def test_a_refresh_is_in_the_way_of_ranges_until_its_commit(*, follows_changes: bool) -> None:
    """Its job may have emptied the target. Then only the rows that it wrote from beyond the checkpoint matter."""
    refreshed = remembered(committed_at_10(), "refresh", 20, follows_changes=follows_changes)
    with pytest.raises(CheckpointConflictError, match="run daily/refresh captured all rows"):
        refuse_after_full_refresh(refreshed, EVENTS, A_RANGE)
    refuse_after_full_refresh(refreshed, EVENTS, ALL_ROWS)

    ended = commit_refresh(refreshed, capture_id="refresh")

    refuse_after_full_refresh(ended, EVENTS, A_RANGE)
    assert UncommittedCaptures.of(ended, EVENTS).ends == ((at(20),) if follows_changes else ())
    assert commit_refresh(ended, capture_id="refresh") is ended


def test_a_refresh_repairs_one_that_failed_before() -> None:
    failed = remembered(committed_at_10(), "failed", 20, follows_changes=False)
    both = remembered(failed, "refresh", 25, follows_changes=False)
    assert commit_refresh(both, capture_id="another") is both
    refuse_after_full_refresh(commit_refresh(both, capture_id="refresh"), EVENTS, A_RANGE)


@pytest.mark.parametrize("went_back", ["rewound", "replayed"])
def test_a_refresh_that_ends_after_people_went_back_is_still_known(went_back: str) -> None:
    """Its note has another id then, so that no commit takes it for a pending capture."""
    refreshed = remembered(committed_at_10(), "refresh", 20)
    first = captured("first", None, 10)
    changed = rewind(refreshed, capture_id="first") if went_back == "rewound" else begin_replay(refreshed, first)
    ended = commit_refresh(changed, capture_id="refresh")
    assert ended is not None
    assert not any(capture.refreshes for capture in ended.uncommitted)


def remembered(checkpoint: Checkpoint, name: str, end: int, *, follows_changes: bool = True) -> Checkpoint:
    detached = captured(name, None, end)
    after = remember_detached(
        checkpoint, consumer=CONSUMER, detached=detached, follows_changes=follows_changes, refreshes=True
    )
    assert after is not None
    assert (
        remember_detached(after, consumer=CONSUMER, detached=detached, follows_changes=False, refreshes=True) is after
    )
    return after


def test_a_run_from_now_does_not_follow_a_full_capture_that_was_never_committed() -> None:
    """Also where the consumer has no position yet: its job may have emptied the target and inserted nothing."""
    begun = begin(None, consumer=CONSUMER, pending=captured("refresh", None, 10))
    from_now = CapturePlan(kind=Kind.EMPTY, from_exclusive=None, to_inclusive=at(10))
    with pytest.raises(CheckpointConflictError, match="and was never committed"):
        refuse_after_full_refresh(begun, EVENTS, from_now)
    refuse_after_full_refresh(begun, EVENTS, replace(from_now, kind=Kind.FULL))
