"""What runs took, and what several of them come to."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one contender. Bytes are None where the machine does not count them."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    read_bytes: int | None
    written_bytes: int | None
    files: int
    records: int

    @classmethod
    def parse(cls, facts: Mapping[str, Any]) -> Self:
        """From what a contender printed."""
        return cls(**{name: facts[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """The median of each figure over the runs, which need not be one run's; peak memory is the largest seen."""

    runs: int
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    read_bytes: int | None
    written_bytes: int | None

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Self:
        """At least one."""
        read = [run.read_bytes for run in runs if run.read_bytes is not None]
        written = [run.written_bytes for run in runs if run.written_bytes is not None]
        return cls(
            runs=len(runs),
            wall_seconds=statistics.median(run.wall_seconds for run in runs),
            cpu_seconds=statistics.median(run.cpu_seconds for run in runs),
            peak_bytes=max(run.peak_bytes for run in runs),
            read_bytes=int(statistics.median(read)) if read else None,
            written_bytes=int(statistics.median(written)) if written else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All contenders on one table. A contender that would not end in time is absent."""

    shape: dict[str, Any]
    name: str
    contenders: dict[str, Typical]
    circumstances: dict[str, Any]

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """From JSON."""
        contenders = {name: Typical(**facts) for name, facts in document["contenders"].items()}
        return cls(
            shape=dict(document["shape"]),
            name=document["name"],
            contenders=contenders,
            circumstances=dict(document["circumstances"]),
        )

    def times_faster(self, other: str) -> float | None:
        """How often capture fits into the other contender's wall time."""
        return self._ratio(other, "wall_seconds")

    def times_less_cpu(self, other: str) -> float | None:
        """The same by CPU time, which other programs on the machine do not stretch."""
        return self._ratio(other, "cpu_seconds")

    @property
    def over_baseline_bytes(self) -> int:
        """Capture's peak memory beyond that of a process that only loaded the table."""
        return self.contenders["capture"].peak_bytes - self.contenders["load_table"].peak_bytes

    def _ratio(self, other: str, figure: str) -> float | None:
        if other not in self.contenders:
            return None
        ratio: float = getattr(self.contenders[other], figure) / getattr(self.contenders["capture"], figure)
        return ratio
