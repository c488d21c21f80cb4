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
from benchmarks.pipeline.lake import remove
from benchmarks.pipeline.meter import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.pipeline.shape import Shape

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One contender in one round."""

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


def measured_round(shape: Shape, contenders: Sequence[str], cache: Path, *, number: int = 1, resume: bool) -> Round:
    """Keep what was measured: with ``resume`` a run goes on where an earlier one was stopped."""
    path = cache / "measured" / f"{shape.name}-{'-'.join(contenders)}-{number}.json"
    if resume and path.exists():
        return Round.parse(json.loads(path.read_text()))
    found = run_round(shape, contenders, cache)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(found)))
    return found


def run_round(shape: Shape, contenders: Sequence[str], cache: Path) -> Round:
    """The lookback first, for the others are held against what it made."""
    names = ["lookback", *(name for name in contenders if name != "lookback")]
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="lake-", dir=cache))
    try:
        return _in_lake(shape, names, cache, folder)
    finally:
        remove(folder)


def _in_lake(shape: Shape, names: Sequence[str], cache: Path, folder: Path) -> Round:
    order: dict[str, Any] = {"shape": asdict(shape), "cache": str(cache), "lake": str(folder), "contenders": names}
    _work({**order, "step": "data", "lake": str(folder / "data")})
    order |= _work({**order, "step": "lake"})
    answers = {}
    for name in names:
        if name == "exact":
            _work({**order, "step": "exact"})
        answers[name] = _work({**order, "step": "contend", "contender": name})
        took = {stage: f"{cost['wall_seconds']:.1f} s" for stage, cost in answers[name]["stages"].items()}
        print(f"{shape.name}: {name} {took}", file=sys.stderr, flush=True)
    judged = _work({**order, "step": "compare"})
    outcomes = tuple(
        Outcome(
            contender=name,
            stages={stage: Cost(**cost) for stage, cost in answers[name]["stages"].items()},
            differences=tuple(Difference(**one) for one in judged[name]),
            remarks=answers[name]["remarks"],
        )
        for name in names
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
