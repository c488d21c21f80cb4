"""The parts of `make demo` that need neither Airflow nor Spark: its events, its comparison, and what it prints."""

import io
import json
import re
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from scripts.demo_days import DAYS_OFFLINE, OFFLINE_VIEWS, SOURCE, WINDOW_DAYS, Days
from scripts.demo_report import Day, Reading, drawing, share, table
from scripts.demo_targets import INCREMENTAL, PLAIN, DemoFailedError, Recomputation, begin_targets, compare
from scripts.lake import Lake
from scripts.terminal import SECONDS_BETWEEN_LINES, Progress
from scripts.wide_events import create_wide_table, day_of_wide_events, measured

JOB = Path(__file__).parents[2] / "dags_examples" / "jobs" / "playback_quality.py"
TODAY = date(2026, 11, 20)


@pytest.fixture
def lake(tmp_path):
    """A window of days, and one more with views of a device that was offline."""
    catalog = Lake.on_sqlite(tmp_path).catalog()
    source = create_wide_table(catalog, SOURCE)
    days = Days.ending(TODAY, days=1, rows=40, seed=7)
    for number in range(WINDOW_DAYS):
        days = days.arrive(source, with_offline=number == WINDOW_DAYS - 1)
    days.write(tmp_path)
    return catalog, days


def make_targets(catalog, *, plain, incremental):
    """What the two DAGs would have left."""
    for dag_id, rows in ((PLAIN, plain), (INCREMENTAL, incremental)):
        catalog.create_table(f"db.{dag_id}", rows.schema).append(rows)


def within(rows, days):
    return rows.filter(pa.compute.field("event_date") >= pa.scalar(days.day(0)))


def test_a_day_is_the_same_whatever_the_date():
    """The figures of the demo follow from its seed, so that those of two people can be compared."""
    first, later = (
        day_of_wide_events(day, number=14, rows=50, earliest=day - timedelta(days=13), seed=7)
        for day in (TODAY, date(2027, 3, 1))
    )
    dates = ["event_date", "event_time", "received_at"]
    assert first.drop_columns(dates) == later.drop_columns(dates)
    another = day_of_wide_events(TODAY, number=14, rows=50, earliest=TODAY - timedelta(days=13), seed=8)
    assert another["payload"] != first["payload"]


def test_the_device_that_was_offline_sends_views_that_no_window_holds(lake, tmp_path):
    catalog, days = lake
    assert days.latest == TODAY
    assert days == Days.read(tmp_path)
    late = catalog.load_table(SOURCE).scan(f"event_date < '{days.day(0)}'").to_arrow()
    assert set(late["event_date"].to_pylist()) == {TODAY - timedelta(days=DAYS_OFFLINE)} == {days.offline_date}
    assert len(set(late["event_id"].to_pylist())) == len(late) == OFFLINE_VIEWS


