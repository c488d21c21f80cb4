"""How a checkpoint moves, run by run of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import PendingCapture, SourceRange
from airflow_provider_ips.core.checkpoint.resolution import Fresh, Replay, Retry, new_capture_id, resolve_capture
from airflow_provider_ips.core.checkpoint.traces import begin_replay
from airflow_provider_ips.core.checkpoint.transitions import CommitOutcome, CommitResult, begin, commit, settle_empty
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

EVENTS = Source("db.events")
USERS = Source("db.users")


def at(snapshot_id: int, *, table_uuid: str = "uuid-1") -> Position:
    return Position(
        table_uuid=table_uuid, snapshot_id=snapshot_id, sequence_number=snapshot_id, committed_at_ms=snapshot_id * 1000
    )


def run(day: int, *, run_id: str = "", map_index: int = -1) -> RunIdentity:
    return RunIdentity(
        dag_id="daily",
        run_id=run_id or f"scheduled__{day}",
        map_index=map_index,
        run_after=f"2026-11-{day:02d}T00:00:00+00:00",
    )


@dataclass
class Pipeline:
    """A consumer of two tables, driven step by step; ``document`` is what its store holds."""

    document: Checkpoint | None = None
    dropped: list[str] = field(default_factory=list)

    def ranges(self, capture_id: str, kind: Kind = Kind.RANGE, /, **heads: int | Position) -> tuple[SourceRange, ...]:
        return tuple(
            SourceRange(
                source=Source(f"db.{name}"),
                kind=kind,
                from_exclusive=None if self.document is None else self.document.position_of(Source(f"db.{name}")),
                to_inclusive=head if isinstance(head, Position) else at(head),
                icdc_table=None if kind is Kind.EMPTY else f"icdc.{name}_{capture_id[:6]}",
            )
            for name, head in heads.items()
        )

    def capture(self, who: RunIdentity, **heads: int | Position) -> PendingCapture:
        """What the capture task does for a fresh range."""
        assert isinstance(resolve_capture(self.document, who), Fresh)
        capture_id = new_capture_id(self.document, consumer="daily.capture", run=who)
        pending = PendingCapture(
            capture_id=capture_id, run=who, started_at_ms=1, ranges=self.ranges(capture_id, **heads)
        )
        self.document = begin(self.document, consumer="daily.capture", pending=pending)
        return pending

    def settle(self, who: RunIdentity, **heads: int) -> None:
        self.document = settle_empty(
            self.document, consumer="daily.capture", run=who, ranges=self.ranges("", Kind.EMPTY, **heads), now_ms=2
        )

    def commit(self, pending: PendingCapture, **options) -> CommitResult:
        """What the commit task does: write, then drop."""
        result = commit(self.document, capture_id=pending.capture_id, run=pending.run, now_ms=3, **options)
        self.document = result.checkpoint
        self.dropped += result.drop
        return result

    def stands_at(self, source: Source = EVENTS) -> Position | None:
        assert self.document is not None
        return self.document.position_of(source)


def test_a_first_run_commits_its_range():
    """Nothing is committed when a capture begins; its commit sets the position to the captured end."""
    daily = Pipeline()
    assert resolve_capture(None, run(1)) == Fresh()
    pending = daily.capture(run(1), events=10)
    assert pending.ranges[0].from_exclusive is None
    assert daily.stands_at() is None
    assert daily.commit(pending).outcome is CommitOutcome.ADVANCED
    assert daily.stands_at() == at(10)


def test_the_next_range_starts_where_the_last_one_ended():
    """Adjacent ranges touch: nothing lies between them, nothing in both."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    assert daily.capture(run(2), events=20).ranges[0].from_exclusive == at(10)


def test_a_retry_takes_the_pending_range():
    """The same run again before its commit: the same range, whatever the table has gained since."""
    daily = Pipeline()
    pending = daily.capture(run(1), events=10)
    assert resolve_capture(daily.document, run(1)) == Retry(pending)


def test_beginning_twice_changes_nothing():
    """A capture that dies right after its write finds its own pending document."""
    daily = Pipeline()
    pending = daily.capture(run(1), events=10)
    assert begin(daily.document, consumer="daily.capture", pending=pending) is daily.document


