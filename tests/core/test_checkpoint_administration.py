"""How people change a checkpoint by hand, and what the next run then captures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import PendingCapture, SourcePosition, SourceRange
from airflow_provider_ips.core.checkpoint.manual_changes import abandon, reset, rewind, rewind_source, seed
from airflow_provider_ips.core.checkpoint.resolution import Fresh, Replay, new_capture_id, resolve_capture
from airflow_provider_ips.core.checkpoint.traces import begin_replay
from airflow_provider_ips.core.checkpoint.transitions import CommitOutcome, begin, commit
from airflow_provider_ips.core.errors import CheckpointConflictError, InputError
from airflow_provider_ips.core.identifiers import CapturedBranch, Source
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

EVENTS = Source("db.events")
USERS = Source("db.users")
CONSUMER = "daily.capture"


def at(snapshot_id: int) -> Position:
    return Position(
        table_uuid="uuid-1", snapshot_id=snapshot_id, sequence_number=snapshot_id, committed_at_ms=snapshot_id * 1000
    )


def standing(snapshot_id: int, source: Source = EVENTS) -> SourcePosition:
    return SourcePosition(source=source, position=at(snapshot_id))


def run(day: int) -> RunIdentity:
    return RunIdentity(dag_id="daily", run_id=f"r{day}", map_index=-1, run_after=f"2026-11-{day:02d}T00:00:00+00:00")


def captured(document: Checkpoint | None, day: int, **heads: int) -> Checkpoint:
    capture_id = new_capture_id(document, consumer=CONSUMER, run=run(day))
    ranges = tuple(
        SourceRange(
            source=Source(f"db.{name}"),
            kind=Kind.RANGE,
            from_exclusive=None if document is None else document.position_of(Source(f"db.{name}")),
            to_inclusive=at(head),
            icdc_table=f"icdc.{name}_{day}",
        )
        for name, head in heads.items()
    )
    pending = PendingCapture(capture_id=capture_id, run=run(day), started_at_ms=1, ranges=ranges)
    return begin(document, consumer=CONSUMER, pending=pending)


def committed(document: Checkpoint | None, day: int, **heads: int) -> Checkpoint:
    begun = captured(document, day, **heads)
    assert begun.pending is not None
    return commit(begun, capture_id=begun.pending.capture_id, run=run(day), now_ms=2).checkpoint


def test_a_seeded_consumer_starts_from_there():
    """The first run's range begins at the seeded position."""
    document = seed(None, consumer=CONSUMER, positions=[standing(10)], now_ms=1)
    assert document.revision == 1
    assert resolve_capture(document, run(1)) == Fresh()
    assert committed(document, 1, events=20).history[-1].ranges[0].from_exclusive == at(10)


def test_a_seed_never_overwrites():
    """Only a rewind or a reset changes a position that exists."""
    document = seed(None, consumer=CONSUMER, positions=[standing(10)], now_ms=1)
    with pytest.raises(CheckpointConflictError, match="has a position") as caught:
        seed(document, consumer=CONSUMER, positions=[standing(20)], now_ms=2)
    assert "reset" in caught.value.remedy


def test_a_source_can_be_seeded_beside_others():
    """A source that is added to a running consumer may start from a chosen place too."""
    document = committed(None, 1, events=10)
    document = seed(document, consumer=CONSUMER, positions=[standing(5, USERS)], now_ms=3)
    assert (document.position_of(EVENTS), document.position_of(USERS)) == (at(10), at(5))
    assert isinstance(resolve_capture(document, run(1)), Replay)


def test_nothing_is_seeded_under_a_pending_capture():
    """Its commit would find another position than the one it began from."""
    with pytest.raises(CheckpointConflictError, match="pending") as caught:
        seed(captured(None, 1, events=10), consumer=CONSUMER, positions=[standing(5)], now_ms=2)
    assert "abandon" in caught.value.remedy


