"""Notes on what backfills are at work on: all of a plan's or none, and never two at work on one part of a target."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ips.core.backfill.chunks import Chunk
from airflow_provider_ips.core.backfill.claims import Claim, Extent
from airflow_provider_ips.core.errors import CheckpointConflictError, StoreUnavailableError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import RunIdentity
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.runs.claims import KEPT_MS, Claims, ClaimVariables


class Shelf(ClaimVariables):
    """Variables in memory. Before the third look, two targets have been looked at, and what is written is written."""

    def __init__(self):
        self.kept = {}
        self.looks = 0
        self.before_third_look = lambda: None

    def get(self, key):
        return self.kept.get(key)

    def set(self, key, value, *, description):
        assert description
        self.kept[key] = value

    def keys(self, *, prefix):
        self.looks += 1
        if self.looks == 3:
            self.before_third_look()
        return [key for key in self.kept if key.startswith(prefix)]

    def delete(self, key):
        del self.kept[key]


class Runs(SimpleNamespace):
    """A task instance that knows which runs are active."""

    def get_dr_count(self, dag_id, run_ids, states):
        return sum((dag_id, run_id) in self.active for run_id in run_ids)

    def get_task_states(self, dag_id, run_ids):
        return {}


def claim(run_id, target="db.a@main", *, days=(1, 2), at=1_000):
    return Claim(
        target=target,
        run=RunIdentity(dag_id="d", run_id=run_id, map_index=-1, run_after="2026-10-01T00:00:00+00:00"),
        task_id="plan",
        description="some partitions in full",
        request_digest="digest",
        extent=Extent(source=Source("db.t"), column="day", spans=(days,)),
        as_of_snapshot="7",
        claimed_at_ms=at,
    )


def chunk_of(*claims):
    return Chunk(
        number=1,
        of=1,
        label="day=1",
        source=Source("db.t"),
        request=RunRequest(kind=RunKind.FULL),
        volume=Volume(files=1, records=1, size_bytes=1),
        claims=tuple(each.key for each in claims),
    )


def put(shelf, *claims):
    for each in claims:
        shelf.set(each.key, json.dumps(each.to_json()), description="as a plan does")


BOTH_ACTIVE: Any = Runs(active={("d", "one"), ("d", "two")})

NONE_ACTIVE: Any = Runs(active=set())


@pytest.fixture
def shelf():
    return Shelf()


def test_of_two_plans_at_the_same_moment_none_overlooks_the_other(shelf):
    """The other one has written after we have looked first: we see it when we look again, and take ours back."""
    ours = [claim("one"), claim("one", "db.b@main")]
    rival = claim("two", "db.b@main")
    shelf.before_third_look = lambda: put(shelf, rival)

    assert Claims(BOTH_ACTIVE, shelf).take(ours) == rival
    assert list(shelf.kept) == [rival.key]


def test_a_plan_that_has_to_take_its_notes_back_leaves_those_of_its_earlier_attempt(shelf):
    """Its chunks may still be at work."""
    earlier = [claim("one", at=1), claim("one", "db.b@main", at=1)]
    put(shelf, *earlier)
    rival = claim("two", "db.b@main")
    shelf.before_third_look = lambda: put(shelf, rival)

    assert Claims(BOTH_ACTIVE, shelf).take([replace(each, claimed_at_ms=2) for each in earlier]) == rival
    assert [Claims(NONE_ACTIVE, shelf).read(each.key) for each in earlier] == earlier


def test_of_two_targets_both_are_held_or_none(shelf):
    """The second one is taken: nothing is written, for a note of ours would stop that backfill's own chunks."""
    taken = claim("two", "db.b@main")
    put(shelf, taken)

    assert Claims(BOTH_ACTIVE, shelf).take([claim("one"), claim("one", "db.b@main")]) == taken
    assert list(shelf.kept) == [taken.key]
    assert Claims(BOTH_ACTIVE, shelf).take([claim("one"), claim("one", "db.c@main")]) is None
    assert len(shelf.kept) == 3


def test_other_days_or_an_ended_run_are_in_nobodys_way(shelf):
    put(shelf, claim("two", days=(3, 4)), claim("ended"))

    assert Claims(BOTH_ACTIVE, shelf).take([claim("one")]) is None


def test_notes_of_ended_runs_go_after_a_month(shelf):
    old, newer = claim("ended", at=0), claim("also ended", at=KEPT_MS)
    put(shelf, old, newer)
    mine = claim("one", at=KEPT_MS + 1)

    Claims(BOTH_ACTIVE, shelf).take([mine])

    assert set(shelf.kept) == {newer.key, mine.key}


def test_a_chunk_without_its_claim_or_with_that_of_another_run_is_refused(shelf):
    """It was deleted: so no other backfill could see what this one writes."""
    mine, other = claim("one"), claim("one", "db.b@main")
    put(shelf, mine)

    Claims(BOTH_ACTIVE, shelf).confirm(mine.run, chunk_of(mine), now_ms=5)
    with pytest.raises(CheckpointConflictError, match="does not exist any more"):
        Claims(BOTH_ACTIVE, shelf).confirm(mine.run, chunk_of(mine, other), now_ms=5)
    with pytest.raises(CheckpointConflictError, match="does not exist any more"):
        Claims(BOTH_ACTIVE, shelf).confirm(replace(mine.run, run_id="two"), chunk_of(mine), now_ms=5)


@pytest.mark.parametrize("damaged", ["", "***", "[]", "{}", '{"schema_version": 2}'])
def test_a_note_that_cannot_be_read_is_no_note_that_is_not_there(shelf, damaged):
    """Neither a chunk's own, nor one that may be in a plan's way."""
    mine = claim("one")
    shelf.kept[mine.key] = damaged

    with pytest.raises(StoreUnavailableError, match="cannot be read"):
        Claims(BOTH_ACTIVE, shelf).confirm(mine.run, chunk_of(mine), now_ms=5)
    with pytest.raises(StoreUnavailableError, match="cannot be read"):
        Claims(BOTH_ACTIVE, shelf).take([claim("two")])


def test_a_chunk_that_comes_back_says_so_to_those_that_have_been_there_since(shelf):
    """The later one has ended; should it be cleared, it finds the note of this one renewed. If it is back, it stays."""
    mine, later = claim("one", at=1), claim("two", at=2)
    put(shelf, mine, later)

    with pytest.raises(CheckpointConflictError, match="d/two"):
        Claims(BOTH_ACTIVE, shelf).confirm(mine.run, chunk_of(mine), now_ms=5)
    Claims(NONE_ACTIVE, shelf).confirm(mine.run, chunk_of(mine), now_ms=5)

    assert Claims(NONE_ACTIVE, shelf).read(mine.key) == replace(mine, claimed_at_ms=5)
    with pytest.raises(CheckpointConflictError, match="d/one"):
        Claims(BOTH_ACTIVE, shelf).confirm(later.run, chunk_of(later), now_ms=6)
