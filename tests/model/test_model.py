"""The law over random histories: the target equals the source, or the problem was reported."""

from __future__ import annotations

from itertools import islice
from typing import Final

import pytest

from tests.model.catalog import model_catalog
from tests.model.generator import stories
from tests.model.known import KNOWN
from tests.model.shrink import shrunk
from tests.model.story import failure_of

SEED: Final = 16
HISTORIES: Final = 1_000
PARTS: Final = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_the_target_is_right_or_the_problem_was_reported(part: int) -> None:
    """`make test-model` plays 20,000 histories; MODEL_ARGS='--seed 7 --count 500' plays others."""
    with model_catalog():
        for story in islice(stories(SEED, HISTORIES), part, None, PARTS):
            if failure_of(story, KNOWN) is not None:
                short, why = shrunk(story, KNOWN)
                pytest.fail("\n".join([f"{type(why).__name__}: {why}", str(short), *why.__notes__]))
