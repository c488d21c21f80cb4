"""A history from a number: always the same steps for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

# Each registers its steps.
from tests.system.histories import (
    appends,  # noqa: F401
    captures,  # noqa: F401
    change_captures,  # noqa: F401
    changes,  # noqa: F401
    lineage,  # noqa: F401
    maintenance,  # noqa: F401
)
from tests.system.histories.profile import Profile
from tests.system.histories.registry import (
    APPEND,
    CAPTURE,
    CHANGE,
    CHANGE_CAPTURE,
    EVOLUTION,
    LINEAGE,
    MAINTENANCE,
    REGISTRY,
    Step,
)

SHORTEST: Final = 14
LONGEST: Final = 22

# How often each group of steps comes, by what the history is about.
SHARES: Final = {
    "appends": {APPEND: 8, MAINTENANCE: 3, EVOLUTION: 4, CAPTURE: 5},
    "lineage": {APPEND: 6, CHANGE: 1, MAINTENANCE: 2, LINEAGE: 7, CAPTURE: 5, CHANGE_CAPTURE: 2},
    "changes": {APPEND: 4, CHANGE: 7, MAINTENANCE: 3, EVOLUTION: 1, CAPTURE: 1, CHANGE_CAPTURE: 8},
    "everything": {APPEND: 5, CHANGE: 4, MAINTENANCE: 3, EVOLUTION: 3, LINEAGE: 3, CAPTURE: 3, CHANGE_CAPTURE: 4},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A table and what happens to it."""

    seed: int
    profile: Profile
    steps: tuple[Step, ...]

    @classmethod
    def draw(cls, seed: int) -> History:
        profile = Profile.draw(seed)
        rng = Random(f"steps {seed}")  # noqa: S311 - a reproducible history, no secret
        shares = SHARES[profile.flavour]
        steps = [Step("java_merge_append", seed), Step("java_append_of_one_file", seed)]
        for _ in range(rng.randint(SHORTEST, LONGEST)):
            group = rng.choices(list(shares), weights=list(shares.values()))[0]
            kinds = [kind for kind in REGISTRY.values() if kind.group == group]
            kind = rng.choices(kinds, weights=[k.weight for k in kinds])[0]
            steps.append(Step(kind.name, rng.randrange(1_000_000)))
        # Whatever happened last is captured, too.
        last = ("capture_next", "follow_changes") if CHANGE_CAPTURE in shares else ("capture_next", "capture_between")
        steps += [Step(kind, seed) for kind in last]
        return cls(seed=seed, profile=profile, steps=tuple(steps))