def test_a_run_whose_sources_changed_supersedes_its_own_capture():
    """The DAG file gained a source between two attempts: the pending range does not cover it."""
    daily = Pipeline()
    first = daily.capture(run(1), events=10)
    capture_id = new_capture_id(daily.document, consumer="daily.capture", run=run(1))
    second = PendingCapture(
        capture_id=capture_id, run=run(1), started_at_ms=2, ranges=daily.ranges(capture_id, events=11, users=5)
    )
    daily.document = begin(daily.document, consumer="daily.capture", pending=second)
    assert daily.commit(first).outcome is CommitOutcome.SUPERSEDED
    assert daily.commit(second).drop == first.icdc_tables
    assert daily.stands_at(USERS) == at(5)


def test_one_capture_id_has_one_range():
    """Two ranges under one id would share an ICDC table."""
    daily = Pipeline()
    pending = daily.capture(run(1), events=10)
    with pytest.raises(CheckpointConflictError, match="another range"):
        begin(daily.document, consumer="daily.capture", pending=replace(pending, ranges=daily.ranges("x", events=11)))


@pytest.mark.parametrize(
    "other",
    [
        replace(run(1), dag_id="weekly"),
        replace(run(1), run_id="manual__1"),
        replace(run(1), map_index=0),
        replace(run(1), run_after="2026-11-02T00:00:00+00:00"),
    ],
    ids=["dag", "run id", "map index", "run_after of a reused run id"],
)
def test_only_the_same_run_retries(other):
    """A run is its dag id, run id, map index and run_after; any other supersedes."""
    daily = Pipeline()
    pending = daily.capture(run(1), events=10)
    found = resolve_capture(daily.document, other)
    assert isinstance(found, Fresh)
    assert found.superseded == pending
    assert str(run(1)) in found.note


def test_the_range_of_a_failed_run_is_included_in_the_next():
    """The next range starts at the committed position, so it includes what the failed run had captured."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    failed = daily.capture(run(2), events=20)
    following = daily.capture(run(3), events=30)
    assert following.ranges[0].from_exclusive == failed.ranges[0].from_exclusive == at(10)
    assert daily.commit(following).outcome is CommitOutcome.ADVANCED
    assert daily.stands_at() == at(30)


def test_the_commit_of_a_superseded_capture_moves_nothing():
    """A run that seemed dead commits late, before and after the run that replaced it has committed."""
    daily = Pipeline()
    late = daily.capture(run(1), events=10)
    following = daily.capture(run(2), events=20)
    assert daily.commit(late).outcome is CommitOutcome.SUPERSEDED
    assert daily.stands_at() is None
    daily.commit(following)
    assert daily.commit(late).outcome is CommitOutcome.SUPERSEDED
    assert daily.stands_at() == at(20)


def test_a_chain_of_failures_is_remembered():
    """The late commit of every capture that was superseded succeeds."""
    daily = Pipeline()
    failed = [daily.capture(run(day), events=day * 10) for day in (1, 2, 3)]
    daily.commit(daily.capture(run(4), events=40))
    assert [daily.commit(pending).outcome for pending in failed] == [CommitOutcome.SUPERSEDED] * 3


def test_a_commit_can_be_retried():
    """A commit task that died after its write finds it done, and drops what the first attempt may not have dropped."""
    daily = Pipeline()
    first = daily.capture(run(1), events=10)
    daily.commit(first)
    second = daily.capture(run(2), events=20)
    assert daily.commit(second).drop == first.icdc_tables
    again = daily.commit(second)
    assert again.outcome is CommitOutcome.ALREADY_DONE
    assert again.drop == first.icdc_tables
    assert again.checkpoint is daily.document


def test_an_old_commit_that_is_retried_drops_nothing():
    """The tables it released were dropped long ago, and after a rewind there may be new ones of the same name."""
    daily = Pipeline()
    captures = []
    for day in (1, 2, 3):
        captures.append(daily.capture(run(day), events=day * 10))
        daily.commit(captures[-1])
    assert daily.commit(captures[1]).drop == ()


def test_the_newest_committed_run_is_replayed():
    """A cleared run captures its range again; that is never pending, and its commit moves nothing."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    pending = daily.capture(run(2), events=20)
    daily.commit(pending)
    before = daily.document
    replay = resolve_capture(daily.document, run(2))
    assert isinstance(replay, Replay)
    assert replay.committed.ranges == pending.ranges
    assert daily.commit(pending, replay=True).outcome is CommitOutcome.REPLAYED
    assert daily.document is before


