"""The steps that histories are made of."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.system.histories.world import World

    Run = Callable[[World, Random], None]

REGISTRY: Final[dict[str, Kind]] = {}

APPEND, CHANGE, MAINTENANCE, EVOLUTION, LINEAGE, CAPTURE, CHANGE_CAPTURE = (
    "append",
    "change",
    "maintenance",
    "evolution",
    "lineage",
    "capture",
    "change capture",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of step: what it is about, how often it comes, and what it does."""

    name: str
    group: str
    weight: int
    run: Run


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one history. All its choices follow from its own seed and what is there when it runs.

    So a history keeps its meaning when steps are taken out of it, and a failing one can be shrunk.
    """

    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}"

    @classmethod
    def parse(cls, text: str) -> Step:
        kind, _, seed = text.partition(":")
        return cls(kind, int(seed))

    def run(self, world: World) -> None:
        REGISTRY[self.kind].run(world, Random(str(self)))  # noqa: S311 - reproducible, no secret


def step(group: str, *, weight: int = 2) -> Callable[[Run], Run]:
    """Make a function ``(world, rng)`` a kind of step. It raises ``NotNowError`` where it has nothing to do."""

    def register(function: Run) -> Run:
        REGISTRY[function.__name__] = Kind(name=function.__name__, group=group, weight=weight, run=function)
        return function

    return register
