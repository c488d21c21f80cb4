"""The pipeline's benchmark tells right from wrong and fast from slow, and its pages say what was measured."""

import dataclasses
import json

import pytest

from benchmarks.pipeline import logic
from benchmarks.pipeline.figures import figures, small_run_failures
from benchmarks.pipeline.generator import SEGMENTS
from benchmarks.pipeline.judge import Difference
from benchmarks.pipeline.lake import Scene, Written, contender_of, turn_of
from benchmarks.pipeline.meter import Cost, Span, costs
from benchmarks.pipeline.page import BEGIN, END, excerpt, whole_page, write_into, written_in
from benchmarks.pipeline.results import BOTH, Curves, Line, Point, Results, Spent, lines_of, typical
from benchmarks.pipeline.run import Outcome, Round
from benchmarks.pipeline.shape import EVENTS_PER_VIEW, Shape, day

STAGE = Cost(
    wall_seconds=1.0,
    cpu_seconds=1.0,
    read_bytes=100,
    written_bytes=10,
    read_rows=1000,
    written_rows=10,
    shuffled_bytes=5,
    peak_bytes=7,
    idle_seconds=0.25,
    one_core_seconds=0.5,
)
SAME = Difference(rows=5, missing=0, extra=0)


def outcome(name, *, differences=(SAME, SAME), daily=None, **facts):
    """A contender whose two stages cost two thirds and one third of these facts; ``daily`` seconds if that is given."""
    seconds = facts.get("wall_seconds", STAGE.wall_seconds * 3)
    daily = seconds * 2 / 3 if daily is None else daily
    shares = {
        "daily": {name: value * 2 / 3 for name, value in facts.items()} | {"wall_seconds": daily},
        "accounts": {name: value / 3 for name, value in facts.items()} | {"wall_seconds": seconds - daily},
    }
    stages = {stage: dataclasses.replace(STAGE, **share) for stage, share in shares.items()}
    return Outcome(contender=name, stages=stages, differences=tuple(differences), remarks={})


OURS = {"wall_seconds": 30.0, "cpu_seconds": 90.0, "read_bytes": 450}


def good_round(**changed):
    """All figures are reached, but for what a test changes."""
    contenders = {
        "lookback": outcome("lookback", wall_seconds=315.0, cpu_seconds=600.0, read_bytes=3000),
        "capture": outcome("capture", **OURS),
        "streaming": outcome("streaming", wall_seconds=30.0, cpu_seconds=90.0, read_bytes=450),
        "exact": outcome("exact", wall_seconds=27.3, cpu_seconds=80.0, read_bytes=300),
    }
    return Round(events=1500, arrived=100, outcomes=tuple((contenders | changed).values()))


def lost(**changed):
    return [figure.what for figure in figures(lines_of([good_round(**changed)])) if not figure.is_reached]


def test_all_figures_are_reached_at_their_very_limits():
    assert lost() == []
    assert len(figures(lines_of([good_round()]))) == 13


@pytest.mark.parametrize(
    ("slower", "what"),
    [
        ({"wall_seconds": 30.1}, "both: wall time beside (a)"),
        ({"cpu_seconds": 90.1}, "both: CPU time beside (a)"),
        ({"read_bytes": 453}, "both: bytes read beside (a)"),
    ],
)
def test_a_figure_that_is_missed_by_a_little_is_missed(slower, what):
    assert what in lost(capture=outcome("capture", **OURS | slower))


def test_others_that_are_faster_are_noticed():
    exact = lost(exact=outcome("exact", wall_seconds=27.0))
    assert exact == ["stage 1: wall time beside (e)", "stage 2: wall time beside (e)", "both: wall time beside (e)"]
    streaming = lost(streaming=outcome("streaming", wall_seconds=29.9, daily=20.0))
    assert streaming == ["stage 2: wall time beside (c)", "both: wall time beside (c)"]


def test_a_stage_does_not_hide_in_the_other():
    """Both together are as fast as they were, and one of them is not."""
    assert lost(capture=outcome("capture", **OURS, daily=18.0)) == [
        "stage 2: wall time beside (e)",
        "stage 2: wall time beside (c)",
    ]
    heavy = outcome("lookback", wall_seconds=315.0, cpu_seconds=600.0, read_bytes=3000, daily=306.0)
    assert lost(lookback=heavy) == ["stage 2 of (a) beside its stage 1", "stage 2: wall time beside (a)"]


def test_a_bound_that_is_passed_is_no_bound():
    """By a little it may be chance; by more the bound was handed something slow, and says nothing of others."""
    assert lost(exact=outcome("exact", wall_seconds=31.5)) == []
    assert lost(exact=outcome("exact", wall_seconds=31.6)) == ["both: wall time beside (e)"]


