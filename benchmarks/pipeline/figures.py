"""What was to be reached, and whether it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from benchmarks.pipeline.results import BOTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.pipeline.results import Line

TIMES_FASTER: Final = 10.5
"""What Netflix's talk tells of two such stages: one hour in place of ten and a half."""
SECOND_STAGE: Final = (0.4, 0.65)
"""What the lookback's second stage takes of its first: about half in the talk. A lighter one would hide there."""
SHARE_SAVED: Final = 0.85
OVER_THE_BOUND: Final = 0.10
CHANCE: Final = 0.05
"""A bound that is passed by more was no bound, and proves nothing."""

QUICK_SHARE_READ: Final = 0.25
"""Of a small run a part is what a Java machine reads of its own classes, whatever it works on."""
QUICK_TIMES_FASTER: Final = 2.0
"""Both stages, by wall or by CPU time: other programs stretch the first more than the second. Each is faster at all."""

BY_STAGE: Final = {"daily": "stage 1", "accounts": "stage 2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing to reach."""

    what: str
    wanted: str
    found: str
    is_reached: bool


def figures(lines: Sequence[Line]) -> list[Figure]:
    """This package beside the others, by stage and in both; whoever was left out is not held against it."""
    by_name = {line.name: line for line in lines}
    ours, lookback = by_name["capture"], by_name["lookback"]
    found = [
        _second_stage(lookback),
        _times("both: wall time beside (a)", lookback.both.wall_seconds / ours.both.wall_seconds, TIMES_FASTER),
        _saved("both: CPU time beside (a)", ours.both.cpu_seconds, lookback.both.cpu_seconds),
        _saved("both: bytes read beside (a)", ours.both.read_bytes, lookback.both.read_bytes),
    ]
    for stage, title in BY_STAGE.items():
        found.append(_at_most(f"{title}: wall time beside (a)", _over(ours, lookback, stage), 0.0))
        if "exact" in by_name:
            found.append(
                _at_most(f"{title}: wall time beside (e)", _over(ours, by_name["exact"], stage), OVER_THE_BOUND)
            )
    if "exact" in by_name:
        found.append(_bound(_over(ours, by_name["exact"], BOTH)))
    if "streaming" in by_name:
        found.extend(
            _at_most(f"{title}: wall time beside (c)", _over(ours, by_name["streaming"], stage), 0.0)
            for stage, title in (*BY_STAGE.items(), (BOTH, BOTH))
        )
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
    for stage, title in (*BY_STAGE.items(), (BOTH, BOTH)):
        by_wall = lookback.costs[stage].wall_seconds / ours.costs[stage].wall_seconds
        by_cpu = lookback.costs[stage].cpu_seconds / ours.costs[stage].cpu_seconds
        if max(by_wall, by_cpu) < (QUICK_TIMES_FASTER if stage == BOTH else 1):
            failures.append(f"{title}: {by_wall:.1f} times less wall and {by_cpu:.1f} times less CPU time than (a)")
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


def _over(ours: Line, theirs: Line, stage: str) -> float:
    """By which share of theirs ours took longer."""
    return ours.costs[stage].wall_seconds / theirs.costs[stage].wall_seconds - 1


def _second_stage(lookback: Line) -> Figure:
    daily, accounts = (lookback.costs[stage].wall_seconds for stage in BY_STAGE)
    least, most = SECOND_STAGE
    return Figure(
        what="stage 2 of (a) beside its stage 1",
        wanted=f"{least:.0%} to {most:.0%}",
        found=f"{accounts / daily:.0%}",
        is_reached=least <= accounts / daily <= most,
    )


def _bound(over: float) -> Figure:
    figure = _at_most("both: wall time beside (e)", over, OVER_THE_BOUND)
    if over >= -CHANCE:
        return figure
    return replace(figure, found=f"{figure.found}: (e) is not a bound here", is_reached=False)


def _at_most(what: str, over: float, allowed: float) -> Figure:
    wanted = f"{allowed:.0%} more at most" if allowed else "not more"
    found = f"{over:.1%} more" if over > 0 else f"{abs(over):.1%} less"
    return Figure(what=what, wanted=wanted, found=found, is_reached=over <= allowed)


def _identical(ours: Line) -> Figure:
    found = "identical" if ours.is_identical else f"{ours.differing_rows} rows differ"
    return Figure(what="both targets beside (a)'s", wanted="identical", found=found, is_reached=ours.is_identical)
