"""A sample of the random histories; `make test-histories` runs hundreds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.histories.generator import History
from tests.histories.runner import run, shrink

if TYPE_CHECKING:
    from tests.histories.lake import Lake

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

SAMPLE: Final = range(1, 13)


@pytest.mark.parametrize("seed", SAMPLE)
def test_every_capture_of_a_random_history_is_exact_or_refused_for_a_reason(histories_lake: Lake, seed: int) -> None:
    """The ledger says which rows are due; Spark and PyIceberg read the ICDC tables."""
    outcome = run(histories_lake, History.draw(seed))
    if outcome.failure:
        smallest = shrink(histories_lake, outcome)
        pytest.fail(f"{outcome.failure}\nreplay: {outcome.replay}\nshrunk: {smallest.replay}\n{smallest.failure}")
