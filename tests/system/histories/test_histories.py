"""A sample of the random histories; `make test-histories` runs hundreds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from tests.system.histories.generator import History
from tests.system.histories.registry import Step
from tests.system.histories.runner import run, shrink

if TYPE_CHECKING:
    from tests.system.histories.lake import Lake

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

SAMPLE: Final = range(1, 13)


@pytest.mark.parametrize("seed", SAMPLE)
def test_every_capture_of_a_random_history_is_exact_or_refused_for_a_reason(histories_lake: Lake, seed: int) -> None:
    """The ledger says which rows are due; Spark and PyIceberg read the ICDC tables."""
    outcome = run(histories_lake, History.draw(seed))
    if outcome.failure:
        smallest = shrink(histories_lake, outcome)
        pytest.fail(f"{outcome.failure}\nreplay: {outcome.replay}\nshrunk: {smallest.replay}\n{smallest.failure}")


def test_several_deletes_on_one_file_before_and_in_the_range(histories_lake: Lake) -> None:
    """Random histories come to it too rarely: what was deleted before the range is no part of `.before`."""
    drawn = History.draw(3003)
    assert ("write.delete.mode", "merge-on-read") in drawn.profile.properties
    kinds = ["java_append_of_one_file:1", *(f"spark_delete_rows:{n}" for n in (1, 2, 3))]
    captures = [f"capture_changes_between:{n}" for n in range(1, 5)]
    outcome = run(histories_lake, replace(drawn, steps=tuple(map(Step.parse, kinds + captures))))
    assert not outcome.failure, outcome.replay
    assert outcome.done == len(kinds + captures)
