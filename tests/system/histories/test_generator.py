"""What makes a random history worth something: it comes again, it covers everything, and it shrinks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.system.histories.generator import History
from tests.system.histories.ledger import Effect
from tests.system.histories.registry import REGISTRY, Step, step
from tests.system.histories.runner import run, shrink
from tests.system.histories.world import NotNowError

if TYPE_CHECKING:
    from random import Random

    from tests.system.histories.lake import Lake
    from tests.system.histories.world import World

FOR_TESTS = "for tests"


@step(FOR_TESTS)
def forget_a_row(world: World, rng: Random) -> None:
    """A ledger that lost a row stands for a capture that has one too many."""
    if not world.rows() or world.head is None:
        raise NotNowError
    commit = world.ledger.commits[world.head]
    rest = dict(list(world.rows().items())[1:])
    world.ledger.commits[world.head] = replace(commit, effect=Effect(after=rest))


def test_a_seed_is_always_the_same_history():
    """A failing seed means the same on another machine, and so does each step that is printed."""
    assert History.draw(7) == History.draw(7)
    assert History.draw(7) != History.draw(8)
    assert all(Step.parse(str(each)) == each for each in History.draw(7).steps)


def test_two_hundred_histories_hold_every_kind_of_step_and_table():
    """What is never drawn is never tested."""
    histories = [History.draw(seed) for seed in range(1, 201)]
    drawn = Counter(each.kind for history in histories for each in history.steps)
    assert set(drawn) == {kind.name for kind in REGISTRY.values() if kind.group != FOR_TESTS}
    assert min(drawn.values()) >= 8
    assert min(len(history.steps) for history in histories) > 10
    assert {history.profile.format_version for history in histories} == {1, 2, 3}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_failing_history_shrinks_to_the_steps_that_matter(histories_lake: Lake) -> None:
    """And tells the command that runs what is left."""
    steps = [
        "java_fast_append:1",
        "compact:2",
        "forget_a_row:3",
        "add_column:4",
        "java_fast_append:5",
        "capture_next:6",
    ]
    outcome = run(histories_lake, replace(History.draw(1), steps=tuple(map(Step.parse, steps))))
    smallest = shrink(histories_lake, outcome)
    assert outcome.failure
    assert smallest.fault == outcome.fault
    assert [each.kind for each in smallest.history.steps] == ["java_fast_append", "forget_a_row", "capture_next"]
    assert "--seed 1 --steps" in smallest.replay
    assert all(str(each) in smallest.replay for each in smallest.history.steps)
