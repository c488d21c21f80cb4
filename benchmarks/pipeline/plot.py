"""The curves: over the days of lookback, and over the share of late rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from benchmarks.pipeline.results import Point, Results

LOOKBACK, OURS, RATIO = "#c44e52", "#1f77b4", "#555555"


def draw(results: Results, path: Path) -> None:
    """Wall time of both, and how many times less ours is."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (days, late) = plt.subplots(ncols=2, figsize=(10, 4.4), layout="constrained")
    ratio = _curve(days, [point.days for point in results.curves.by_days], results.curves.by_days)
    days.set(xlabel="days looked back", title=f"late rows: {results.shape['late']:.0%} of what arrives")
    _curve(late, _percent(results), results.curves.by_late)
    late.set(xlabel="late rows, % of what arrives", title=f"{results.curves.by_late[0].days} days looked back")
    for axes, places in ((days, [point.days for point in results.curves.by_days]), (late, _percent(results))):
        axes.set_xticks(places)
    handles = [*days.get_lines(), *ratio.get_lines()]
    figure.legend(
        handles, [str(line.get_label()) for line in handles], frameon=False, loc="outside lower center", ncols=3
    )
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _percent(results: Results) -> list[float]:
    return [round(point.late * 100, 1) for point in results.curves.by_late]


def _curve(axes: Axes, places: Sequence[float], points: Sequence[Point]) -> Axes:
    """The axes of the ratio."""
    walls = {
        "lookback, INSERT OVERWRITE": (LOOKBACK, "s", [point.lookback.wall_seconds for point in points]),
        "capture, MERGE, commit": (OURS, "o", [point.capture.wall_seconds for point in points]),
    }
    for label, (color, marker, seconds) in walls.items():
        axes.plot(places, seconds, color=color, marker=marker, label=label)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("wall seconds of both stages")
    axes.grid(visible=True, alpha=0.25)
    ratio: Axes = axes.twinx()
    times = [point.lookback.wall_seconds / point.capture.wall_seconds for point in points]
    ratio.plot(places, times, color=RATIO, linestyle=":", marker=".", label="times less (right axis)")
    ratio.set_ylim(bottom=0, top=max(times) * 1.5)
    ratio.set_ylabel("times less")
    return ratio
