"""What the results look like in Markdown: the page's tables and the summary's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.pipeline.figures import figures
from benchmarks.pipeline.results import STAGES
from benchmarks.pipeline.shape import RELEASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from benchmarks.pipeline.meter import Cost
    from benchmarks.pipeline.results import Curves, Line, Point, Results

BEGIN: Final = "<!-- written by make bench-pipeline, from here -->"
END: Final = "<!-- to here, by make bench-pipeline -->"

HEADER: Final = (
    "stage", "wall", "CPU", "read", "written", "rows read", "rows written", "shuffled", "peak memory", "targets",
)  # fmt: skip


def write_into(page: Path, text: str) -> None:
    """Replace what stands between the two comments."""
    old = page.read_text()
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page.name} has no place for the results; restore its two comments, {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def written_in(page: Path) -> str:
    """What stands between the two comments."""
    return page.read_text().partition(BEGIN)[2].partition(END)[0].strip()


def whole_page(results: Results) -> str:
    """Everything between the page's comments."""
    parts = [
        "## The table",
        _how_it_was_made(results),
        "\n".join(table(("contender", *HEADER), _rows(results.lines))),
        "## What was to be reached",
        "\n".join(table(("", "wanted", "found", ""), _reached(results.lines))),
        "## How busy the two cores were",
        "\n".join(table(("both stages", "both cores", "one of them", "none"), _busy(results.lines))),
        "## Days of lookback",
        "\n".join(_curve("days", results.curves.by_days, lambda point: str(point.days))),
        "## Share of late rows",
        f"Looking back {results.curves.by_late[0].days} days. {_when(results.curves)}",
        "\n".join(_curve("late", results.curves.by_late, lambda point: f"{point.late:.0%}")),
        "## What a stream of stage 1's target gives",
        "\n".join(_remarks(results.lines)),
    ]
    return "\n\n".join(parts) + "\n"


def excerpt(results: Results) -> str:
    """Both stages only."""
    header = ("both stages", "wall", "CPU", "read", "peak memory", "targets")
    rows = [
        (
            line.title,
            seconds(line.both.wall_seconds),
            seconds(line.both.cpu_seconds),
            megabytes(line.both.read_bytes),
            megabytes(line.both.peak_bytes),
            _targets(line),
        )
        for line in results.lines
    ]
    return "\n".join([*table(header, rows), "", _how_it_was_made(results)]) + "\n"


def printed(lines: Sequence[Line]) -> str:
    """For a terminal."""
    rows = [("contender", *HEADER), *_rows(lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """In Markdown."""
    return ["| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *rows)]


def seconds(value: float) -> str:
    """With one digit after the point."""
    return f"{value:,.1f} s"


def megabytes(value: float) -> str:
    """Decimal."""
    return f"{value / 1e6:,.1f} MB" if value < 1e8 else f"{value / 1e6:,.0f} MB"  # noqa: PLR2004 - three digits


def _how_it_was_made(results: Results) -> str:
    about = results.circumstances
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    rounds = "one round" if about["rounds"] == 1 else f"medians of {about['rounds']} rounds"
    if about["turns"] > 1:
        rounds = f"{rounds}, in which (a) and (d) ran once and the others {about['turns']} times in turns (medians)"
    shape = results.shape
    return (
        f"Measured on {about['date']} by `{about['command']}` on {about['machine']}, {rounds}, with {versions}: "
        f"{results.events:,} events of {shape['days']} days and a new one, of which {results.arrived:,} have just "
        f"arrived, {shape['late']:.0%} of these late."
    )


def _when(curves: Curves) -> str:
    older = "" if curves.release == RELEASE else ", in an older shape of the data"
    return f"Both curves were measured on {curves.date} at scale {curves.scale:g}{older}."


def _rows(lines: Iterable[Line]) -> Iterable[tuple[str, ...]]:
    for line in lines:
        for stage, cost in line.costs.items():
            yield (line.title, STAGES[stage], *_cells(cost), _targets(line) if stage == "both" else "")


def _cells(cost: Cost) -> tuple[str, ...]:
    return (
        seconds(cost.wall_seconds),
        seconds(cost.cpu_seconds),
        megabytes(cost.read_bytes),
        megabytes(cost.written_bytes),
        f"{cost.read_rows:,.0f}",
        f"{cost.written_rows:,.0f}",
        megabytes(cost.shuffled_bytes),
        megabytes(cost.peak_bytes),
    )


def _targets(line: Line) -> str:
    return "identical" if line.is_identical else f"**{line.differing_rows:,} rows differ**"


def _reached(lines: Sequence[Line]) -> Iterable[tuple[str, ...]]:
    for figure in figures(lines):
        yield figure.what, figure.wanted, figure.found, "reached" if figure.is_reached else "**not reached**"


def _busy(lines: Sequence[Line]) -> Iterable[tuple[str, ...]]:
    for line in lines:
        cost = line.both
        both = cost.wall_seconds - cost.one_core_seconds - cost.idle_seconds
        yield line.title, seconds(both), seconds(cost.one_core_seconds), seconds(cost.idle_seconds)


def _curve(name: str, points: Sequence[Point], label: Callable[[Point], str]) -> list[str]:
    header = (name, "(a) wall", "(b) wall", "times less", "(a) CPU", "(b) CPU", "(a) read", "(b) read", "targets")
    rows = [
        (
            label(point),
            seconds(point.lookback.wall_seconds),
            seconds(point.capture.wall_seconds),
            f"{point.lookback.wall_seconds / point.capture.wall_seconds:.1f}",
            seconds(point.lookback.cpu_seconds),
            seconds(point.capture.cpu_seconds),
            megabytes(point.lookback.read_bytes),
            megabytes(point.capture.read_bytes),
            "identical" if point.is_identical else "**differ**",
        )
        for point in points
    ]
    return table(header, rows)


def _remarks(lines: Iterable[Line]) -> Iterable[str]:
    for line in lines:
        if line.name == "streaming":
            for what, found in line.remarks.items():
                yield f"- {what}: `{found}`"
