"""Capture side by side with the published code on Iceberg's Java API, and with PyIceberg's own means.

    python -m benchmarks.capture --publish     # everything: an hour or two, 10 GB of disk, a JVM of 12 GB
    python -m benchmarks.capture --cases pure:100000:100 merged:10000:100:3 --rounds 5
    python -m benchmarks.capture --histories   # little captured from a long history, beside PyIceberg's load_table
    python -m benchmarks.capture --quick       # a minute or two; fails when a ratio is lost

A case is ``layout:files:snapshots``, optionally ``:format version`` (2). Contenders take turns, so that a slow moment
of the machine hits all of them, and each runs in a process of its own: this package in a fresh one each time, imports
not counted; the Java program in one JVM whose first runs do not count. Every run must capture the right number of
files and rows, or there is no result.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import histories, quick
from benchmarks.contenders import ContenderError, Java, Python
from benchmarks.generator import generate
from benchmarks.measurements import Case, Run, Typical
from benchmarks.report import history_table, table
from benchmarks.results import PUBLISHED, Results, circumstances
from benchmarks.shapes import LAYOUTS, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = ("1000:10", "10000:100", "100000:100", "1000000:1000")
CASES: Final = (
    *(f"{layout}:{size}" for layout in LAYOUTS for size in SIZES),
    # As many files in fewer and in more snapshots, and what format v3 adds.
    "pure:100000:10",
    "pure:100000:1000",
    "pure:100000:100:3",
    "merged:100000:100:3",
)
WARM_UP: Final = Shape(files=10_000, snapshots=100)
PYICEBERG_UP_TO: Final = 10_000
"""Beyond, one run takes minutes."""
PATIENCE_SECONDS: Final = 30
"""A contender whose run takes longer runs but once: the others gain nothing by its second."""


def shape_of(case: str) -> Shape:
    """Read ``layout:files:snapshots[:version]``."""
    layout, files, snapshots, *version = case.split(":")
    if layout not in LAYOUTS:
        raise argparse.ArgumentTypeError(f"{layout!r} is none of {', '.join(LAYOUTS)}")
    return Shape(
        layout=layout, files=int(files), snapshots=int(snapshots), format_version=int(version[0]) if version else 2
    )


def compare(shape: Shape, *, rounds: int, without: Sequence[str], java_heap: str) -> Case:
    """All contenders on one table, in turns."""
    made, found = generate(shape), circumstances()
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
                if all(run.wall_seconds < PATIENCE_SECONDS for run in runs[contender.name]):
                    runs[contender.name].append(contender.run(made))
    typical = {name: Typical.of(some) for name, some in runs.items()}
    return Case(shape=shape.as_dict(), name=shape.name, contenders=typical, circumstances=found)


def warm_up(java: Java, shape: Shape) -> None:
    """Let the JVM's compiler see the code often enough; on smaller tables alone where one run takes a minute."""
    smaller = generate(WARM_UP)
    for _ in range(4):
        java.run(smaller)
    if shape.files <= 10 * WARM_UP.files:
        java.run(generate(shape))


def main() -> None:
    options = _options()
    results = Results.read(PUBLISHED) if options.publish else Results()
    path = PUBLISHED if options.publish else options.json
    try:
        if options.quick:
            _quick(options)
            return
        for shape in options.cases:
            print(f"{shape.name} …", file=sys.stderr)
            case = compare(shape, rounds=options.rounds, without=options.without, java_heap=options.java_heap)
            results.cases[case.name] = case
            print(table([case]), file=sys.stderr)
            if path:  # after each case: an hour's work is not lost with the last minute's
                results.write(path)
        if options.histories:
            found = histories.measure((histories.TABLE, histories.TWICE_THE_TABLE), options.rounds)
            results.histories = {case.name: case for case in found}
            if path:
                results.write(path)
    except ContenderError as error:
        raise SystemExit(f"bench-capture: {error}") from error
    print(table(list(results.cases.values())))
    print(history_table(list(results.histories.values())))
    if options.publish:
        from benchmarks.publish import publish

        publish(results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", type=shape_of, help="which tables; all that the documentation shows")
    parser.add_argument("--histories", action="store_true", help="measure long histories (with --cases: these too)")
    parser.add_argument("--quick", action="store_true", help="two small cases and a history; fail if a ratio is lost")
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many rounds counts")
    parser.add_argument("--without", nargs="+", default=[], choices=("java", "pyiceberg"))
    parser.add_argument("--java-heap", default="12g", help="the most memory that the JVM may take")
    parser.add_argument("--json", type=Path, help="write the results here too")
    parser.add_argument("--publish", action="store_true", help="put the results into the documentation, and draw them")
    options = parser.parse_args()
    if options.cases is None:
        options.cases = [] if options.histories else [shape_of(case) for case in CASES]
        options.histories = True
    return options


def _quick(options: argparse.Namespace) -> None:
    shapes = [shape_of(case) for case in quick.FLOORS]
    cases = [compare(shape, rounds=3, without=["pyiceberg"], java_heap=options.java_heap) for shape in shapes]
    long = histories.measure([histories.SMALL_TABLE], rounds=5)
    print(table(cases))
    print(history_table(long))
    floors = dict(zip((shape.name for shape in shapes), quick.FLOORS.values(), strict=True))
    if lost := [*quick.lost_ratios(cases, floors), *quick.lost_histories(long)]:
        raise SystemExit("bench-capture: " + "; ".join(lost))


if __name__ == "__main__":
    main()
