"""Capture side by side with the published code on Iceberg's Java API, and with PyIceberg's own means.

    python -m benchmarks.capture                      # all cases: about an hour, 8 GB of disk and a JVM of 12 GB
    python -m benchmarks.capture --cases pure:100000:100 merged:10000:100 --rounds 5
    python -m benchmarks.capture --quick              # a minute; fails when a ratio is lost

A case is ``layout:files:snapshots``, optionally ``:format version`` (2). Contenders take turns, so that a slow moment
of the machine hits all of them, and each runs in a process of its own: this package in a fresh one each time, imports
not counted; the Java program in one JVM whose first runs do not count.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.contenders import ContenderError, Java, Python
from benchmarks.generator import generate
from benchmarks.measurements import Case, Run, Typical
from benchmarks.report import table
from benchmarks.shapes import LAYOUTS, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES: Final = (
    "pure:1000:10",
    "pure:10000:100",
    "pure:100000:10",
    "pure:100000:100",
    "pure:100000:1000",
    "pure:1000000:1000",
    "half-merged:1000:10",
    "half-merged:10000:100",
    "half-merged:100000:100",
    "half-merged:1000000:1000",
    "merged:1000:10",
    "merged:10000:100",
    "merged:100000:100",
    "merged:1000000:1000",
)
QUICK: Final = {"pure:20000:20": 20.0, "merged:10000:20": 1.0}
"""What the quick run measures, and how many times faster than the Java program capture must be there."""
WARM_UP: Final = Shape(files=10_000, snapshots=100)
PYICEBERG_UP_TO: Final = 10_000


def shape_of(case: str) -> Shape:
    """Read ``layout:files:snapshots[:version]``."""
    layout, files, snapshots, *version = case.split(":")
    if layout not in LAYOUTS:
        raise argparse.ArgumentTypeError(f"{layout!r} is none of {', '.join(LAYOUTS)}")
    version_number = int(version[0]) if version else 2
    return Shape(layout=layout, files=int(files), snapshots=int(snapshots), format_version=version_number)


def compare(shape: Shape, *, rounds: int, without: Sequence[str], java_heap: str) -> Case:
    """All contenders on one table, in turns."""
    made = generate(shape)
    with ExitStack() as stack:
        contenders: list[Python | Java] = [Python("load_table"), Python("capture")]
        if "pyiceberg" not in without and shape.files <= PYICEBERG_UP_TO:
            contenders.append(Python("pyiceberg"))
        if "java" not in without:
            java = stack.enter_context(Java(java_heap))
            warm_up(java, shape)
            contenders.append(java)
        runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
        for _ in range(rounds):
            for contender in contenders:
                runs[contender.name].append(contender.run(made))
    typical = {name: Typical.of(some) for name, some in runs.items()}
    return Case(shape=shape.as_dict(), name=shape.name, contenders=typical)


def warm_up(java: Java, shape: Shape) -> None:
    """Let the compiler of the JVM see the code often enough; on a smaller table where that would take minutes."""
    smaller = generate(WARM_UP)
    for _ in range(3):
        java.run(smaller)
    java.run(generate(shape))


def lost_ratios(cases: Sequence[Case]) -> list[str]:
    """Which floors were missed, by wall and by CPU time: a busy machine stretches the first, a JVM's pauses both."""
    floors = {shape_of(case).name: floor for case, floor in QUICK.items()}
    lost = []
    for case in cases:
        found = max(case.times_faster("java") or 0, case.times_less_cpu("java") or 0)
        if found < floors[case.name]:
            lost.append(f"{case.name}: {found:.1f} times faster than the Java program, not {floors[case.name]:.1f}")
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", type=shape_of, default=[shape_of(case) for case in CASES])
    parser.add_argument("--quick", action="store_true", help="two small cases, and an error if a ratio is lost")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many rounds counts")
    parser.add_argument("--without", nargs="+", default=[], choices=("java", "pyiceberg"))
    parser.add_argument("--java-heap", default="12g", help="the most memory that the JVM may take")
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    if options.quick:
        options.cases, options.without = [shape_of(case) for case in QUICK], ["pyiceberg"]
    cases = []
    for shape in options.cases:
        print(f"{shape.name} …", file=sys.stderr)
        try:
            cases.append(compare(shape, rounds=options.rounds, without=options.without, java_heap=options.java_heap))
        except ContenderError as error:
            raise SystemExit(f"bench-capture: {error}") from error
    print(table(cases))
    if options.quick and (lost := lost_ratios(cases)):
        raise SystemExit("bench-capture: " + "; ".join(lost))
    if options.json:
        options.json.write_text(json.dumps([case.as_dict() for case in cases], indent=2) + "\n")


if __name__ == "__main__":
    main()