@pytest.mark.parametrize(
    "difference",
    [
        Difference(rows=5, missing=1, extra=0),
        Difference(rows=5, missing=0, extra=1),
        Difference(rows=0, missing=0, extra=0),
    ],
    ids=["a row is missing", "a row too many", "nothing was compared"],
)
def test_targets_that_differ_fail_whatever_was_saved(difference):
    """In either table, in either direction; and two empty tables prove nothing."""
    for differences in ([difference, SAME], [SAME, difference]):
        wrong = outcome("capture", differences=differences, wall_seconds=29.0, cpu_seconds=1.0, read_bytes=2)
        assert lost(capture=wrong) == ["both targets beside (a)'s"]
        assert len(small_run_failures(lines_of([good_round(capture=wrong)]))) == 1


def test_a_contender_that_is_wrong_in_one_round_of_several_is_wrong():
    wrong = outcome("exact", differences=[SAME, Difference(rows=5, missing=2, extra=1)])
    lines = {line.name: line for line in lines_of([good_round(), good_round(exact=wrong), good_round()])}
    assert (lines["exact"].is_identical, lines["exact"].differing_rows) == (False, 3)
    assert lines["capture"].is_identical


def test_turns_of_one_round_are_told_by_their_medians_too():
    again = [outcome("capture", **OURS | {"wall_seconds": wall}) for wall in (40.0, 32.0)]
    first = good_round()
    lines = lines_of([dataclasses.replace(first, outcomes=(*first.outcomes, *again))])
    assert [line.name for line in lines] == ["lookback", "capture", "streaming", "exact"]
    assert lines[1].both.wall_seconds == 32.0


def test_a_turn_has_tables_of_its_own_and_the_contender_in_its_name():
    turns = [turn_of("capture", number) for number in (1, 2, 3)]
    assert turns[0] == "capture"
    assert len({Scene(shape=Shape(scale=1)).tables(turn).daily for turn in turns}) == 3
    assert {contender_of(turn) for turn in turns} == {"capture"}


def test_a_contender_that_was_not_compared_is_not_identical():
    assert not outcome("capture", differences=()).is_identical


def test_the_small_run_fails_by_bytes_and_by_time():
    """By time only if neither the clock nor the processors saw much of a difference."""
    assert small_run_failures(lines_of([good_round()])) == []
    greedy = outcome("capture", **OURS | {"read_bytes": 753})
    assert "read 25% of what (a) read" in small_run_failures(lines_of([good_round(capture=greedy)]))[0]
    slow = outcome("capture", wall_seconds=158.0, cpu_seconds=301.0, read_bytes=450)
    assert "2.0 times less wall and 2.0 times less CPU" in small_run_failures(lines_of([good_round(capture=slow)]))[0]
    hidden = Cost(**dataclasses.asdict(STAGE) | {"wall_seconds": 110.0, "cpu_seconds": 210.0})
    stages = {"daily": STAGE, "accounts": hidden}
    late = small_run_failures(lines_of([good_round(capture=dataclasses.replace(slow, stages=stages))]))
    assert late == ["stage 2: 1.0 times less wall and 1.0 times less CPU time than (a)"]
    stretched = outcome("capture", **OURS | {"wall_seconds": 400.0})
    assert small_run_failures(lines_of([good_round(capture=stretched)])) == []


def test_both_stages_are_their_sum_and_the_larger_of_their_peaks():
    both = STAGE + dataclasses.replace(STAGE, peak_bytes=9, wall_seconds=2.5)
    assert (both.wall_seconds, both.read_bytes, both.peak_bytes) == (3.5, 200, 9)


def test_rounds_are_told_by_their_medians():
    rounds = [dataclasses.replace(STAGE, wall_seconds=seconds) for seconds in (9.0, 1.0, 2.0)]
    assert typical(rounds) == dataclasses.replace(STAGE, wall_seconds=2.0)


def test_a_task_counts_for_the_stage_in_which_it_ended(tmp_path):
    """Its time is the executor's, and the process that captured adds its own."""
    events = [{"Event": "SparkListenerLogStart"}, task(ended_ms=90), task(ended_ms=150), task(ended_ms=250)]
    (tmp_path / "local-1").write_text("\n".join(json.dumps(event) for event in events))
    spans = [span("daily", 100, 200, driver_cpu_seconds=0.5), span("accounts", 200, 300)]
    written = {"daily": Written(size_bytes=13, rows=14), "accounts": Written(size_bytes=0, rows=0)}

    found = costs(spans, tmp_path, written)

    assert found["daily"].cpu_seconds == pytest.approx(2.0 + 0.25 + 0.5)
    assert found["accounts"].cpu_seconds == pytest.approx(2.0 + 0.25)
    assert (found["daily"].read_bytes, found["daily"].written_rows, found["daily"].shuffled_bytes) == (11, 14, 15)


