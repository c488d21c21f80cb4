"""What a long history costs when little of it is captured.

The yardstick is PyIceberg's `load_table` in the same run: its cost grows with the number of snapshots, and nothing that
reads an Iceberg table can do without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.contenders import Python
from benchmarks.generator import generate
from benchmarks.measurements import Case, Run, Typical
from benchmarks.results import circumstances
from benchmarks.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE: Final = Shape(files=1_000, snapshots=1, files_before=999_000, snapshots_before=9_999)
TWICE_THE_TABLE: Final = Shape(files=1_000, snapshots=1, files_before=1_999_000, snapshots_before=19_999)
SMALL_TABLE: Final = Shape(files=1_000, snapshots=1, files_before=19_000, snapshots_before=1_999)

TIMES_LOAD_TABLE: Final = 1.3
PLUS_SECONDS: Final = 0.1
GROWTH_BEYOND_LOAD_TABLE: Final = 0.1


def measure(shapes: Sequence[Shape], rounds: int) -> list[Case]:
    """Load and capture every table in turns."""
    found = circumstances()
    tables = [generate(shape) for shape in shapes]
    contenders = [Python("load_table"), Python("capture")]
    runs: dict[tuple[str, str], list[Run]] = {(t.shape.name, c.name): [] for t in tables for c in contenders}
    for _ in range(rounds):
        for table in tables:
            for contender in contenders:
                runs[table.shape.name, contender.name].append(contender.run(table))
    return [
        Case(
            shape=t.shape.as_dict(),
            name=t.shape.name,
            circumstances=found,
            contenders={c.name: Typical.of(runs[t.shape.name, c.name]) for c in contenders},
        )
        for t in tables
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Capture beside `load_table` on one table, by wall or by CPU time."""

    load_seconds: float
    capture_seconds: float

    @classmethod
    def by_wall(cls, case: Case) -> Cost:
        """As a user waits."""
        load, capture = case.contenders["load_table"], case.contenders["capture"]
        return cls(load_seconds=load.wall_seconds, capture_seconds=capture.wall_seconds)

    @classmethod
    def by_cpu(cls, case: Case) -> Cost:
        """As other programs on the machine cannot stretch it."""
        load, capture = case.contenders["load_table"], case.contenders["capture"]
        return cls(load_seconds=load.cpu_seconds, capture_seconds=capture.cpu_seconds)

    @property
    def allowed_seconds(self) -> float:
        """What capture may take."""
        return TIMES_LOAD_TABLE * self.load_seconds + PLUS_SECONDS

    def growth_beyond_load(self, larger: Cost) -> float:
        """By which part of itself capture grew more than `load_table` did."""
        grown = larger.capture_seconds - self.capture_seconds
        return (grown - (larger.load_seconds - self.load_seconds)) / self.capture_seconds
