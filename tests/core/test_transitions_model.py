"""Laws of the checkpoint, over invented histories of a consumer.

A consumer of two growing tables is driven through runs that retry, fail, crash between any two steps, are superseded,
cleared and replayed; its checkpoint is written by writers that read it long ago, reset, rewound, and moved to another
store. Each snapshot of a table must end up in exactly one committed range.

A failure prints how to reproduce it; `pytest --hypothesis-seed=N` draws the same lives again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import PendingCapture, SourceRange
from airflow_provider_ips.core.checkpoint.manual_changes import abandon, plan_move, reset, rewind, rewind_source
from airflow_provider_ips.core.checkpoint.resolution import Fresh, Replay, Retry, new_capture_id, resolve_capture
from airflow_provider_ips.core.checkpoint.store import InMemoryStore
from airflow_provider_ips.core.checkpoint.traces import begin_replay
from airflow_provider_ips.core.checkpoint.transitions import CommitOutcome, CommitResult, begin, commit, settle_empty
from airflow_provider_ips.core.errors import CheckpointConflictError, CheckpointError
from airflow_provider_ips.core.identifiers import Source, digest
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

CONSUMER = "daily.capture"
SOURCES = (Source("db.events"), Source("db.users"))
HISTORY = 4
STORES = ("variable", "iceberg")
STEPS = 10_000


def at(snapshot: int) -> Position:
    """Snapshot ``n`` of a table added file ``n``; 0 is the table before any."""
    return Position(
        table_uuid="uuid-1", snapshot_id=snapshot or None, sequence_number=snapshot, committed_at_ms=snapshot
    )


def number(position: Position | None) -> int:
    return 0 if position is None else position.sequence_number


@dataclass(frozen=True)
class Taken:
    """What one execution of a capture handed to its job."""

    capture_id: str
    run: RunIdentity
    ranges: tuple[SourceRange, ...]
    replay: bool


@dataclass(frozen=True)
class Held:
    """A commit that a slow task has decided and not written yet."""

    store: InMemoryStore
    taken: Taken
    read: Checkpoint
    result: CommitResult


class Store(InMemoryStore):
    """Parses each text once: the laws look at one document a dozen times a step, and nothing can change it."""

    def read(self, consumer: str, *, even_if_moved: bool = False) -> Checkpoint | None:
        text = self.documents.get(consumer)
        return None if text is None else parsed(text, even_if_moved=even_if_moved)


@lru_cache(maxsize=100)
def parsed(text: str, *, even_if_moved: bool) -> Checkpoint:
    return Checkpoint.parse(text, consumer=CONSUMER, even_if_moved=even_if_moved)


class Consumer(RuleBasedStateMachine):
    """One consumer, its stores, two tables, and what has been committed by whom."""

    captures: Bundle[Taken] = Bundle("captures")
    held: Bundle[Held] = Bundle("held")
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.stores: dict[str, InMemoryStore] = {name: Store() for name in STORES}
        self.home = STORES[0]
        self.heads = dict.fromkeys(SOURCES, 0)
        self.compactions: dict[Source, set[int]] = {source: set() for source in SOURCES}
        self.runs = 0
        self.clock = 0
        self.committed: dict[str, tuple[SourceRange, ...]] = {}
        self.settled: list[tuple[SourceRange, ...]] = []
        self.order: list[RunIdentity] = []
        self.began: dict[str, tuple[SourceRange, ...]] = {}
        self.abandoned: set[str] = set()
        self.written_over: set[str] = set()
        self.last: dict[Source, int] = dict.fromkeys(SOURCES, 0)
        self.dropped: set[str] = set()
        self.places: dict[Source, set[int]] = {source: set() for source in SOURCES}
        self.covers: dict[str, set[str]] = {}
        self.unfinished: dict[Source, Position] = {}

    @property
    def store(self) -> InMemoryStore:
        return self.stores[self.home]

    def document(self) -> Checkpoint | None:
        return self.store.read(CONSUMER)

    def write(self, changed: Checkpoint, read: Checkpoint | None) -> None:
        """Every write counts the revision up, or a writer could not notice another one."""
        if changed is not read:
            assert changed.revision == (0 if read is None else read.revision) + 1
            self.store.write(changed, expected_revision=None if read is None else read.revision)

    @rule(source=st.sampled_from(SOURCES), files=st.integers(1, 3))
    def append(self, source: Source, files: int) -> None:
        self.heads[source] += files

    @rule(source=st.sampled_from(SOURCES))
    def compact(self, source: Source) -> None:
        """A snapshot without rows to process."""
        self.heads[source] += 1
        self.compactions[source].add(self.heads[source])

    @rule(target=captures, source=st.sampled_from(SOURCES), crash=st.booleans(), bound=st.integers(1, 5))
    def capture_one(self, source: Source, bound: int, *, crash: bool) -> Any:
        """A new run of a DAG that reads one table for a while."""
        self.runs += 1
        read, who = self.document(), self.run_number(self.runs)
        assert isinstance(resolve_capture(read, who), Fresh)
        return self.capture_fresh(read, who, bound, crash=crash, sources=(source,))

    @rule(target=captures, behind=st.integers(0, 6), crash=st.booleans(), bound=st.integers(1, 5))
    def capture(self, behind: int, bound: int, *, crash: bool) -> Any:
        """A capture task of a new run, or of one that ran before (a retry, or cleared by a person)."""
        if behind == 0 or self.runs == 0:
            self.runs += 1
        who = self.run_number(max(self.runs - behind, 1))
        read = self.document()
        try:
            found = resolve_capture(read, who)
        except CheckpointConflictError:
            assert who in self.order[:-1], "only a run that committed, and was followed, is refused"
            return self.nothing()
        retried = read is not None and read.pending is not None and read.pending.run == who
        assert isinstance(found, Retry) == retried
        if isinstance(found, Replay):
            assert who == self.order[-1]
            assert found.committed.ranges == self.committed[found.committed.capture_id]
            return self.replay(read, found)
        if isinstance(found, Retry):
            assert found.pending.ranges == self.began[found.pending.capture_id]
            return Taken(found.pending.capture_id, who, found.pending.ranges, replay=False)
        return self.capture_fresh(read, who, bound, crash=crash)

    def replay(self, read: Checkpoint | None, found: Replay) -> Taken:
        """A committed range once more: it is shown to other runs before its job writes over what they wrote."""
        assert read is not None
        done = found.committed
        assert done.run is not None
        shown = PendingCapture(
            capture_id=done.capture_id, run=done.run, started_at_ms=self.clock, ranges=done.ranges, task_id=done.task_id
        )
        after = begin_replay(read, shown)
        assert after.replaying is not None
        assert (after.replaying.capture_id, after.replaying.ranges) == (shown.capture_id, shown.ranges)
        self.write(after, read)
        self.written_over |= {capture.capture_id for capture in read.begun}
        return Taken(done.capture_id, done.run, done.ranges, replay=True)

    def capture_fresh(
        self,
        read: Checkpoint | None,
        who: RunIdentity,
        bound: int,
        *,
        crash: bool,
        sources: tuple[Source, ...] = SOURCES,
    ) -> Any:
        capture_id = new_capture_id(read, consumer=CONSUMER, run=who)
        assert capture_id not in self.began
        ranges = tuple(self.planned(read, source, capture_id, bound) for source in sources)
        if all(r.icdc_table is None for r in ranges):
            self.clock += 1
            after = settle_empty(
                read, consumer=CONSUMER, run=who, ranges=ranges, now_ms=self.clock, history_length=HISTORY
            )
            assert after.pending is None
            if not crash:
                self.write(after, read)
                self.settled.append(ranges)
                self.unfinished = {s: end for s, end in self.unfinished.items() if s not in sources}
            return self.nothing()
        pending = PendingCapture(capture_id=capture_id, run=who, started_at_ms=self.clock, ranges=ranges)
        after = begin(read, consumer=CONSUMER, pending=pending)
        if crash:
            return self.nothing()
        self.write(after, read)
        self.began[capture_id] = ranges
        self.unfinished |= {r.source: r.to_inclusive for r in ranges}
        if read is not None and read.pending is not None:
            former = read.pending.capture_id
            self.covers[capture_id] = {former, *self.covers.get(former, ())}
        return Taken(capture_id, who, ranges, replay=False)

    def planned(self, read: Checkpoint | None, source: Source, capture_id: str, bound: int) -> SourceRange:
        start = None if read is None else read.position_of(source)
        end = min(number(start) + bound, self.heads[source])
        files = set(range(number(start) + 1, end + 1)) - self.compactions[source]
        return SourceRange(
            source=source,
            kind=Kind.RANGE if files else Kind.EMPTY,
            from_exclusive=start,
            to_inclusive=at(end),
            icdc_table=f"icdc.{source}_{capture_id}" if files else None,
        )

    @rule(taken=captures, crash=st.sampled_from(["never", "before the write", "before the drops"]))
    def commit(self, taken: Taken | None, crash: str) -> None:
        """A commit task, once or again, in time or late, dying before its write or before its drops."""
        read = self.document()
        if taken is None or read is None:
            return
        result = self.decided(read, taken)
        if result is None:
            return
        done = [c for c in result.checkpoint.history if c.capture_id == taken.capture_id]
        assert set(result.drop).isdisjoint(t for c in done for t in c.icdc_tables), (
            "its job may be cleared and run again"
        )
        if result.outcome is CommitOutcome.REPLAYED:
            assert result.checkpoint.positions == read.positions
            self.write(result.checkpoint, read)
        elif result.outcome is not CommitOutcome.ADVANCED:
            assert result.checkpoint is read
            assert taken.capture_id in self.committed or result.outcome is not CommitOutcome.ALREADY_DONE
        elif crash != "before the write":
            self.write(result.checkpoint, read)
            self.advanced(taken, result)
        if crash == "never":
            self.dropped |= set(result.drop)

    def decided(self, read: Checkpoint, taken: Taken) -> CommitResult | None:
        self.clock += 1
        try:
            return commit(
                read,
                capture_id=taken.capture_id,
                run=taken.run,
                now_ms=self.clock,
                history_length=HISTORY,
                replay=taken.replay,
            )
        except CheckpointConflictError:
            assert taken.capture_id not in self.committed or self.forgotten(read, taken), "a done commit never fails"
            known = [c.capture_id for c in (*read.history, read.pending) if c is not None]
            covered = {covered for capture_id in known for covered in self.covers.get(capture_id, ())}
            assert taken.capture_id not in covered, "the late commit of a capture that another one covers ends well"
            return None

    def advanced(self, taken: Taken, result: CommitResult) -> None:
        assert taken.capture_id not in self.committed
        assert taken.capture_id not in self.written_over, "a replay has written older rows over its own"
        moved, pending = result.checkpoint.history[-1].ranges, result.checkpoint.pending
        # It moves all its sources but those that a newer run has captured.
        assert moved == tuple(r for r in taken.ranges if r in moved)
        assert pending is None or {r.source for r in pending.ranges}.isdisjoint(r.source for r in moved)
        self.committed[taken.capture_id] = moved
        self.order.append(taken.run)
        self.unfinished = {s: end for s, end in self.unfinished.items() if s not in {r.source for r in moved}}
        assert set(result.drop).isdisjoint(r.icdc_table for r in moved)

    @rule(taken=captures)
    def begin_late(self, taken: Taken | None) -> None:
        """A capture begins with ranges that were planned long ago: accepted only at the committed position."""
        read = self.document()
        if taken is None or read is None:
            return
        late = PendingCapture(
            capture_id="late", run=self.run_number(self.runs + 1), started_at_ms=self.clock, ranges=taken.ranges
        )
        stands = all(number(r.from_exclusive) == self.position(r.source) for r in taken.ranges)
        try:
            begin(read, consumer=CONSUMER, pending=late)
        except CheckpointConflictError:
            return
        assert stands

    @rule(target=held, taken=captures)
    def hold(self, taken: Taken | None) -> Any:
        """A commit task reads and decides, and does not write yet."""
        read = self.document()
        result = None if taken is None or read is None else self.decided(read, taken)
        if taken is None or read is None or result is None or result.outcome is not CommitOutcome.ADVANCED:
            return multiple()
        return Held(self.store, taken, read, result)

    @rule(late=held)
    def land(self, late: Held) -> None:
        """It writes later: accepted only if nothing was written since, in whichever store the checkpoint is now."""
        stands = late.store.read(CONSUMER, even_if_moved=True)
        assert stands is not None
        try:
            late.store.write(late.result.checkpoint, expected_revision=late.read.revision)
        except CheckpointConflictError:
            assert stands.revision != late.read.revision
            assert late.store.read(CONSUMER, even_if_moved=True) == stands
            return
        assert stands == late.read
        self.advanced(late.taken, late.result)
        self.dropped |= set(late.result.drop)

    @precondition(lambda self: self.document() is not None)
    @rule(crash=st.booleans())
    def move(self, *, crash: bool) -> None:
        """Move to the other store, maybe by a command that dies in between and is repeated."""
        here, there = self.store, self.stores[target := next(name for name in STORES if name != self.home)]
        before = here.read(CONSUMER)
        plan = plan_move(CONSUMER, before, there.read(CONSUMER, even_if_moved=True), to=target)
        assert before is not None
        assert plan.at_origin is not None
        here.write(plan.at_origin, expected_revision=before.revision)
        if crash:
            for name, store in self.stores.items():
                assert self.is_unusable(store), f"{name} can be used while the checkpoint is on its way"
            left = here.read(CONSUMER, even_if_moved=True)
            plan = plan_move(CONSUMER, left, there.read(CONSUMER, even_if_moved=True), to=target)
            assert plan.at_origin is None
        expected = there.read(CONSUMER, even_if_moved=True)
        there.write(plan.at_target, expected_revision=None if expected is None else expected.revision)
        self.home = target

    def is_unusable(self, store: InMemoryStore) -> bool:
        try:
            return store.read(CONSUMER) is None
        except CheckpointError:
            return True

    @rule(back=st.integers(1, HISTORY))
    def replay_detached(self, back: int) -> None:
        """A past range once more, in no checkpoint: its commit is refused."""
        read = self.document()
        wrote = [c for c in read.history if c.wrote] if read is not None else []
        if read is None or len(wrote) < back:
            return
        assert wrote[-back].ranges == self.committed[wrote[-back].capture_id]
        detached = digest(CONSUMER, "replay", wrote[-back].capture_id, length=32)
        assert detached not in self.began
        try:
            commit(read, capture_id=detached, run=self.run_number(self.runs), now_ms=self.clock)
        except CheckpointConflictError:
            assert self.document() == read
        else:
            raise AssertionError("a detached capture was committed")

    @rule(source=st.sampled_from(SOURCES), more=st.integers(1, 2), again=st.booleans())
    def whole_runs(self, source: Source, more: int, *, again: bool = False) -> None:
        """Days on which all goes well, and some commit is run again. With accidents alone there would be no history."""
        for _ in range(more):
            self.append(source=source, files=1)
            taken = self.capture(behind=0, bound=5, crash=False)
            for _ in range(1 + again):
                self.commit(taken=taken, crash="never")

    @rule(source=st.sampled_from(SOURCES))
    def late_commit_after_a_replay(self, source: Source) -> None:
        """A run writes and fails, the one before it is cleared, and then the commit of the failed one comes."""
        self.whole_runs(source=source, more=1)
        self.append(source=source, files=1)
        failed = self.capture(behind=0, bound=5, crash=False)
        self.capture(behind=1, bound=5, crash=False)
        self.commit(taken=failed, crash="never")

    @rule(source=st.sampled_from(SOURCES), files=st.integers(0, 1))
    def idle_runs(self, source: Source, files: int) -> None:
        """Days on which tables are compacted only; the first may follow a run that failed."""
        for each in SOURCES:
            self.compact(source=each)
        self.append(source=source, files=files)
        self.capture(behind=0, bound=2, crash=False)
        for each in SOURCES:
            self.compact(source=each)
        self.capture(behind=0, bound=1, crash=False)
        self.capture(behind=0, bound=1, crash=False)

    def forgotten(self, read: Checkpoint, taken: Taken) -> bool:
        return taken.capture_id not in {c.capture_id for c in read.history}

    @precondition(lambda self: (document := self.document()) is not None and document.pending is not None)
    @rule()
    def abandon(self) -> None:
        read = self.document()
        assert read is not None
        self.write(abandon(read), read)

    @rule(back=st.integers(1, 3))
    def rewind(self, back: int) -> None:
        """Only a rewind takes ranges back: they are captured again, and no longer count as committed."""
        read = self.document()
        wrote = [c for c in read.history if c.wrote] if read is not None else []
        if read is None or len(wrote) < back:
            return
        undone = read.history[read.history.index(wrote[-back]) :]
        after = rewind(read, capture_id=wrote[-back].capture_id)
        assert after.pending is None
        self.write(after, read)
        for capture in undone:
            self.committed.pop(capture.capture_id, None)
        self.order = self.order[:-back]
        self.cut_back()
        self.dropped.clear()  # a replay of what is the newest run now makes its tables again

    @rule(source=st.sampled_from(SOURCES), back=st.integers(1, 4))
    def rewind_source(self, source: Source, back: int) -> None:
        """Rewind to a position between commits: one source is captured again from there, the other is not."""
        read = self.document()
        place = self.position(source) - back
        if read is None or place < 1:
            return
        try:
            after = rewind_source(read, source=source, position=at(place))
        except CheckpointConflictError:
            assert read.replaying is not None, "only an unfinished replay stands in the way"
            return
        self.write(after, read)
        undone = [c for c in read.history if c not in after.history]
        for run in (c.run for c in reversed(undone) if c.wrote):
            assert self.order.pop() == run
        assert after.pending is None
        assert self.position(source) == place
        # A commit of both sources that one of them undid is remembered for neither; later ones of the other stay.
        for each in SOURCES:
            kept = {number(r.from_exclusive) for c in after.history for r in c.ranges if r.source == each}
            self.places[each] |= {self.position(each), *kept}
        self.cut_back()
        self.dropped.clear()

    def cut_back(self) -> None:
        """Ranges after a position that was rewound do not count as committed any more."""
        self.last = {source: self.position(source) for source in SOURCES}
        self.committed = {capture_id: self.left_of(ranges) for capture_id, ranges in self.committed.items()}
        self.settled = [self.left_of(ranges) for ranges in self.settled]

    def left_of(self, ranges: tuple[SourceRange, ...]) -> tuple[SourceRange, ...]:
        return tuple(
            replace(r, to_inclusive=at(min(number(r.to_inclusive), self.last[r.source])))
            for r in ranges
            if number(r.from_exclusive) < self.last[r.source] or number(r.to_inclusive) <= self.last[r.source]
        )

    @precondition(lambda self: self.document() is not None)
    @rule(luck=st.integers(0, 9))
    def reset(self, luck: int) -> None:
        """A reset: nothing counts as committed any more."""
        read = self.document()
        if read is None or luck:
            return
        self.write(reset(read), read)
        self.committed.clear()
        self.settled.clear()
        self.order.clear()
        self.unfinished.clear()
        self.last = dict.fromkeys(SOURCES, 0)
        self.dropped.clear()

    def run_number(self, day: int) -> RunIdentity:
        return RunIdentity(
            dag_id="daily", run_id=f"r{day}", map_index=-1, run_after=f"2026-01-01T00:00:{day % 60:02d}+00:00"
        )

    def position(self, source: Source) -> int:
        read = self.document()
        return 0 if read is None else number(read.position_of(source))

    def nothing(self) -> None:
        """A capture that handed nothing to a job."""

    @invariant()
    def every_file_is_committed_once(self) -> None:
        """Nothing is lost or in two committed ranges: together they are everything up to the position."""
        for source in SOURCES:
            files = [
                file
                for ranges in [*self.committed.values(), *self.settled]
                for r in ranges
                if r.source == source
                for file in range(number(r.from_exclusive) + 1, number(r.to_inclusive) + 1)
            ]
            assert sorted(files) == list(range(1, self.position(source) + 1))

    @invariant()
    def what_may_be_written_is_known(self) -> None:
        """Of each source the capture that began last and was not committed: its job may have written its rows."""
        read = self.document()
        for source, end in self.unfinished.items():
            assert read is not None
            assert end in [r.to_inclusive for _, r in read.uncommitted_of(source)]

    @invariant()
    def remembered_ranges_touch(self) -> None:
        """Each range begins at the end of the one before, unless a rewind went in between."""
        read = self.document()
        history = () if read is None else read.history
        for source in SOURCES:
            ranges = [r for c in history for r in c.ranges if r.source == source]
            for before, after in pairwise(ranges):
                assert number(after.from_exclusive) in {number(before.to_inclusive), *self.places[source]}

    @invariant()
    def one_store_at_most_can_be_used(self) -> None:
        """A checkpoint that has moved is of no use for a capture or a commit."""
        assert all(self.is_unusable(store) for name, store in self.stores.items() if name != self.home)

    @invariant()
    def a_step_was_taken(self) -> None:
        Consumer.steps += 1

    @invariant()
    def positions_move_forward_only(self) -> None:
        for source in SOURCES:
            assert self.position(source) >= self.last[source]
            self.last[source] = self.position(source)

    @invariant()
    def the_document_survives_its_text_and_stays_bounded(self) -> None:
        read = self.document()
        if read is not None:
            assert Checkpoint.parse(read.to_text(), consumer=CONSUMER) == read
            assert len([c for c in read.history if c.wrote]) <= HISTORY

    @invariant()
    def what_is_needed_is_not_dropped(self) -> None:
        """Neither the pending capture's ICDC tables nor those of the newest committed one, which may be cleared."""
        read = self.document()
        if read is not None:
            newest = [c.icdc_tables for c in read.history if c.wrote][-1:]
            pending = read.pending.icdc_tables if read.pending else ()
            assert self.dropped.isdisjoint([*pending, *(t for tables in newest for t in tables)])


@pytest.mark.parametrize("half", [1, 2])
def test_the_laws_hold_over_ten_thousand_steps(half):
    """Some hundreds of invented histories, each of up to sixty steps. In two parts, for two processors."""
    Consumer.steps = 0
    run_state_machine_as_test(
        Consumer,
        settings=settings(
            max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    assert Consumer.steps >= STEPS // 2
