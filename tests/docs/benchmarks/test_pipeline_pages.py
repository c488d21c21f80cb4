"""The pages about the pipeline show what was measured, by the contenders and on the shapes that there are."""

import pytest

from benchmarks.pipeline.__main__ import CURVE_DAYS, CURVE_LATE, PAGE, PLOT, SUMMARY
from benchmarks.pipeline.contenders import CONTENDERS
from benchmarks.pipeline.figures import figures
from benchmarks.pipeline.page import excerpt, whole_page, written_in
from benchmarks.pipeline.results import PUBLISHED, Results
from tests.kit.pages import ROOT, table

RESULTS = Results.read(PUBLISHED)


@pytest.mark.parametrize(("page", "text"), [(PAGE, whole_page), (SUMMARY, excerpt)])
def test_the_pages_show_what_was_measured(page, text):
    """Nobody has touched up the tables."""
    assert written_in(page) == text(RESULTS).strip()


def test_the_measurement_is_of_all_contenders_and_of_whole_curves():
    assert [line.title for line in RESULTS.lines] == [entry.title for entry in CONTENDERS]
    assert tuple(point.days for point in RESULTS.curves.by_days) == CURVE_DAYS
    assert tuple(point.late for point in RESULTS.curves.by_late) == CURVE_LATE
    assert PLOT.stat().st_size > 10_000


def test_every_target_was_the_lookbacks():
    """What was measured of a contender that is wrong would say nothing."""
    assert [line.name for line in RESULTS.lines if not line.is_identical] == []
    assert all(point.is_identical for point in (*RESULTS.curves.by_days, *RESULTS.curves.by_late))


def test_the_lookback_was_long_enough_for_its_figures():
    """The issue of fixed costs: below two minutes they decide."""
    lookback = next(line for line in RESULTS.lines if line.name == "lookback")
    assert lookback.both.wall_seconds >= 120


def test_a_figure_that_was_missed_is_explained():
    missed = [figure.what for figure in figures(RESULTS.lines) if not figure.is_reached]
    page = PAGE.read_text()
    assert not missed or "## What was not reached, and why" in page


def test_the_page_explains_every_contender():
    explained = [row[0] for row in table("docs/explanation/pipeline.md", "The contenders").rows]
    assert [name.split(")")[0] for name in explained] == [entry.title.split(")")[0] for entry in CONTENDERS]


def test_the_readme_says_what_was_measured():
    """It has one sentence of it, and no table that would be rewritten."""
    seconds = {line.name: round(line.both.wall_seconds) for line in RESULTS.lines}
    said = f"[{seconds['capture']} seconds in place of {seconds['lookback']}](docs/explanation/pipeline.md)"
    assert said in (ROOT / "README.md").read_text()
