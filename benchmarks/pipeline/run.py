"""Rounds of all contenders on one shape, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.pipeline.judge import Difference
from benchmarks.pipeline.lake import contender_of, remove, turn_of
from benchmarks.pipeline.meter import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.pipeline.shape import Shape

ROOT = Path(__file__).resolve().parents[2]
ONCE = ("lookback", "changelog")
"""Which contenders run once however many turns there are: they take longest, and nobody is close to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One contender, once."""

    contender: str
    stages: dict[str, Cost]
    differences: tuple[Difference, ...]
    remarks: dict[str, Any]

    @property
    def both(self) -> Cost:
        """Stages together."""
        daily, accounts = self.stages.values()
        return daily + accounts

    @property
    def is_identical(self) -> bool:
        """To the lookback's targets."""
        return bool(self.differences) and all(one.is_none for one in self.differences)

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Self:
        """What ``asdict`` gave."""
        stages = {stage: Cost(**cost) for stage, cost in raw["stages"].items()}
        differences = tuple(Difference(**one) for one in raw["differences"])
        return cls(**{**raw, "stages": stages, "differences": differences})


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """All contenders on the same rows."""

    events: int
    """Rows of the raw table, all of which the lookback reads."""
    arrived: int
    """Those of them that are new."""
    outcomes: tuple[Outcome, ...]

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Self:
        """What ``asdict`` gave."""
        return cls(**{**raw, "outcomes": tuple(Outcome.parse(one) for one in raw["outcomes"])})


def measured_round(
    shape: Shape, contenders: Sequence[str], cache: Path, *, number: int = 1, turns: int = 1, resume: bool
) -> Round:
    """Keep what was measured: with ``resume`` a run goes on where an earlier one was stopped."""
    path = cache / "measured" / f"{shape.name}-{'-'.join(contenders)}-{turns}-{number}.json"
    if resume and path.exists():
        return Round.parse(json.loads(path.read_text()))
    found = run_round(shape, contenders, cache, turns=turns)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(found)))
    return found


def run_round(shape: Shape, contenders: Sequence[str], cache: Path, *, turns: int = 1) -> Round:
    """The lookback first, for the others are held against what it made; then these in turns."""
    others = [name for name in contenders if name != "lookback"]
    again = [name for name in others if name not in ONCE]
    each = ["lookback", *others, *(turn_of(name, number) for number in range(2, turns + 1) for name in again)]
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="lake-", dir=cache))
    try:
        return _in_lake(shape, each, cache, folder)
    finally:
        remove(folder)


def _in_lake(shape: Shape, turns: Sequence[str], cache: Path, folder: Path) -> Round:
    order: dict[str, Any] = {"shape": asdict(shape), "cache": str(cache), "lake": str(folder), "turns": turns}
    _work({**order, "step": "data", "lake": str(folder / "data")})
    order |= _work({**order, "step": "lake"})
    answers = {}
    for turn in turns:
        if turn == "exact":
            _work({**order, "step": "exact"})
        answers[turn] = _work({**order, "step": "contend", "turn": turn})
        took = {stage: f"{cost['wall_seconds']:.1f} s" for stage, cost in answers[turn]["stages"].items()}
        print(f"{shape.name}: {turn} {took}", file=sys.stderr, flush=True)
    judged = _work({**order, "step": "compare"})
    outcomes = tuple(
        Outcome(
            contender=contender_of(turn),
            stages={stage: Cost(**cost) for stage, cost in answers[turn]["stages"].items()},
            differences=tuple(Difference(**one) for one in judged[turn]),
            remarks=answers[turn]["remarks"],
        )
        for turn in turns
    )
    return Round(**order["counts"], outcomes=outcomes)


def _work(order: dict[str, Any]) -> dict[str, Any]:
    """A step that fails stops everything: half a comparison says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "order.json"
        path.write_text(json.dumps(order))
        command = [sys.executable, "-m", "benchmarks.pipeline.worker", str(path)]
        subprocess.run(command, cwd=ROOT, check=True)
        answer: dict[str, Any] = json.loads(path.with_suffix(".answer.json").read_text())
    return answer
