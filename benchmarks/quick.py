"""The small run of continuous integration: what must not get slower, with room for a busy machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.histories import Cost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.measurements import Case

FLOORS: Final = {"pure:20000:20": 20.0, "merged:10000:20": 1.0}
"""How many times faster than the warm Java program capture must be."""


def lost_ratios(cases: Sequence[Case], floors: Mapping[str, float]) -> list[str]:
    """Which floors were missed by wall and by CPU time alike: other programs stretch the first more than the second."""
    lost = []
    for case in cases:
        found = max(case.times_faster("java") or 0, case.times_less_cpu("java") or 0)
        if found < floors[case.name]:
            lost.append(f"{case.name}: {found:.1f} times faster than the Java program, not {floors[case.name]:.1f}")
    return lost


def lost_histories(cases: Sequence[Case]) -> list[str]:
    """Which captures from a long history cost more than they may, by wall and by CPU time."""
    lost = []
    for case in cases:
        wall, cpu = Cost.by_wall(case), Cost.by_cpu(case)
        if all(cost.capture_seconds > cost.allowed_seconds for cost in (wall, cpu)):
            lost.append(
                f"{case.name}: {cpu.capture_seconds * 1000:.0f} ms of CPU, with {cpu.allowed_seconds * 1000:.0f} ms "
                f"allowed beside a load_table of {cpu.load_seconds * 1000:.0f} ms"
            )
    return lost
