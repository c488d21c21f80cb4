"""Detached captures: only the request of the run determines what they take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, SourceRange
from airflow_provider_ips.core.errors import CheckpointConflictError, GapError, InputError
from airflow_provider_ips.core.history.snapshots import head_position
from airflow_provider_ips.core.identifiers import Source, icdc_table_name
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.planning.uncommitted import ALL_COMMITTED, UncommittedCaptures
from airflow_provider_ips.core.positions import Position, RunIdentity, format_time
from airflow_provider_ips.core.record import Decision, Kind
from airflow_provider_ips.core.requests.detached import (
    detached_capture_id,
    plan_detached,
    refuse_if_overtaken,
)
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from airflow_provider_ips.core.history.selections import CapturePlan

SKIP = CaptureSettings(on_other_operation="skip")
COMMITS = st.lists(st.sampled_from(["append", "compact", "rows", "merge"]), min_size=2, max_size=15)
MINE = RunIdentity(dag_id="d", run_id="asked", map_index=-1, run_after="2026-10-01T00:00:00+00:00")
OTHER = RunIdentity(dag_id="d", run_id="usual", map_index=-1, run_after="2026-10-02T00:00:00+00:00")
RUN_AFTER_MS = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)


def play(history: InMemoryHistory, commits: list[str]) -> list[Position]:
    """Run commits and give the position after each."""
    moves = {
        "append": history.append,
        "compact": history.compact,
        "rows": history.delete_rows,
        "merge": history.merge_append,
    }
    return [moves[name]() for name in commits]


def captured(plan: CapturePlan) -> list[int]:
    """The snapshots that it took."""
    return [v.snapshot_id for v in plan.verdicts if v.decision is Decision.CAPTURED]


def between(start: Position, end: Position | None = None, **more: object) -> RunRequest:
    """A range by snapshots."""
    until = None if end is None else str(end.snapshot_id)
    return RunRequest(kind=RunKind.SNAPSHOT, since_snapshot=str(start.snapshot_id), until_snapshot=until, **more)  # type: ignore[arg-type]


@given(commits=COMMITS, data=st.data())
@settings(max_examples=200)
def test_a_requested_range_is_what_a_consumer_at_its_start_would_capture(
    commits: list[str], data: st.DataObject
) -> None:
    """Wherever it begins and ends, and whatever the position of the checkpoint is."""
    history = InMemoryHistory("db.t")
    positions = play(history, commits)
    first = data.draw(st.integers(0, len(positions) - 1))
    last = data.draw(st.integers(first, len(positions) - 1))
    elsewhere = data.draw(st.sampled_from([None, *positions]))

    request = plan_detached(history, between(positions[first], positions[last]), SKIP, committed=elsewhere)
    whole = plan_capture(history, committed=positions[first], settings=SKIP)

    in_range = {p.snapshot_id for p in positions[first + 1 : last + 1]}
    assert captured(request) == [i for i in captured(whole) if i in in_range]
    assert request.to_inclusive == positions[last]


@given(commits=COMMITS, later=COMMITS, run=st.sampled_from([RunKind.FULL, RunKind.SNAPSHOT]))
@settings(max_examples=100)
def test_a_retry_takes_the_same_range_whatever_came_since(commits: list[str], later: list[str], run: RunKind) -> None:
    """A retry needs nothing but the end of the first attempt."""
    history = InMemoryHistory("db.t")
    first, *_ = play(history, commits)
    request = RunRequest(kind=RunKind.FULL) if run is RunKind.FULL else between(first)
    plan = plan_detached(history, request, SKIP)
    play(history, later)

    again = plan_detached(history, request, SKIP, pinned=plan.to_inclusive)

    assert (again.selections, again.to_inclusive) == (plan.selections, plan.to_inclusive)


def test_a_full_refresh_takes_all_rows_and_has_no_start() -> None:
    """Also if the checkpoint is at the head."""
    history = InMemoryHistory("db.t")
    play(history, ["append", "append"])

    plan = plan_detached(history, RunRequest(kind=RunKind.FULL), SKIP, committed=head_position(history))

    assert (plan.kind, plan.from_exclusive, len(plan.selections)) == (Kind.FULL, None, 2)


def test_a_dry_run_of_the_usual_range_begins_at_the_checkpoint() -> None:
    """No other detached capture reads its position."""
    history = InMemoryHistory("db.t")
    first, second = play(history, ["append", "append"])

    plan = plan_detached(history, RunRequest(dry_run=True), SKIP, committed=first)

    assert captured(plan) == [second.snapshot_id]


def test_a_dry_run_reports_what_a_failed_run_may_have_left_behind() -> None:
    """The usual run would capture it again, too."""
    history = InMemoryHistory("db.t")
    first, second = play(history, ["append", "append"])
    history.remove(files=2)
    changes = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow")

    dry = plan_detached(
        history, RunRequest(dry_run=True), changes, committed=first, uncommitted=UncommittedCaptures((second,))
    )
    usual = plan_capture(history, committed=first, settings=changes, uncommitted=UncommittedCaptures((second,)))
    assert dry == usual
    assert dry != plan_detached(history, RunRequest(dry_run=True), changes, committed=first, uncommitted=ALL_COMMITTED)


def test_a_range_by_time() -> None:
    """From what the table showed then, up to what it showed later."""
    history = InMemoryHistory("db.t")
    first, second, _ = play(history, ["append", "append", "append"])
    request = RunRequest(
        kind=RunKind.TIME, since_time=format_time(first.committed_at_ms), until_time=format_time(second.committed_at_ms)
    )

    assert captured(plan_detached(history, request, SKIP)) == [second.snapshot_id]


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    """It would be empty, and look as if there were no new rows."""
    history = InMemoryHistory("db.t")
    first, second = play(history, ["append", "append"])

    with pytest.raises(InputError, match="before it starts"):
        plan_detached(history, between(second, first), SKIP)


def test_a_snapshot_that_is_not_in_the_lineage_is_refused() -> None:
    """Whether it was rolled back, expired, or mistyped."""
    history = InMemoryHistory("db.t")
    play(history, ["append"])

    with pytest.raises(GapError, match="snapshot 77 is not in the lineage"):
        plan_detached(history, RunRequest(kind=RunKind.SNAPSHOT, since_snapshot="77"), SKIP)


def test_a_limit_that_ends_a_requested_range_is_a_warning() -> None:
    """No later run continues from there by itself."""
    history = InMemoryHistory("db.t")
    first, second, _ = play(history, ["append", "append", "append"])

    plan = plan_detached(history, between(first, max_snapshots=1), SKIP)

    assert plan.to_inclusive == second
    assert "no other run continues from there" in plan.warnings[0]


def test_names_follow_from_the_run_alone() -> None:
    """A run of the same id at another time has other names, and so has another consumer."""
    later = RunIdentity(dag_id="d", run_id="asked", map_index=-1, run_after="2026-10-03T00:00:00+00:00")
    ids = {detached_capture_id("c", MINE), detached_capture_id("c", later), detached_capture_id("other", MINE)}
    mine = detached_capture_id("c", MINE)

    assert len(ids) == 3
    assert detached_capture_id("c", MINE) == mine
    assert icdc_table_name(Source("db.t"), mine) != icdc_table_name(Source("db.t", "audit"), mine)
    assert icdc_table_name(Source("db.t"), mine) != icdc_table_name(Source("db.t"), mine, "before")


def committed_by(run: RunIdentity, at_ms: int) -> Checkpoint:
    """A consumer whose newest commit is this."""
    here = Position(table_uuid="u", snapshot_id=1, sequence_number=1, committed_at_ms=0)
    taken = SourceRange(
        source=Source("db.t"), kind=Kind.RANGE, from_exclusive=None, to_inclusive=here, icdc_table="icdc.t"
    )
    capture = CommittedCapture(capture_id="x", run=run, committed_at_ms=at_ms, ranges=(taken,))
    return Checkpoint(consumer="c", revision=1, history=(capture,))


def test_a_run_that_is_cleared_after_later_commits_is_refused() -> None:
    """An old full refresh would write its rows over newer ones."""
    with pytest.raises(CheckpointConflictError, match="requests a full refresh, and was cleared after run d/usual"):
        refuse_if_overtaken(committed_by(OTHER, RUN_AFTER_MS + 1), MINE, RunRequest(kind=RunKind.FULL), is_cleared=True)


@pytest.mark.parametrize(
    ("checkpoint", "is_cleared"),
    [
        (None, True),
        (committed_by(OTHER, RUN_AFTER_MS - 1), True),
        (committed_by(MINE, RUN_AFTER_MS + 1), True),
        (committed_by(OTHER, RUN_AFTER_MS + 1), False),
    ],
    ids=["no checkpoint", "committed before", "committed by itself", "a retry"],
)
def test_other_runs_are_not_refused(checkpoint: Checkpoint | None, *, is_cleared: bool) -> None:
    """Above all a retry: live runs commit while it works."""
    refuse_if_overtaken(checkpoint, MINE, RunRequest(kind=RunKind.FULL), is_cleared=is_cleared)