def test_a_replay_is_in_the_document_until_its_commit():
    """Other runs see it there; it moves nothing, and a retry of its capture or its commit changes nothing more."""
    daily = Pipeline()
    pending = daily.capture(run(1), events=10)
    daily.commit(pending)
    assert daily.document is not None
    daily.document = begin_replay(daily.document, pending)
    assert daily.document.replaying == pending
    assert begin_replay(daily.document, pending) is daily.document
    assert daily.commit(pending, replay=True).outcome is CommitOutcome.REPLAYED
    again = daily.commit(pending, replay=True)
    assert again.checkpoint.replaying is None
    assert daily.stands_at() == at(10)


def test_sources_are_superseded_one_by_one():
    """A capture of one source leaves the other's uncommitted range, which the next capture of it takes over."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10, users=10))
    failed = daily.capture(run(2), events=20, users=20)
    daily.commit(daily.capture(run(3), events=30))
    assert daily.document is not None
    assert [(c.run, [r.source for r in c.ranges]) for c in daily.document.uncommitted] == [(run(2), [USERS])]
    daily.capture(run(4), users=40)
    assert daily.document.uncommitted == ()
    assert daily.commit(failed).outcome is CommitOutcome.SUPERSEDED


def test_a_late_commit_moves_the_sources_that_no_other_run_has_captured():
    """Its job has processed them, and no other capture covers them."""
    daily = Pipeline()
    late = daily.capture(run(1), events=10, users=10)
    following = daily.capture(run(2), events=20)
    assert daily.commit(late).outcome is CommitOutcome.ADVANCED
    assert (daily.stands_at(), daily.stands_at(USERS)) == (None, at(10))
    assert daily.commit(following).outcome is CommitOutcome.ADVANCED
    assert (daily.stands_at(), daily.stands_at(USERS)) == (at(20), at(10))


def test_another_task_of_the_run_neither_retries_nor_replays():
    """Two captures of one run that a template gives one consumer are two."""
    daily = Pipeline()
    pending = replace(daily.capture(run(1), events=10), task_id="one")
    daily.document = begin(None, consumer="daily.capture", pending=pending)
    assert isinstance(resolve_capture(daily.document, run(1), "one"), Retry)
    assert isinstance(resolve_capture(daily.document, run(1), "two"), Fresh)
    daily.commit(pending)
    assert isinstance(resolve_capture(daily.document, run(1), "one"), Replay)
    assert isinstance(resolve_capture(daily.document, run(1), "two"), Fresh)


def test_a_late_commit_after_a_replay_is_refused():
    """The replay has written older rows over those of a later run that failed, so that one captures again."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    failed = daily.capture(run(2), events=20)
    assert daily.document is not None
    replay = resolve_capture(daily.document, run(1))
    assert isinstance(replay, Replay)
    shown = PendingCapture(
        capture_id=replay.committed.capture_id, run=run(1), started_at_ms=2, ranges=replay.committed.ranges
    )
    daily.document = begin_replay(daily.document, shown)
    assert begin_replay(daily.document, shown) is daily.document
    daily.commit(shown, replay=True)
    with pytest.raises(CheckpointConflictError, match="wrote its older rows again"):
        daily.commit(failed)
    assert daily.stands_at() == at(10)
    assert failed.capture_id in daily.document.known_ids
    assert [r.to_inclusive for _, r in daily.document.uncommitted_of(EVENTS)] == [at(20)]
    again = daily.capture(run(2), events=30)
    assert daily.commit(again).outcome is CommitOutcome.ADVANCED
    assert set(failed.icdc_tables) <= set(daily.dropped)


def test_a_replay_without_rows_leaves_a_pending_capture_alone():
    """The newest committed run is cleared while a later, failed run is pending; it has no job, so it is not shown."""
    daily = Pipeline()
    done = daily.capture(run(1), events=10)
    daily.commit(done)
    pending = daily.capture(run(2), events=20)
    assert isinstance(resolve_capture(daily.document, run(1)), Replay)
    assert daily.commit(done, replay=True).outcome is CommitOutcome.REPLAYED
    assert resolve_capture(daily.document, run(2)) == Retry(pending)


