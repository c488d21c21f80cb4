"""What the documentation says was measured is what was measured, and the small run notices a loss."""

import dataclasses

import pytest

from benchmarks import quick
from benchmarks.capture import shape_of
from benchmarks.histories import SMALL_TABLE, Cost
from benchmarks.measurements import Case, Run, Typical
from benchmarks.publish import PAGE, PLOT, is_on_the_line, sections
from benchmarks.results import PUBLISHED, Results

RUN = Run(wall_seconds=1.0, cpu_seconds=1.0, peak_bytes=100, read_bytes=1000, written_bytes=None, files=10, records=100)


def case(shape, **seconds):
    """Contenders that took so many seconds of wall and of CPU time."""
    runs = {name: dataclasses.replace(RUN, wall_seconds=w, cpu_seconds=c) for name, (w, c) in seconds.items()}
    contenders = {name: Typical.of([run]) for name, run in runs.items()}
    return Case(shape=shape.as_dict(), name=shape.name, contenders=contenders, circumstances={})


def lost(**seconds):
    floor_of = {shape_of(name).name: floor for name, floor in quick.FLOORS.items()}
    shape = shape_of("pure:20000:20")
    assert floor_of[shape.name] == 20
    return quick.lost_ratios([case(shape, **seconds)], floor_of)


def test_the_page_shows_what_was_measured():
    """Edit neither by hand: `python -m benchmarks.publish` writes the page from the results."""
    page = PAGE.read_text()
    for name, content in sections(Results.read(PUBLISHED)).items():
        assert f"<!-- measured: {name} -->\n\n{content}\n\n<!-- end -->" in page, name


def test_the_plot_is_there_and_has_every_size():
    cases = Results.read(PUBLISHED).cases.values()

    assert PLOT.read_bytes().startswith(b"\x89PNG")
    assert f"({PLOT.name})" in PAGE.read_text()
    assert {c.shape["files"] for c in cases if is_on_the_line(c)} == {1_000, 10_000, 100_000, 1_000_000}


def test_results_survive_their_file(tmp_path):
    results = Results.read(PUBLISHED)
    results.write(tmp_path / "results.json")

    assert Results.read(tmp_path / "results.json") == results


def test_a_lost_ratio_is_told_with_both_numbers():
    assert lost(capture=(1.0, 1.0), java=(15.0, 12.0)) == [
        "v2-pure-20000-in-20: 15.0 times faster than the Java program, not 20.0"
    ]


@pytest.mark.parametrize("java", [(21.0, 5.0), (5.0, 21.0)])
def test_a_ratio_that_holds_by_wall_or_by_cpu_time_is_not_lost(java):
    """Other programs on the machine stretch one or the other, never in our favour both."""
    assert not lost(capture=(1.0, 1.0), java=java)


def test_a_capture_from_a_long_history_may_cost_a_third_more_than_loading_and_a_tenth_of_a_second():
    def verdict(seconds):
        return quick.lost_histories([case(SMALL_TABLE, load_table=(1.0, 1.0), capture=(seconds, seconds))])

    assert not verdict(1.39)
    assert verdict(1.41) == [f"{SMALL_TABLE.name}: 1410 ms of CPU, with 1400 ms allowed beside a load_table of 1000 ms"]


def test_growth_counts_only_beyond_that_of_load_table():
    before = Cost(load_seconds=1.0, capture_seconds=2.0)

    assert before.growth_beyond_load(Cost(load_seconds=2.0, capture_seconds=3.0)) == 0
    assert before.growth_beyond_load(Cost(load_seconds=2.0, capture_seconds=3.2)) == pytest.approx(0.1)


def test_the_median_counts_and_the_largest_peak():
    runs = [dataclasses.replace(RUN, wall_seconds=w, peak_bytes=p) for w, p in ((9.0, 5), (1.0, 7), (2.0, 6))]

    assert (Typical.of(runs).wall_seconds, Typical.of(runs).peak_bytes) == (2.0, 7)
