"""What was measured, as the document that the pages are written from."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks.compare.__main__ import versions
from benchmarks.pipeline.contenders import BY_NAME
from benchmarks.pipeline.meter import Cost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.pipeline.run import Outcome, Round
    from benchmarks.pipeline.shape import Shape

PUBLISHED: Final = Path(__file__).with_name("results.json")
BOTH: Final = "both"
STAGES: Final = {
    "daily": "1: events → `playback_daily`",
    "accounts": "2: `playback_daily` → `playback_daily_agg`",
    BOTH: "both",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One contender over all its turns in all rounds."""

    name: str
    title: str
    costs: dict[str, Cost]
    """By stage, and of both; medians of the turns."""
    is_identical: bool
    differing_rows: int
    remarks: dict[str, Any]

    @property
    def both(self) -> Cost:
        """What the figures are about."""
        return self.costs[BOTH]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Line:
        """From its turns."""
        first = outcomes[0]
        costs = {stage: typical([one.stages[stage] for one in outcomes]) for stage in first.stages}
        return cls(
            name=first.contender,
            title=BY_NAME[first.contender].title,
            costs={**costs, BOTH: typical([one.both for one in outcomes])},
            is_identical=all(one.is_identical for one in outcomes),
            differing_rows=sum(table.missing + table.extra for one in outcomes for table in one.differences),
            remarks=first.remarks,
        )

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Line:
        """What ``asdict`` gave."""
        return cls(**{**raw, "costs": {stage: Cost(**cost) for stage, cost in raw["costs"].items()}})


def typical(costs: Sequence[Cost]) -> Cost:
    """The median of each number."""
    return Cost(**{name: median(getattr(cost, name) for cost in costs) for name in asdict(costs[0])})


def lines_of(rounds: Sequence[Round]) -> list[Line]:
    """In the order of the first round."""
    names = dict.fromkeys(outcome.contender for outcome in rounds[0].outcomes)
    return [Line.of([one for each in rounds for one in each.outcomes if one.contender == name]) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a curve shows of both stages."""

    wall_seconds: float
    cpu_seconds: float
    read_bytes: int

    @classmethod
    def of(cls, cost: Cost) -> Self:
        """From all that was measured."""
        return cls(wall_seconds=cost.wall_seconds, cpu_seconds=cost.cpu_seconds, read_bytes=cost.read_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The lookback and this package on one shape of a curve."""

    days: int
    late: float
    lookback: Spent
    capture: Spent
    is_identical: bool

    @classmethod
    def of(cls, shape: Shape, lines: Iterable[Line]) -> Point:
        """From what was measured there."""
        by_name = {line.name: line for line in lines}
        ours = by_name["capture"]
        return cls(
            days=shape.days,
            late=shape.late,
            lookback=Spent.of(by_name["lookback"].both),
            capture=Spent.of(ours.both),
            is_identical=ours.is_identical,
        )

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Point:
        """What ``asdict`` gave."""
        return cls(**{**raw, "lookback": Spent(**raw["lookback"]), "capture": Spent(**raw["capture"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Points over the days of lookback, and over the share of late rows. They may be older than the table."""

    date: str
    scale: float
    release: int
    """Of the generator."""
    by_days: tuple[Point, ...]
    by_late: tuple[Point, ...]

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Curves:
        """What ``asdict`` gave."""
        points = {name: tuple(Point.parse(point) for point in raw[name]) for name in ("by_days", "by_late")}
        return cls(**{**raw, **points})


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One publication."""

    circumstances: dict[str, Any]
    shape: dict[str, Any]
    events: int
    """Rows of the raw table that the lookback reads."""
    arrived: int
    """Rows of it that are new."""
    lines: tuple[Line, ...]
    curves: Curves

    def write(self, path: Path) -> None:
        """As JSON that a person can compare with the one before."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """From a file."""
        raw = json.loads(path.read_text())
        lines = tuple(Line.parse(line) for line in raw["lines"])
        return cls(**{**raw, "curves": Curves.parse(raw["curves"]), "lines": lines})


def today() -> str:
    """As results say it."""
    return datetime.now(UTC).date().isoformat()


def circumstances(command: str, rounds: int, turns: int) -> dict[str, Any]:
    """When, where and how."""
    gibibytes = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    return {
        "date": today(),
        "machine": f"{os.cpu_count()} cores, {gibibytes} GiB",
        "command": command,
        "rounds": rounds,
        "turns": turns,
        "versions": versions(),
    }
