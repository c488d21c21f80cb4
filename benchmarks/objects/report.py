"""What was measured on an object store: its table, the floor under it, and the targets above it."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.iceberg.storage.requests import AT_ONCE_DEFAULT
from benchmarks.publish import PAGE, write_section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from benchmarks.objects.store import Cost

HEADER: Final = (
    "delay",
    "manifests",
    "operation",
    "by",
    "seconds",
    "at least",
    "requests",
    "at least",
    "most at once",
    "one by one",
    "times faster",
)
_KEYS_A_REQUEST: Final = 1_000
_OWN_FILES: Final = 2
"""A manifest list and a metadata file."""

FLOORS: Final[Mapping[str, Callable[[int], tuple[int, int]]]] = {
    "poll": lambda _: (1, 1),
    "capture": lambda manifests: (manifests + 5, math.ceil(manifests / AT_ONCE_DEFAULT) + 4),
    "drop": lambda manifests: (1 + _thousands(manifests), 2),
    "gc": lambda manifests: (2 * _thousands(manifests), _thousands(manifests) + 1),
}
"""The requests that nobody could avoid, and how many of them wait for one another.

poll      the table's metadata is read
capture   and its manifest list; each manifest is copied; a manifest list and a metadata file are written, both at once;
          the catalog reads what it registers
drop      metadata is read, and 1,000 files are deleted by one request, all of these at once
gc        1,000 files are listed by one request, each after the one before, and deleted likewise
"""

BEYOND_FLOOR: Final = {"poll": 1, "capture": 5, "drop": 8, "gc": 8}
"""Requests that clients make and we cannot help: pyarrow looks up the size of each file that it reads, and whether a
folder or file exists that it deletes, and then writes an empty object in place of its parent; the sizes of what was
copied are listed."""
_DELAY_OF_TARGETS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One operation by one client."""

    delay_ms: float
    manifests: int
    operation: str
    by: str
    """The client; or ``java`` for the published code."""
    cost: Cost
    request_seconds: float
    """What one request took in the same run, to a client that waits for it."""

    @property
    def floor(self) -> tuple[int, int]:
        """The requests that cannot be avoided, and how many of them follow one another."""
        return FLOORS[self.operation](self.manifests)

    @property
    def one_by_one(self) -> float:
        """Seconds for a request a manifest, one after the other."""
        return self.request_seconds * self.manifests

    @property
    def cells(self) -> tuple[str, ...]:
        """Of the table."""
        requests, depth = self.floor
        return (
            f"{self.delay_ms:.0f} ms",
            f"{self.manifests:,}",
            self.operation,
            "published code" if self.by == "java" else self.by,
            f"{self.cost.seconds:.2f}",
            f"{depth * self.request_seconds:.2f}",
            f"{self.cost.requests:,}",
            f"{requests:,}",
            str(self.cost.most_at_once),
            f"{self.one_by_one:.1f}",
            f"{self.one_by_one / self.cost.seconds:.1f}",
        )

    @property
    def line(self) -> str:
        """Of the table."""
        return "| " + " | ".join(self.cells) + " |"


def table(found: Iterable[Measured]) -> str:
    """All of it in Markdown."""
    alignments = "|--:|--:|---|---|--:|--:|--:|--:|--:|--:|--:|"
    return "\n".join(["| " + " | ".join(HEADER) + " |", alignments, *(measured.line for measured in found)])


def lost(found: Sequence[Measured]) -> list[str]:
    """What should hold and does not."""
    return [*_needless(found), *_late(found), *_slower_than_java(found)]


def _needless(found: Sequence[Measured]) -> Iterable[str]:
    for each in found:
        most = each.floor[0] + BEYOND_FLOOR[each.operation] + 2 * (each.manifests // _KEYS_A_REQUEST)
        if each.by != "java" and each.cost.requests > most:
            yield f"LOST: {_name(each)} took {each.cost.requests:,} requests, not {most:,} at most"


def _late(found: Sequence[Measured]) -> Iterable[str]:
    for each in found:
        most = _seconds_allowed(each)
        if most is not None and each.cost.seconds > most:
            yield f"LOST: {_name(each)} took {each.cost.seconds:.2f} s, not {most:.2f} s at most"


def _seconds_allowed(each: Measured) -> float | None:
    if each.delay_ms != _DELAY_OF_TARGETS or each.by == "java":
        return None
    targets = {
        (300, "capture"): each.one_by_one / 10 + 0.5,
        (300, "drop"): each.one_by_one / 20 + 0.5,
        (1_000, "capture"): 3.0,
        (1_000, "drop"): 1.5,
    }
    return targets.get((each.manifests, each.operation))


def _slower_than_java(found: Sequence[Measured]) -> Iterable[str]:
    for java in (each for each in found if each.by == "java" and each.manifests >= 1_000):  # noqa: PLR2004 - the target
        for ours in found:
            same = (ours.delay_ms, ours.manifests, ours.operation) == (java.delay_ms, java.manifests, "capture")
            if same and ours.by != "java" and java.cost.seconds < 20 * ours.cost.seconds:
                times = java.cost.seconds / ours.cost.seconds
                yield f"LOST: {_name(ours)} is {times:.1f} times faster than the published code, not 20"


def _name(each: Measured) -> str:
    return f"{each.operation} of {each.manifests:,} manifests by {each.by} at {each.delay_ms:.0f} ms"


def _thousands(manifests: int) -> int:
    return math.ceil((manifests + _OWN_FILES) / _KEYS_A_REQUEST)


def publish(found: Sequence[Measured]) -> None:
    """Rewrite the table of the page."""
    load = os.getloadavg()[1]
    content = f"{table(found)}\n\nMeasured on {time.strftime('%Y-%m-%d')}, load average {load:.1f} at the end."
    write_section(PAGE, "objects", content)