def test_a_rewound_consumer_captures_everything_since():
    """The range of the capture and all later ones are captured again, in all its sources."""
    document = None
    for day in (1, 2, 3):
        document = committed(document, day, events=day * 10, users=day)
    assert document is not None
    back = rewind(document, capture_id=document.history[1].capture_id)
    assert (back.position_of(EVENTS), back.position_of(USERS)) == (at(10), at(1))
    assert [capture.run for capture in back.history] == [run(1)]
    assert back.revision == document.revision + 1


def test_a_rewound_run_captures_as_new_and_the_one_before_it_is_the_newest():
    """A run that was undone captures as new; one before it is replayed."""
    document = None
    for day in (1, 2):
        document = committed(document, day, events=day * 10)
    assert document is not None
    back = rewind(document, capture_id=document.history[1].capture_id)
    assert isinstance(resolve_capture(back, run(2)), Fresh)
    assert isinstance(resolve_capture(back, run(1)), Replay)
    again = captured(back, 2, events=30)
    assert again.pending is not None
    assert again.pending.capture_id != document.history[1].capture_id


def test_rewinding_to_the_beginning_leaves_no_position():
    """The next run is a first run again."""
    document = committed(committed(None, 1, events=10), 2, events=20)
    assert rewind(document, capture_id=document.history[0].capture_id).positions == ()


def test_a_rewind_puts_back_a_source_that_joined_later():
    """A source whose first range is undone has no position again; the others go back to theirs."""
    document = committed(committed(None, 1, events=10), 2, events=20, users=5)
    back = rewind(document, capture_id=document.history[1].capture_id)
    assert back.positions == (standing(10),)


def test_one_source_is_rewound_to_a_position_between_commits():
    """The others keep theirs. Commits that end after it count as never made, and their rows are captured again."""
    document = None
    for day in (1, 2, 3):
        document = committed(document, day, events=day * 10, users=day)
    assert document is not None
    back = rewind_source(document, source=EVENTS, position=at(15))
    assert (back.position_of(EVENTS), back.position_of(USERS)) == (at(15), at(3))
    assert [capture.run for capture in back.history] == [run(1)]
    assert back.revision == document.revision + 1
    assert isinstance(resolve_capture(back, run(3)), Fresh)
    assert isinstance(resolve_capture(back, run(1)), Replay)


@pytest.mark.parametrize(
    "place", [at(20), at(30), replace(at(10), table_uuid="another")], ids=["here", "ahead", "other"]
)
def test_a_rewind_never_skips(place):
    """The present position, a later one and one of another table are refused."""
    document = committed(committed(None, 1, events=10), 2, events=20)
    with pytest.raises(CheckpointConflictError, match="is not earlier than") as caught:
        rewind_source(document, source=EVENTS, position=place)
    assert "reset" in caught.value.remedy


def test_a_source_without_a_position_is_not_rewound():
    """The name may be misspelled."""
    with pytest.raises(InputError, match="no position"):
        rewind_source(committed(None, 1, events=10), source=USERS, position=at(1))


def test_a_source_that_is_rewound_gives_up_the_pending_capture():
    """It began at a position that the consumer no longer has."""
    document = captured(committed(committed(None, 1, events=10), 2, events=20), 3, events=30)
    assert document.pending is not None
    back = rewind_source(document, source=EVENTS, position=at(5))
    assert back.pending is None
    assert set(document.pending.icdc_tables) <= set(back.retained)
    assert back.history == ()


def test_a_rewind_gives_up_the_pending_capture():
    """Its range began at a position that the consumer no longer has; its late commit fails and does not skip rows."""
    document = committed(committed(None, 1, events=10), 2, events=20)
    begun = captured(document, 3, events=30)
    assert begun.pending is not None
    back = rewind(begun, capture_id=document.history[1].capture_id)
    assert back.pending is None
    assert "icdc.events_3" in back.retained
    with pytest.raises(CheckpointConflictError):
        commit(back, capture_id=begun.pending.capture_id, run=run(3), now_ms=5)