def test_the_commit_of_an_overtaken_replay_succeeds():
    """While it ran, newer runs committed, and its own capture left the history: it has nothing to move."""
    daily = Pipeline()
    replayed = daily.capture(run(1), events=10)
    daily.commit(replayed)
    for day in (2, 3):
        daily.commit(daily.capture(run(day), events=day * 10), history_length=1)
    assert daily.commit(replayed, replay=True).outcome is CommitOutcome.REPLAYED


def test_an_older_committed_run_is_refused():
    """To process its range again would write old rows over newer ones; the error names both runs and what to do."""
    daily = Pipeline()
    for day in (1, 2):
        daily.commit(daily.capture(run(day), events=day * 10))
    with pytest.raises(CheckpointConflictError, match="old rows over newer") as caught:
        resolve_capture(daily.document, run(1))
    assert "scheduled__1" in str(caught.value)
    assert "scheduled__2" in str(caught.value)
    assert "rewind" in caught.value.remedy
    assert "detached" in caught.value.remedy


def test_an_older_run_with_only_empty_runs_after_it_is_replayed():
    """An empty capture wrote no rows that a replay could write over."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    daily.settle(run(2), events=11)
    assert isinstance(resolve_capture(daily.document, run(1)), Replay)


def test_a_superseded_run_that_is_cleared_captures_as_new():
    """It never committed, so it has no range any more, which the note says."""
    daily = Pipeline()
    failed = daily.capture(run(1), events=10)
    daily.commit(daily.capture(run(2), events=20))
    found = resolve_capture(daily.document, run(1))
    assert isinstance(found, Fresh)
    assert "captures as new" in found.note
    again = daily.capture(run(1), events=30)
    assert again.ranges[0].from_exclusive == at(20)
    assert again.capture_id != failed.capture_id
    assert again.icdc_tables != failed.icdc_tables


def test_a_newer_run_needs_no_note():
    """In the ordinary case there is nothing to note."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    assert resolve_capture(daily.document, run(2)) == Fresh()


def test_a_committed_run_cannot_begin_again():
    """It is refused also if the caller has not called resolve_capture."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    pending = PendingCapture(capture_id="x", run=run(1), started_at_ms=1, ranges=daily.ranges("x", events=20))
    with pytest.raises(CheckpointConflictError, match="committed already"):
        begin(daily.document, consumer="daily.capture", pending=pending)


def test_a_capture_begins_at_the_committed_position():
    """A range that was planned from another position would repeat or miss rows."""
    daily = Pipeline()
    stale = daily.ranges("x", events=20)
    daily.commit(daily.capture(run(1), events=10))
    with pytest.raises(CheckpointConflictError, match="is at snapshot 10"):
        begin(
            daily.document,
            consumer="daily.capture",
            pending=PendingCapture(capture_id="x", run=run(2), started_at_ms=1, ranges=stale),
        )
    with pytest.raises(CheckpointConflictError, match="is at snapshot 10"):
        settle_empty(daily.document, consumer="daily.capture", run=run(2), ranges=stale, now_ms=1)


def test_positions_are_equal_if_table_and_snapshot_are():
    """A dropped and recreated table has another uuid, so the same snapshot id there is another position."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    elsewhere = replace(daily.ranges("x", events=20)[0], from_exclusive=at(10, table_uuid="uuid-2"))
    with pytest.raises(CheckpointConflictError):
        begin(
            daily.document,
            consumer="daily.capture",
            pending=PendingCapture(capture_id="x", run=run(2), started_at_ms=1, ranges=(elsewhere,)),
        )
    described_otherwise = replace(daily.ranges("x", events=20)[0], from_exclusive=replace(at(10), sequence_number=99))
    begun = begin(
        daily.document,
        consumer="daily.capture",
        pending=PendingCapture(capture_id="x", run=run(2), started_at_ms=1, ranges=(described_otherwise,)),
    )
    assert begun.revision == 3


