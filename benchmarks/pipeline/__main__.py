"""Two stages of a playback pipeline in five ways on the same generated data.

    python -m benchmarks.pipeline                      one round of all, printed
    python -m benchmarks.pipeline --publish --turns 3  and the curves, into results.json, its page and the summary
    python -m benchmarks.pipeline --quick              small: fails if targets differ, or if too little is saved
    python -m benchmarks.pipeline --only capture,exact --scale 0.1 --days 7 --late 0.1

Generated data is kept in .cache/pipeline, by scale and seed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.pipeline.contenders import BY_NAME
from benchmarks.pipeline.figures import figures, small_run_failures
from benchmarks.pipeline.page import excerpt, printed, whole_page, write_into
from benchmarks.pipeline.plot import draw
from benchmarks.pipeline.results import PUBLISHED, Curves, Point, Results, circumstances, lines_of, today
from benchmarks.pipeline.run import measured_round
from benchmarks.pipeline.shape import RELEASE, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.pipeline.results import Line
    from benchmarks.pipeline.run import Round

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "pipeline"
SUMMARY: Final = ROOT / "docs" / "explanation" / "when-to-use-it.md"
PAGE: Final = ROOT / "docs" / "explanation" / "pipeline.md"
PLOT: Final = PAGE.with_suffix(".png")

QUICK: Final = Shape(scale=0.1, days=10)
QUICK_CONTENDERS: Final = ("lookback", "capture")
AS_MAKE_GIVES_IT: Final = "--publish --turns 3"
CURVE_DAYS: Final = (3, 7, 14)
CURVE_LATE: Final = (0.0, 0.03, 0.1, 0.3)
DAYS_OF_LATE: Final = 7
"""The curve over late rows looks back half as long as the other ends, or it would take most of an hour."""
CURVE_SCALE: Final = 0.3
"""Curves show which way things go, in many rounds: on less data than the table, or they would take hours."""


def main() -> None:
    """Measure, print, write."""
    options = _options()
    shape = Shape(scale=options.scale, days=options.days, late=options.late, seed=options.seed)
    names = list(BY_NAME)
    if options.quick:
        shape, names = replace(QUICK, seed=options.seed), list(QUICK_CONTENDERS)
    if options.only:
        names = options.only.split(",")
    numbers = range(1, options.rounds + 1)
    rounds = [_round(shape, names, number, options) for number in numbers]
    lines = lines_of(rounds)
    print(printed(lines))
    if options.quick:
        _end_with(small_run_failures(lines))
    elif options.publish:
        _publish(shape, lines, rounds, options)
    if {line.name for line in lines} > {"lookback", "capture"}:
        for one in figures(lines):
            print(f"{one.what}: {one.found}, wanted {one.wanted}{'' if one.is_reached else ' (NOT REACHED)'}")
    _end_with(
        [f"{line.title} differs from (a) in {line.differing_rows} rows" for line in lines if not line.is_identical]
    )


def _round(shape: Shape, names: Sequence[str], number: int, options: argparse.Namespace) -> Round:
    return measured_round(shape, names, CACHE, number=number, turns=options.turns, resume=options.resume)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=2.0, help="1 is some 600,000 events a day")
    parser.add_argument("--days", type=int, default=14, help="days before the new one, and of lookback")
    parser.add_argument("--late", type=float, default=0.03, help="share of late rows among those that arrive")
    parser.add_argument("--rounds", type=int, default=1, help="medians are taken")
    parser.add_argument("--turns", type=int, default=1, help="so many of (b), (c) and (e) in each round; medians too")
    parser.add_argument("--seed", type=int, default=1, help="which rows")
    parser.add_argument("--only", default="", help=f"some of {', '.join(BY_NAME)}; the lookback always runs")
    parser.add_argument("--quick", action="store_true", help="a small run with a verdict")
    parser.add_argument("--publish", action="store_true", help="measure the curves too, and write the pages")
    parser.add_argument("--keep-curves", action="store_true", help="with --publish: the curves stay as they are")
    parser.add_argument(
        "--resume", action="store_true", help="take the rounds that a run which was stopped has measured"
    )
    options = parser.parse_args()
    if unknown := set(filter(None, options.only.split(","))) - set(BY_NAME):
        parser.error(f"no contender is called {', '.join(sorted(unknown))}")
    if options.publish and (options.only or options.quick):
        parser.error("what is published is the whole: leave out --only and --quick")
    return options


def _publish(shape: Shape, lines: Sequence[Line], rounds: Sequence[Round], options: argparse.Namespace) -> None:
    curves = _kept_curves() if options.keep_curves else _curves(shape, resume=options.resume)
    results = Results(
        circumstances=circumstances(_command(), len(rounds), options.turns),
        shape=asdict(shape),
        events=rounds[0].events,
        arrived=rounds[0].arrived,
        lines=tuple(lines),
        curves=curves,
    )
    results.write(PUBLISHED)
    write_pages(results)


def _kept_curves() -> Curves:
    """As they were measured last; they say when, and on what."""
    return Results.read(PUBLISHED).curves


def _curves(shape: Shape, *, resume: bool) -> Curves:
    shape = replace(shape, scale=CURVE_SCALE)
    found: dict[Shape, Point] = {}
    wanted = {
        "days": [replace(shape, days=days) for days in CURVE_DAYS],
        "late": [replace(shape, days=DAYS_OF_LATE, late=late) for late in CURVE_LATE],
    }
    for one in (*wanted["days"], *wanted["late"]):
        # What has been measured already is not measured again.
        if one not in found:
            round_ = measured_round(one, ["lookback", "capture"], CACHE, resume=resume)
            found[one] = Point.of(one, lines_of([round_]))
    return Curves(
        date=today(),
        scale=CURVE_SCALE,
        release=RELEASE,
        by_days=tuple(found[one] for one in wanted["days"]),
        by_late=tuple(found[one] for one in wanted["late"]),
    )


def write_pages(results: Results) -> None:
    """From the document alone."""
    write_into(PAGE, whole_page(results))
    write_into(SUMMARY, excerpt(results))
    draw(results, PLOT)


def _command() -> str:
    given = " ".join(sys.argv[1:])
    return "make bench-pipeline" if given == AS_MAKE_GIVES_IT else f"make bench-pipeline PIPELINE_ARGS='{given}'"


def _end_with(failures: Sequence[str]) -> None:
    if failures:
        sys.exit("; ".join(failures))


if __name__ == "__main__":
    main()