def test_a_rewind_remembers_what_the_target_holds():
    """Up to the position that was, in the sources that go back: rows of it may be deleted before the next capture."""
    document = committed(committed(None, 1, events=10, users=1), 2, events=20, users=1)
    for back in (
        rewind(document, capture_id=document.history[1].capture_id),
        rewind_source(document, source=EVENTS, position=at(15)),
    ):
        assert [(r.source, r.from_exclusive, r.to_inclusive) for c in back.begun for r in c.ranges] == [
            (EVENTS, back.position_of(EVENTS), at(20))
        ]
        assert Checkpoint.parse(back.to_text(), consumer=CONSUMER) == back


def test_a_rewind_remembers_what_was_pending():
    """Its job may have written to its end, and a refresh of all rows may have emptied the target."""
    begun = captured(committed(committed(None, 1, events=10), 2, events=20), 3, events=30)
    assert begun.pending is not None
    full = replace(begun.pending, ranges=tuple(replace(r, kind=Kind.FULL) for r in begun.pending.ranges))
    back = rewind(replace(begun, pending=full), capture_id=begun.history[1].capture_id)
    assert next((c.run, r.kind, r.from_exclusive, r.to_inclusive) for c, r in back.uncommitted_of(EVENTS)) == (
        run(3),
        Kind.FULL,
        at(10),
        at(30),
    )


def test_only_a_capture_of_the_history_can_be_rewound():
    """A guess would set a wrong position."""
    with pytest.raises(InputError, match="'nowhere'"):
        rewind(committed(None, 1, events=10), capture_id="nowhere")


def test_a_reset_consumer_is_new():
    """No position, no history; the next run starts by `initial`, and old ICDC tables are still released."""
    document = reset(captured(committed(None, 1, events=10), 2, events=20))
    assert (document.positions, document.history, document.pending) == ((), (), None)
    assert set(document.retained) == {"icdc.events_1", "icdc.events_2"}
    assert resolve_capture(document, run(1)) == Fresh()
    assert seed(document, consumer=CONSUMER, positions=[standing(5)], now_ms=3).position_of(EVENTS) == at(5)


def test_one_source_can_be_reset():
    """A source that left the DAG is removed from the document; the others keep their positions."""
    document = reset(committed(None, 1, events=10, users=5), sources=[USERS])
    assert document.positions == (standing(10),)
    with pytest.raises(InputError, match="no position"):
        reset(document, sources=[USERS])


def test_one_source_is_not_reset_under_a_pending_capture():
    """Its commit moves all sources together."""
    document = captured(committed(None, 1, events=10), 2, events=20)
    with pytest.raises(CheckpointConflictError, match="pending"):
        reset(document, sources=[EVENTS])


def test_an_abandoned_range_is_captured_again():
    """The position stays, the next run includes the range, and the abandoned run cannot commit any more."""
    begun = captured(committed(None, 1, events=10), 2, events=20)
    assert begun.pending is not None
    document = abandon(begun)
    assert document.pending is None
    with pytest.raises(CheckpointConflictError, match="abandoned"):
        commit(document, capture_id=begun.pending.capture_id, run=run(2), now_ms=3)
    following = captured(document, 3, events=30)
    assert following.pending is not None
    assert following.pending.ranges[0].from_exclusive == at(10)
    result = commit(following, capture_id=following.pending.capture_id, run=run(3), now_ms=4)
    assert result.outcome is CommitOutcome.ADVANCED
    assert set(result.drop) == {"icdc.events_1", "icdc.events_2"}


def test_what_held_a_table_is_released_with_it():
    """Whether its capture was abandoned, superseded or committed, with the table or, after a crash, without one."""
    begun = captured(committed(None, 1, events=10), 2, events=20)
    assert begun.pending is not None
    (taken,) = begun.pending.ranges
    held = replace(begun, pending=replace(begun.pending, ranges=(replace(taken, held=True),)))
    branch = str(CapturedBranch.holding(EVENTS, "icdc.events_2"))

    assert {"icdc.events_2", branch} <= set(abandon(held).retained)
    assert {"icdc.events_2", branch} <= set(captured(held, 3, events=30).retained)
    after = commit(held, capture_id=begun.pending.capture_id, run=run(2), now_ms=2).checkpoint
    assert after.needed_tables >= {"icdc.events_2", branch}
    assert Checkpoint.parse(after.to_text(), consumer=CONSUMER) == after