def test_all_sources_commit_together():
    """One write moves them all."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10, users=5))
    assert (daily.stands_at(EVENTS), daily.stands_at(USERS)) == (at(10), at(5))


def test_no_source_moves_if_one_position_was_changed():
    """The error names the position of every source."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10, users=5))
    pending = daily.capture(run(2), events=20, users=6)
    assert daily.document is not None
    moved = tuple(replace(p, position=at(3)) if p.source == USERS else p for p in daily.document.positions)
    daily.document = replace(daily.document, positions=moved)
    with pytest.raises(CheckpointConflictError, match=r"db\.users is at snapshot 3") as caught:
        daily.commit(pending)
    assert "snapshot 5" in str(caught.value)
    assert daily.stands_at(EVENTS) == at(10)


def test_no_source_moves_back_while_another_moves_on():
    """One source is still at its start, the other was moved past its end by hand: no commit is right for both."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10, users=5))
    pending = daily.capture(run(2), events=20, users=6)
    assert daily.document is not None
    moved = tuple(replace(p, position=at(7)) if p.source == USERS else p for p in daily.document.positions)
    daily.document = replace(daily.document, positions=moved)
    with pytest.raises(CheckpointConflictError, match="does not fit"):
        daily.commit(pending)
    assert daily.stands_at(USERS) == at(7)


@pytest.mark.parametrize(
    ("position", "outcome"),
    [(at(20), CommitOutcome.ALREADY_DONE), (at(30), CommitOutcome.SUPERSEDED)],
    ids=["at the end", "past the end"],
)
def test_a_position_at_or_past_the_end_is_not_moved_back(position, outcome):
    """Someone moved the checkpoint by hand while the job ran."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    pending = daily.capture(run(2), events=20)
    assert daily.document is not None
    daily.document = replace(daily.document, positions=(replace(daily.document.positions[0], position=position),))
    assert daily.commit(pending).outcome is outcome
    assert daily.stands_at() == position


@pytest.mark.parametrize(
    "position", [at(9), at(15), at(30, table_uuid="uuid-2")], ids=["before", "within", "other table"]
)
def test_a_position_anywhere_else_fails_the_commit(position):
    """From a position that is neither the start nor the end nor past it a commit would lose or repeat rows."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    pending = daily.capture(run(2), events=20)
    assert daily.document is not None
    daily.document = replace(daily.document, positions=(replace(daily.document.positions[0], position=position),))
    with pytest.raises(CheckpointConflictError, match="does not fit"):
        daily.commit(pending)


def test_the_commit_of_an_unknown_capture_fails():
    """It was abandoned, reset or never begun; a silent success would hide that its rows are captured again."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    for document in (daily.document, None):
        with pytest.raises(CheckpointConflictError, match="cannot be committed"):
            commit(document, capture_id="unheard of", run=run(2), now_ms=3)


def test_a_source_that_is_added_starts_without_a_position():
    """The others continue from their positions."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    pending = daily.capture(run(2), events=20, users=5)
    assert [r.from_exclusive for r in pending.ranges] == [at(10), None]
    daily.commit(pending)
    assert daily.stands_at(USERS) == at(5)


def test_a_source_that_is_removed_keeps_its_position():
    """If it is added again, it continues from there."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10, users=5))
    daily.commit(daily.capture(run(2), events=20))
    assert daily.stands_at(USERS) == at(5)


def test_a_full_capture_in_place_of_a_gap_commits():
    """With on_gap="full" the range still records the position that the checkpoint held."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    assert daily.document is not None
    recreated = at(3, table_uuid="uuid-2")
    pending = PendingCapture(
        capture_id="x",
        run=run(2),
        started_at_ms=1,
        ranges=daily.ranges("x", Kind.FULL, events=recreated),
    )
    daily.document = begin(daily.document, consumer="daily.capture", pending=pending)
    assert daily.commit(pending).outcome is CommitOutcome.ADVANCED
    assert daily.stands_at() == recreated


def test_an_empty_range_moves_the_position_at_once():
    """After a compaction there is nothing to process, but the position follows, or expiry would strand it."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    daily.settle(run(2), events=15)
    assert daily.stands_at() == at(15)
    assert daily.document is not None
    assert daily.document.pending is None


