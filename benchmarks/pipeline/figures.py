"""What was to be reached, and whether it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.pipeline.results import Line

TIMES_FASTER: Final = 8.0
SHARE_SAVED: Final = 0.8
OVER_THE_BOUND: Final = 0.15
BELOW_THE_BOUND: Final = 0.05
"""More than chance: a bound that is passed by so much was no bound, and proves nothing."""

QUICK_SHARE_READ: Final = 0.25
"""Of a small run a part is what a Java machine reads of its own classes, whatever it works on."""
QUICK_TIMES_FASTER: Final = 2.0
"""By wall or by CPU time: other programs stretch the first more than the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing to reach."""

    what: str
    wanted: str
    found: str
    is_reached: bool


def figures(lines: Sequence[Line]) -> list[Figure]:
    """Both stages of this package beside those of the others; whoever was left out is not held against it."""
    by_name = {line.name: line for line in lines}
    ours, lookback = by_name["capture"], by_name["lookback"]
    found = [
        _times("wall time beside (a)", lookback.both.wall_seconds / ours.both.wall_seconds, TIMES_FASTER),
        _saved("CPU time beside (a)", ours.both.cpu_seconds, lookback.both.cpu_seconds),
        _saved("bytes read beside (a)", ours.both.read_bytes, lookback.both.read_bytes),
    ]
    if "exact" in by_name:
        over = ours.both.wall_seconds / by_name["exact"].both.wall_seconds - 1
        found.append(_beside_the_bound(over))
    if "streaming" in by_name:
        over = ours.both.wall_seconds / by_name["streaming"].both.wall_seconds - 1
        found.append(_at_most("wall time beside (c)", over, 0.0))
    return [*found, _identical(ours)]


def small_run_failures(lines: Sequence[Line]) -> list[str]:
    """What continuous integration must not let pass."""
    by_name = {line.name: line for line in lines}
    ours, lookback = by_name["capture"], by_name["lookback"]
    failures = [
        f"{line.title} differs from (a) in {line.differing_rows} rows" for line in lines if not line.is_identical
    ]
    share = ours.both.read_bytes / lookback.both.read_bytes
    if share > QUICK_SHARE_READ:
        failures.append(f"this package read {share:.0%} of what (a) read, not {QUICK_SHARE_READ:.0%} or less")
    by_wall = lookback.both.wall_seconds / ours.both.wall_seconds
    by_cpu = lookback.both.cpu_seconds / ours.both.cpu_seconds
    if max(by_wall, by_cpu) < QUICK_TIMES_FASTER:
        failures.append(
            f"this package took {by_wall:.1f} times less wall and {by_cpu:.1f} times less CPU time than (a)"
        )
    return failures


def _times(what: str, found: float, wanted: float) -> Figure:
    return Figure(
        what=what, wanted=f"{wanted:g} times less", found=f"{found:.1f} times less", is_reached=found >= wanted
    )


def _saved(what: str, ours: float, theirs: float) -> Figure:
    saved = 1 - ours / theirs
    return Figure(
        what=what, wanted=f"{SHARE_SAVED:.0%} less", found=f"{saved:.1%} less", is_reached=saved >= SHARE_SAVED
    )


def _beside_the_bound(over: float) -> Figure:
    figure = _at_most("wall time beside (e)", over, OVER_THE_BOUND)
    if over >= -BELOW_THE_BOUND:
        return figure
    return replace(figure, found=f"{figure.found}: (e) is no bound here", is_reached=False)


def _at_most(what: str, over: float, allowed: float) -> Figure:
    wanted = f"{allowed:.0%} more at most" if allowed else "not more"
    found = f"{over:.1%} more" if over > 0 else f"{abs(over):.1%} less"
    return Figure(what=what, wanted=wanted, found=found, is_reached=over <= allowed)


def _identical(ours: Line) -> Figure:
    found = "identical" if ours.is_identical else f"{ours.differing_rows} rows differ"
    return Figure(what="both targets beside (a)'s", wanted="identical", found=found, is_reached=ours.is_identical)
