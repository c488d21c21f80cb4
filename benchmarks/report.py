"""Results for people: a table in Markdown, and a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.histories import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measurements import Case

HEADER: Final = (
    "manifests",
    "files",
    "snapshots",
    "capture",
    "its CPU",
    "Java, warm",
    "its CPU",
    "times faster",
    "by CPU time",
    "PyIceberg",
    "memory",
    "Java's",
    "read",
    "written",
)


def table(cases: Sequence[Case]) -> str:
    """One line a case."""
    lines = [HEADER, tuple("---" for _ in HEADER), *(row(case) for case in cases)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def row(case: Case) -> tuple[str, ...]:
    """One case's cells."""
    shape, capture = case.shape, case.contenders["capture"]
    version = "" if shape["format_version"] == 2 else f", v{shape['format_version']}"  # noqa: PLR2004 - the usual one
    java, pyiceberg = (case.contenders.get(name) for name in ("java", "pyiceberg"))
    return (
        f"{shape['layout']}{version}",
        f"{shape['files']:,}",
        f"{shape['snapshots']:,}",
        seconds(capture.wall_seconds),
        seconds(capture.cpu_seconds),
        seconds(java.wall_seconds if java else None),
        seconds(java.cpu_seconds if java else None),
        times(case.times_faster("java")),
        times(case.times_less_cpu("java")),
        seconds(pyiceberg.wall_seconds if pyiceberg else None),
        megabytes(case.over_baseline_bytes),
        megabytes(java.peak_bytes if java else None),
        megabytes(capture.read_bytes),
        megabytes(capture.written_bytes),
    )


def seconds(value: float | None) -> str:
    """Two or three digits that mean something."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"  # noqa: PLR2004 - three digits


def times(ratio: float | None) -> str:
    """A ratio; one below 10 with a digit after the point."""
    if ratio is None:
        return "-"
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"  # noqa: PLR2004 - two digits


def megabytes(count: int | None) -> str:
    """Decimal, as disks are sold."""
    return "-" if count is None else f"{count / 1e6:.1f} MB" if abs(count) < 1e7 else f"{count / 1e6:.0f} MB"  # noqa: PLR2004


HISTORY_HEADER: Final = (
    "table's files",
    "table's snapshots",
    "captured files",
    "`load_table`",
    "capture",
    "may take",
    "`load_table`, CPU",
    "capture, CPU",
    "may take, CPU",
)


def history_table(cases: Sequence[Case]) -> str:
    """One line a table."""
    lines = [HISTORY_HEADER, tuple("---" for _ in HISTORY_HEADER), *(history_row(case) for case in cases)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def history_row(case: Case) -> tuple[str, ...]:
    """One table's cells."""
    shape = case.shape
    costs = [
        f"{value * 1000:.0f} ms"
        for cost in (Cost.by_wall(case), Cost.by_cpu(case))
        for value in (cost.load_seconds, cost.capture_seconds, cost.allowed_seconds)
    ]
    sizes = (shape["files"] + shape["files_before"], shape["snapshots"] + shape["snapshots_before"], shape["files"])
    return (*(f"{size:,}" for size in sizes), *costs)


def growth(cases: Sequence[Case]) -> str:
    """What twice the table adds to both."""
    if len(cases) != 2:  # noqa: PLR2004 - a table and its double
        return "Not measured."
    before, after = (Cost.by_cpu(case) for case in cases)
    beyond = before.growth_beyond_load(after)
    return (
        f"With twice the files and twice the snapshots before the same range, `load_table` takes "
        f"{(after.load_seconds - before.load_seconds) * 1000:.0f} ms of CPU more and capture "
        f"{(after.capture_seconds - before.capture_seconds) * 1000:.0f} ms: "
        + (
            f"beyond what loading grows by, {beyond:.0%} of what capture took."
            if beyond > 0
            else "no more than loading grows by."
        )
    )


def measured_on(cases: Sequence[Case]) -> str:
    """When and where, and how busy the machine was with other programs."""
    lines = []
    for key in ("date", "cpu", "cores", "python", "java", "pyiceberg"):
        values = sorted({str(case.circumstances[key]) for case in cases})
        lines.append((key, ", ".join(values)))
    loads = [float(case.circumstances["load_average"]) for case in cases]
    lines.append(("load average before a case", f"{min(loads):.1f} to {max(loads):.1f}" if loads else "-"))
    return "\n".join(["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in lines)])