def test_the_recomputation_is_what_plain_python_makes_of_a_payload():
    events = day_of_wide_events(TODAY, number=0, rows=30, earliest=TODAY, seed=1)
    for found, event in zip(measured(events).to_pylist(), events.to_pylist(), strict=True):
        payload = json.loads(event["payload"])
        kbps = [segment["kbps"] for segment in payload["segments"]]
        assert found["loaded_ms"] == sum(segment["ms"] for segment in payload["segments"])
        assert found["kilobits"] == sum(segment["kbps"] * segment["ms"] // 1000 for segment in payload["segments"])
        assert (found["median_kbps"], found["low_kbps"]) == (
            sorted(kbps)[len(kbps) // 2],
            sorted(kbps)[len(kbps) // 20],
        )
        assert found["switches"] == sum(before != after for before, after in pairwise(kbps))
        assert found["dropped"] == sum(segment["dropped"] for segment in payload["segments"])
        assert found["slow_segments"] == sum(rate > payload["network"]["kbps"] for rate in kbps)
        assert (found["network"], found["event_id"]) == (payload["network"]["type"], event["event_id"])


def test_the_demo_counts_what_only_the_lookback_lost(lake):
    catalog, days = lake
    everything = Recomputation(catalog).rows()
    make_targets(catalog, plain=within(everything, days), incremental=everything)
    verdict = compare(catalog, days.day(0), everything)
    assert (verdict.rows, verdict.lost) == (everything.num_rows, OFFLINE_VIEWS)


def test_both_targets_begin_with_the_rows_and_types_that_the_job_makes(lake):
    """What Spark adds to them later is compared column by column; the job's own CREATE TABLE finds these tables."""
    catalog, days = lake
    everything = Recomputation(catalog).rows()
    begin_targets(catalog, everything)
    assert compare(catalog, days.latest - timedelta(days=DAYS_OFFLINE), everything).lost == 0
    [made] = re.findall(r"CREATE TABLE IF NOT EXISTS \{target\}\s+\((.+?)\)\s+USING", JOB.read_text(), re.DOTALL)
    columns = [column.split() for column in made.split(",")]
    spark = {"BIGINT": "long", "INT": "int", "DATE": "date", "TIMESTAMP": "timestamptz", "STRING": "string"}
    for name in (PLAIN, INCREMENTAL):
        schema = catalog.load_table(f"db.{name}").schema()
        assert [(f.name, str(f.field_type)) for f in schema.fields] == [(n, spark[kind]) for n, kind in columns]


@pytest.mark.parametrize("broken", [PLAIN, INCREMENTAL])
def test_the_demo_fails_when_a_target_differs(lake, broken):
    """A demo that cannot fail shows nothing: a row too few in either target is found."""
    catalog, days = lake
    everything = Recomputation(catalog).rows()
    targets = {PLAIN: within(everything, days), INCREMENTAL: everything}
    targets[broken] = targets[broken].slice(1)
    make_targets(catalog, plain=targets[PLAIN], incremental=targets[INCREMENTAL])
    with pytest.raises(DemoFailedError, match=f"the target of {broken} differs"):
        compare(catalog, days.day(0), everything)


def test_a_recomputation_that_began_early_reads_each_file_once_and_holds_all_rows(lake):
    """The demo begins it beside its first run, before the last days have arrived."""
    catalog, days = lake
    early, read = Recomputation(catalog), []
    early.read(lambda number, _: read.append(number))
    source = catalog.load_table(SOURCE)
    days.arrive(source)

    rows = early.rows(lambda number, _: read.append(number))

    assert rows.equals(Recomputation(catalog).rows())
    assert len(read) == len(list(catalog.load_table(SOURCE).scan().plan_files()))


def reading(rows):
    return Reading(rows=rows, size_bytes=rows * 100, seconds=rows / 1000, cpu_seconds=rows / 500)


DAYS = [
    Day(day=TODAY - timedelta(days=1), plain=reading(40_000), incremental=reading(8_000)),
    Day(day=TODAY, plain=reading(40_000), incremental=reading(4_000)),
]


NARROW = 80


def test_table_and_drawing_show_each_day():
    lines = table(DAYS).splitlines()
    assert lines[-1].split() == [
        *("2026-11-20", "40,000", "4,000", "4.0", "MB", "0.4", "MB"),
        *("40.0", "4.0"),
    ]
    assert max(map(len, lines)) < NARROW
    assert "15% of its rows (12,000 of 80,000)" in share(DAYS)
    bars = [line.count("█") for line in drawing(DAYS).splitlines() if "█" in line][:4]
    assert bars == [36, 7, 36, 3]


class Terminal(io.StringIO):
    """A stream that says that it is one."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "lines"), [(io.StringIO(), 4), (Terminal(), 1)])
def test_progress_is_a_changing_line_on_a_terminal_and_plain_lines_elsewhere(stream, lines):
    """A step says when it begins, from time to time that it lasts, and what came of it."""
    now = [0.0]
    progress = Progress(steps=2, stream=stream, clock=lambda: now[0])
    progress.begin("a day arrives")
    for _ in range(int(2 * SECONDS_BETWEEN_LINES) + 1):
        now[0] += 1
        progress.update("a day arrives")
    progress.end("a day has arrived")
    assert stream.getvalue().count("\n") == lines
    assert ("\r" in stream.getvalue()) == stream.isatty()
    assert stream.getvalue().endswith("0:41   1/2  a day has arrived\n")