def test_cores_are_idle_where_no_task_runs(tmp_path):
    """A task that began before the stage counts from its beginning on, and the rest of a stage is idle, too."""
    lives = [(1, 130), (120, 150), (160, 170)]
    events = [task(ended_ms=ended, launched_ms=launched) for launched, ended in lives]
    (tmp_path / "local-1").write_text("\n".join(json.dumps(event) for event in events))

    found = costs([span("daily", 100, 200)], tmp_path, {"daily": Written(size_bytes=0, rows=0)})

    assert found["daily"].one_core_seconds == pytest.approx((120 - 100 + 150 - 130 + 170 - 160) / 1000)
    assert found["daily"].idle_seconds == pytest.approx((160 - 150 + 200 - 170) / 1000)


def span(stage, began_ms, ended_ms, driver_cpu_seconds=0.0):
    return Span(
        stage=stage,
        began_ms=began_ms,
        ended_ms=ended_ms,
        wall_seconds=0.1,
        driver_cpu_seconds=driver_cpu_seconds,
        read_bytes=11,
        peak_bytes=1,
    )


def task(ended_ms, launched_ms=0):
    """As Spark writes it."""
    return {
        "Event": "SparkListenerTaskEnd",
        "Task Info": {"Launch Time": launched_ms or ended_ms - 10, "Finish Time": ended_ms},
        "Task Metrics": {
            "Executor CPU Time": 2_000_000_000,
            "Executor Deserialize CPU Time": 250_000_000,
            "Input Metrics": {"Records Read": 12},
            "Shuffle Write Metrics": {"Shuffle Bytes Written": 15},
        },
    }


def test_late_rows_are_the_stated_share_of_what_arrives_and_reach_every_day():
    shape = Shape(scale=1.0, days=14, late=0.05)
    late = shape.late_views * shape.days
    assert late / (late + shape.views) == pytest.approx(0.05, rel=0.01)
    assert shape.first_day == day(14)
    assert day(shape.daily_days) == day(14 + 13), "the first day's window"
    assert Shape(scale=1.0, late=0).late_views == 0


def test_a_daily_key_has_ten_events_or_more():
    assert EVENTS_PER_VIEW[0] >= 10
    assert SEGMENTS >= 10


@pytest.mark.parametrize("wrong", [{"scale": 0}, {"scale": 1, "days": 0}, {"scale": 1, "late": 1}])
def test_a_shape_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="scale and days are positive"):
        Shape(**wrong)


def test_every_measure_of_a_day_is_merged_in_a_way_that_no_order_changes():
    """What makes new rows enough: a measure that is neither a sum nor an extreme needs all rows of its key."""
    assert {how.format("x") for how in logic.MERGED.values()} == {
        "t.x + s.x",
        "greatest(t.x, s.x)",
        "least(t.x, s.x)",
    }
    assert all(f"AS {measure}" in logic.daily("events", "devices") for measure in logic.MERGED)


def results(rounds):
    lines = tuple(lines_of(rounds))
    ends = {"lookback": Spent.of(lines[0].costs[BOTH]), "capture": Spent.of(lines[1].costs[BOTH])}
    point = Point(days=14, late=0.03, is_identical=True, **ends)
    return Results(
        circumstances={
            "date": "2026-11-18",
            "machine": "2 cores",
            "command": "make x",
            "rounds": 1,
            "turns": 1,
            "versions": {},
        },
        shape=dataclasses.asdict(Shape(scale=1.0)),
        events=rounds[0].events,
        arrived=rounds[0].arrived,
        lines=lines,
        curves=Curves(date="2026-11-18", scale=0.5, release=2, by_days=(point,), by_late=(point,)),
    )


def test_what_was_measured_is_written_and_read_again(tmp_path):
    measured = results([good_round()])
    measured.write(tmp_path / "results.json")
    assert Results.read(tmp_path / "results.json") == measured


def test_the_pages_show_who_was_wrong_and_what_was_missed():
    wrong = outcome("capture", differences=[SAME, Difference(rows=5, missing=2, extra=1)], wall_seconds=40.0)
    shown, short = (text(results([good_round(capture=wrong)])) for text in (whole_page, excerpt))
    assert "**3 rows differ**" in shown
    assert "**3 rows differ**" in short
    assert shown.count("**not reached**") == 8


def test_a_page_keeps_what_people_wrote_around_the_results(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_into(page, "new\n")
    assert written_in(page) == "new"
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")


def test_a_page_without_a_place_for_the_results_is_left_alone(tmp_path):
    """Rather than appended to, or emptied."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n")
    with pytest.raises(SystemExit, match="has no place"):
        write_into(page, "new\n")
    assert page.read_text() == f"before\n{BEGIN}\nold\n"


def test_a_line_survives_its_document():
    line = lines_of([good_round()])[0]
    assert Line.parse(json.loads(json.dumps(dataclasses.asdict(line)))) == line