def test_nothing_new_writes_nothing():
    """An idle table costs no write: the very same document comes back."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    before = daily.document
    daily.settle(run(2), events=10)
    assert daily.document is before


def test_a_first_run_from_latest_sets_the_position():
    """There is nothing to process yet, but the start is written."""
    daily = Pipeline()
    daily.settle(run(1), events=10)
    assert daily.stands_at() == at(10)


def test_a_cleared_run_that_found_nothing_captures_as_new():
    """It has no range to repeat."""
    daily = Pipeline()
    daily.settle(run(1), events=10)
    assert isinstance(resolve_capture(daily.document, run(1)), Fresh)


def test_an_empty_run_supersedes_the_pending_capture():
    """The table no longer has what the failed run had captured; its late commit succeeds, its tables are released."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    failed = daily.capture(run(2), events=20)
    daily.settle(run(3), events=10)
    assert daily.document is not None
    assert daily.document.pending is None
    assert set(failed.icdc_tables) <= set(daily.document.retained)
    assert daily.commit(failed).outcome is CommitOutcome.SUPERSEDED


def test_an_idle_consumer_keeps_its_runs_in_the_history():
    """A thousand empty runs are one entry of the history, with the range of all of them."""
    daily = Pipeline()
    daily.commit(daily.capture(run(1), events=10))
    for step in range(11, 1011):
        daily.settle(run(2, run_id=f"r{step}"), events=step)
    assert daily.document is not None
    assert len(daily.document.history) == 2
    joined = daily.document.history[-1].ranges[0]
    assert (joined.from_exclusive, joined.to_inclusive) == (at(10), at(1010))


def test_history_is_bounded_by_the_runs_that_wrote():
    """The document is read and written as a whole, so it must not grow; the oldest runs are removed first."""
    daily = Pipeline()
    for day in range(1, 9):
        daily.commit(daily.capture(run(day), events=day * 10), history_length=3)
        daily.settle(run(day, run_id=f"idle {day}"), events=day * 10 + 1)
    assert daily.document is not None
    wrote = [capture.run for capture in daily.document.history if capture.wrote]
    assert wrote == [run(6), run(7), run(8)]
    assert isinstance(resolve_capture(daily.document, run(8)), Replay)


def test_icdc_tables_are_kept_until_the_next_commit():
    """So that the business task alone can be cleared and run again."""
    daily = Pipeline()
    first = daily.capture(run(1), events=10)
    assert daily.commit(first).drop == ()
    second = daily.capture(run(2), events=20)
    assert daily.dropped == []
    daily.commit(second)
    assert tuple(daily.dropped) == first.icdc_tables


def test_icdc_tables_of_superseded_captures_are_released_by_the_next_commit():
    """They are of no use any more, but the run that made them may not have ended yet."""
    daily = Pipeline()
    failed = daily.capture(run(1), events=10)
    following = daily.capture(run(2), events=20)
    assert daily.commit(following).drop == failed.icdc_tables


def test_kept_icdc_tables_are_never_dropped():
    """With retention "keep" no commit releases them."""
    daily = Pipeline()
    for day in (1, 2, 3):
        daily.commit(daily.capture(run(day), events=day * 10), keep_icdc=True)
    assert daily.dropped == []


def test_a_commit_never_drops_its_own_tables():
    """A table of this capture that is in the list of retained ones stays."""
    daily = Pipeline()
    pending = daily.capture(run(1), events=10)
    assert daily.document is not None
    daily.document = replace(daily.document, retained=pending.icdc_tables)
    assert daily.commit(pending).drop == ()


def test_every_change_counts_the_revision_up():
    """By the revision a store notices another writer."""
    daily = Pipeline()
    revisions = []
    pending = daily.capture(run(1), events=10)
    revisions.append(daily.document)
    daily.commit(pending)
    revisions.append(daily.document)
    daily.settle(run(2), events=11)
    revisions.append(daily.document)
    assert [document.revision for document in revisions if document] == [1, 2, 3]


def test_a_document_that_was_written_and_read_gives_the_same_steps():
    """The text in the store has everything that the next step needs."""
    daily = Pipeline()
    for day in range(1, 5):
        failed = daily.capture(run(day, run_id="failed"), events=day * 10)
        pending = daily.capture(run(day), events=day * 10 + 1)
        assert daily.document is not None
        daily.document = Checkpoint.parse(daily.document.to_text(), consumer="daily.capture")
        daily.commit(pending)
        daily.document = Checkpoint.parse(daily.document.to_text(), consumer="daily.capture")
        assert daily.commit(failed).outcome is CommitOutcome.SUPERSEDED