def test_what_an_abandoned_job_may_have_written_stays_known():
    """Unless it is known to have written nothing: nobody would take back a row that is deleted before the next run."""
    begun = captured(committed(None, 1, events=10), 2, events=20)
    document = abandon(begun)
    assert [r.to_inclusive for _, r in document.uncommitted_of(EVENTS)] == [at(20)]
    with pytest.raises(InputError, match="not committed") as caught:
        abandon(document)
    assert "--wrote-nothing" in caught.value.remedy
    assert abandon(document, wrote_nothing=True).begun == abandon(begun, wrote_nothing=True).begun == ()


def replay_of(day: int, kind: Kind = Kind.RANGE, /, **ranges: tuple[int | None, int]) -> PendingCapture:
    return PendingCapture(
        capture_id=f"replay {day}",
        run=run(day),
        started_at_ms=3,
        ranges=tuple(
            SourceRange(
                source=Source(f"db.{name}"),
                kind=kind,
                from_exclusive=None if start is None else at(start),
                to_inclusive=at(end),
                icdc_table=f"icdc.{name}_{day}",
            )
            for name, (start, end) in ranges.items()
        ),
    )


def test_a_rewind_into_the_range_of_an_unfinished_replay_is_refused():
    """Its job may have removed rows of the whole range, and the next run would capture a part of them."""
    document = committed(committed(None, 1, events=10, users=10), 2, events=20, users=20)
    replayed = begin_replay(document, replay_of(2, events=(10, 20), users=(10, 20)))
    with pytest.raises(CheckpointConflictError, match="did not commit that") as caught:
        rewind_source(replayed, source=EVENTS, position=at(15))
    assert "clear that run again" in caught.value.remedy
    with pytest.raises(CheckpointConflictError, match="users"):
        rewind_source(replayed, source=EVENTS, position=at(5))
    given_up = abandon(replayed, wrote_nothing=True)
    assert rewind_source(given_up, source=EVENTS, position=at(15)).position_of(EVENTS) == at(15)


def test_a_rewind_to_before_an_unfinished_replay_remembers_what_it_wrote():
    """The next run captures the whole range, and knows where it ended."""
    document = committed(committed(None, 1, events=10), 2, events=20)
    replayed = begin_replay(document, replay_of(2, events=(10, 20)))
    back = rewind(replayed, capture_id=document.history[-1].capture_id)
    assert (back.position_of(EVENTS), back.replaying) == (at(10), None)
    assert {r.to_inclusive for _, r in back.uncommitted_of(EVENTS)} == {at(20)}


def test_a_rewind_does_not_forget_that_all_rows_were_being_replaced():
    """A range since then would lack the rows before it, so only another refresh can follow."""
    document = committed(committed(None, 1, events=10), 2, events=20)
    replayed = begin_replay(document, replay_of(2, Kind.FULL, events=(10, 20)))
    back = rewind(replayed, capture_id=document.history[-1].capture_id)
    assert Kind.FULL in {r.kind for _, r in back.uncommitted_of(EVENTS)}


def test_a_replay_is_abandoned_only_if_its_job_wrote_nothing():
    """The next range has no trace of rows that it may have removed."""
    replayed = begin_replay(committed(None, 1, events=10), replay_of(1, events=(None, 10)))
    with pytest.raises(InputError, match="not committed") as caught:
        abandon(replayed)
    assert "--wrote-nothing" in caught.value.remedy
    assert abandon(replayed, wrote_nothing=True).replaying is None


def test_without_a_pending_capture_there_is_nothing_to_abandon():
    """This is an error, because the name may be misspelled."""
    with pytest.raises(InputError, match="no pending"):
        abandon(committed(None, 1, events=10))
