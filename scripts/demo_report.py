"""What the demo has measured, as a table, as a drawing for the terminal and as a picture."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date
    from pathlib import Path

BAR: Final = 36
"""Characters of the longest bar."""
PLAIN_COLOUR, INCREMENTAL_COLOUR = "#c44e52", "#1f77b4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one run of one DAG had to read of the source, and what it took."""

    rows: int
    size_bytes: int
    seconds: float
    """Of all its tasks, by the clock."""
    cpu_seconds: float
    """Of all processes of Airflow and Spark meanwhile: what else the machine does hardly shows in it."""

    def short(self) -> str:
        """In a line."""
        return f"{self.rows:>10,} rows {_megabytes(self.size_bytes):>9} {self.seconds:>6.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The same day by both DAGs."""

    day: date
    plain: Reading
    incremental: Reading


def _megabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"


MEASURES: Final[dict[str, tuple[Callable[[Reading], float], Callable[[float], str]]]] = {
    "rows read": (lambda reading: reading.rows, "{:,.0f}".format),
    "bytes read": (lambda reading: reading.size_bytes, _megabytes),
    "seconds": (lambda reading: reading.seconds, "{:,.1f}".format),
    "CPU seconds": (lambda reading: reading.cpu_seconds, "{:,.1f}".format),
}


def table(days: Sequence[Day]) -> str:
    """A line a day, narrow enough for any terminal."""
    shown = list(MEASURES)[:3]
    lines = [f"{'':10}" + "".join(f"{name:^22}" for name in shown)]
    lines.append(f"{'day':10}" + f"{'plain':>10}{'incremental':>12}" * len(shown))
    for day in days:
        cells = (
            f"{text(value(day.plain)):>10}{text(value(day.incremental)):>12}"
            for value, text in (MEASURES[name] for name in shown)
        )
        lines.append(f"{day.day!s:10}" + "".join(cells))
    return "\n".join(line.rstrip() for line in lines)


NOTES: Final = (
    "The incremental DAG has taken over from the plain one, with its target and its position. Rows and bytes are those "
    "of the data files that the query selects: for the plain DAG those that Iceberg plans for its window, for the "
    "incremental one those that were captured. Seconds are the durations of all tasks of a run, capture and commit "
    "included. CPU seconds are what all processes of Airflow and Spark used meanwhile; they tell more where other "
    "programs are busy."
)


def share(days: Sequence[Day]) -> str:
    """How much less."""
    parts = []
    for name, (value, text) in MEASURES.items():
        plain, incremental = (
            sum(value(reading) for reading in readings)
            for readings in zip(*((day.plain, day.incremental) for day in days), strict=True)
        )
        part = incremental / max(plain, 1e-9)
        parts.append(f"{part:.0%} of its {name.removesuffix(' read')} ({text(incremental)} of {text(plain)})")
    return f"The incremental DAG needed, of the plain one: {', '.join(parts)}."


def wrapped(text: str) -> str:
    """For the terminal that it is shown on."""
    return textwrap.fill(text, width=min(shutil.get_terminal_size().columns, 100))


def drawing(days: Sequence[Day]) -> str:
    """Bars for the terminal: a pair a day, for each measure."""
    lines = []
    for name in list(MEASURES)[:3]:
        value, shown = MEASURES[name]
        most = max(value(reading) for day in days for reading in (day.plain, day.incremental))
        lines.append(name)
        for day in days:
            for who, reading in (("plain", day.plain), ("incremental", day.incremental)):
                date = str(day.day) if who == "plain" else ""
                lines.append(f"  {date:10} {who:11} {bar(value(reading), most)} {shown(value(reading))}")
        lines.append("")
    return "\n".join(lines)


def bar(value: float, most: float) -> str:
    """At least a sliver: what was read is more than nothing."""
    eighths = max(round(BAR * 8 * value / most), 1) if value > 0 and most > 0 else 0
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def picture(days: Sequence[Day], path: Path) -> None:
    """The same as a PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = {"rows read, thousands": ("rows", 1e3), "bytes read, MB": ("size_bytes", 1e6), "seconds": ("seconds", 1)}
    figure, axes = plt.subplots(ncols=len(panels), figsize=(11, 4), layout="constrained")
    places = range(len(days))
    for axis, (title, (field, unit)) in zip(axes, panels.items(), strict=True):
        for shift, who, colour in ((-0.2, "plain", PLAIN_COLOUR), (0.2, "incremental", INCREMENTAL_COLOUR)):
            heights = [getattr(getattr(day, who), field) / unit for day in days]
            bars = axis.bar([place + shift for place in places], heights, width=0.4, color=colour, label=who)
            axis.bar_label(bars, fmt="{:,.0f}" if unit > 1 else "{:,.1f}", fontsize=8)
        axis.set_title(title, fontsize=11)
        axis.set_xticks(list(places), [f"{day.day:%b} {day.day.day}" for day in days])
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=2)
    figure.suptitle("A lookback DAG and its incremental twin over the same days", fontsize=13)
    figure.savefig(path, dpi=120)
    plt.close(figure)
