"""One mapped Spark task for each touched day: no day is missed, none is computed for nothing."""

import shutil
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from scripts.lake import midnight
from scripts.local_airflow import EXAMPLES
from tests.kit.example_world import FIRST_DAY
from tests.system.playback.events import make_source
from tests.system.playback.few_days import gain_a_day, span

PLAIN, INCREMENTAL = "foreach_plain", "foreach_incremental"


def assert_recomputed(world, dag_id=INCREMENTAL):
    """The target is what one aggregation of the whole source makes."""
    groups = defaultdict(list)
    for e in world.rows("db.playback"):
        groups[e["event_date"], e["title_id"]].append(e)
    expected = [
        (day, title, len(group), len({e["account_id"] for e in group}), sum(e["watched_seconds"] for e in group))
        for (day, title), group in groups.items()
    ]
    found = [
        (r["event_date"], r["title_id"], r["events"], r["accounts"], r["watched_seconds"])
        for r in world.rows(f"db.{dag_id}")
    ]
    assert sorted(found) == sorted(expected)


def days_mapped(world, finished):
    """The days that each mapped task was given."""
    return [given[given.index("--days") + 1 :] for given in world.xcom(finished, "arguments", "return_value")]


def added_days(world):
    """The days that the newest append of the source has rows of."""
    table = world.catalog.load_table("db.playback")
    newest = table.current_snapshot().snapshot_id
    entries = table.inspect.entries().to_pylist()
    return sorted(e["data_file"]["partition"]["event_date"] for e in entries if e["snapshot_id"] == newest)


def files_of(world, day):
    table = world.catalog.load_table("db.playback")
    return [
        Path(urlsplit(task.file.file_path).path) for task in table.scan(row_filter=f"event_date = '{day}'").plan_files()
    ]


def with_a_window_of_three_days(folder):
    """The plain twin as it is but for its window: eleven Spark jobs would find no row."""
    shutil.copytree(EXAMPLES / "jobs", folder / "jobs")
    text = (EXAMPLES / "foreach_plain.py").read_text()
    assert "range(14)" in text
    (folder / "foreach_plain.py").write_text(text.replace("range(14)", "range(3)"))
    return folder


def test_each_touched_day_gets_a_task_and_a_failed_one_holds_the_commit_back(world, tmp_path):
    """One of three tasks fails when another has written its day; the next run covers the days of both."""
    make_source(world)
    first, _ = world.run(INCREMENTAL, gain_a_day(world))
    assert days_mapped(world, first) == [["2026-10-01"]]
    assert_recomputed(world)

    day = gain_a_day(world)
    touched = added_days(world)
    lost = files_of(world, touched[-1])
    for file in lost:
        shutil.move(file, tmp_path / file.name)
    failed = world.attempt(INCREMENTAL, day)
    for file in lost:
        shutil.move(tmp_path / file.name, file)
    assert failed.task_states["commit"] == "upstream_failed"
    assert days_mapped(world, failed) == [[str(each)] for each in touched]

    covered, _ = world.run(INCREMENTAL, gain_a_day(world))
    assert span(world, covered)[0] == span(world, first)[1]
    assert days_mapped(world, covered) == [[str(each)] for each in sorted({*touched, *added_days(world)})]
    assert_recomputed(world)

    third = midnight(FIRST_DAY) + timedelta(days=2)
    assert world.attempt(PLAIN, third, dags=with_a_window_of_three_days(tmp_path / "dags")).state == "success"
    assert_recomputed(world, PLAIN)

    idle, _ = world.run(INCREMENTAL, day.replace(hour=1))
    assert (idle.task_states["arguments"], idle.task_states["redo"]) == ("skipped", "skipped")
    assert world.xcom(idle, "capture", "capture")["requested"]["settled"]
