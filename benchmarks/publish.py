"""Put what was measured into the documentation: its tables, and the plot.

python -m benchmarks.publish     # from benchmarks/results.json as it is
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.report import growth, history_table, measured_on, table
from benchmarks.results import PUBLISHED, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.measurements import Case

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "explanation" / "speed.md"
PLOT: Final = ROOT / "docs" / "explanation" / "speed.png"

LAYOUTS: Final = {"pure": "-", "merged": "--"}
CONTENDERS: Final = {
    "java": ("Java API, warm", "#c44e52", "s"),
    "pyiceberg": ("PyIceberg", "#8172b2", "^"),
    "capture": ("capture", "#1f77b4", "o"),
}


def sections(results: Results) -> dict[str, str]:
    """What the page has between its markers, by their names."""
    cases, long = list(results.cases.values()), list(results.histories.values())
    return {
        "machine": measured_on([*cases, *long]),
        "cases": table(cases),
        "histories": f"{history_table(long)}\n\n{growth(long)}",
    }


def publish(results: Results) -> None:
    """Rewrite the page's measured parts and the plot."""
    for name, content in sections(results).items():
        write_section(PAGE, name, content)
    draw(list(results.cases.values()), PLOT)


def write_section(page: Path, name: str, content: str) -> None:
    """Rewrite one measured part of a page."""
    marked = re.compile(rf"(<!-- measured: {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
    text, replaced = marked.subn(lambda found: f"{found[1]}\n{content}\n{found[2]}", page.read_text())
    if replaced != 1:
        raise SystemExit(f"{page.name} has {replaced} places for {name}, not one; restore its markers")
    page.write_text(text)


def draw(cases: list[Case], path: Path) -> None:
    """CPU time over files, both on logarithmic scales; wall time would draw what else the machine was doing."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5.2), layout="constrained")
    for contender in CONTENDERS:
        for layout in LAYOUTS:
            _line(axes, cases, contender, layout)
    axes.set(xscale="log", yscale="log", xlabel="files in the range", ylabel="CPU seconds of all threads (median)")
    axes.set_title("Making a table of what was appended")
    axes.grid(visible=True, which="major", alpha=0.4)
    axes.grid(visible=True, which="minor", alpha=0.12)
    axes.legend(frameon=False)
    # Without the program's version in it, the same figures give the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _line(axes: Axes, cases: list[Case], contender: str, layout: str) -> None:
    label, color, marker = CONTENDERS[contender]
    points = sorted(
        (case.shape["files"], case.contenders[contender].cpu_seconds)
        for case in cases
        if contender in case.contenders and case.shape["layout"] == layout and is_on_the_line(case)
    )
    if points:
        files, seconds = zip(*points, strict=True)
        axes.plot(
            files,
            seconds,
            LAYOUTS[layout],
            color=color,
            marker=marker,
            markersize=5,
            label=f"{label}, {layout} manifests",
        )


def is_on_the_line(case: Case) -> bool:
    """One table for each size; the others vary something else."""
    from benchmarks.capture import SIZES

    return case.shape["format_version"] == 2 and f"{case.shape['files']}:{case.shape['snapshots']}" in SIZES  # noqa: PLR2004


if __name__ == "__main__":
    publish(Results.read(PUBLISHED))
