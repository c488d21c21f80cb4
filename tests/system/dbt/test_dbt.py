"""dbt's own models, run by Airflow on a real Spark, keep their targets equal to a recomputation."""

import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from scripts.lake import Lake, create_events_table
from tests.kit.example_world import world_of

ROOT = Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".cache" / "dbt"
PROJECT = ROOT / "dags_examples" / "dbt"
DONE = {"capture": "success", "run": "success", "commit": "success"}

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return Lake.on_sqlite(tmp_path_factory.mktemp("dbt") / "lake")


@pytest.fixture(scope="module")
def settings(lake):
    """What dbt finds in its environment: the Spark that is installed beside it, with the catalog of the lake."""
    return {
        **lake.environment(),
        "IPS_EXAMPLES_DBT": str(ENVIRONMENT / "bin" / "dbt"),
        "SPARK_HOME": str(next(ENVIRONMENT.glob("lib/python*/site-packages/pyspark"))),
        "PYSPARK_PYTHON": str(ENVIRONMENT / "bin" / "python"),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DO_NOT_TRACK": "1",
    }


@pytest.fixture(scope="module")
def world(lake, settings, tmp_path_factory):
    """One day of playback, and the Airflow that has been told where dbt is."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        with world_of(lake, tmp_path_factory.mktemp("home") / "airflow") as made:
            create_events_table(made.catalog, "db.playback")
            yield made


def test_models_follow_the_source_run_by_run(world):
    """The second day brings late rows of the first; the third has nothing, and dbt is not started."""
    kept = sorted(PROJECT.rglob("*"))
    first, record = world.run("dbt_incremental", world.gain_a_day("db.playback"))
    assert first.task_states == DONE
    assert record["sources"][0]["files"] == added_files(world)
    assert_recomputed(world)

    assert sorted(PROJECT.rglob("*")) == kept, "dbt has written into the folder of the DAGs"

    second, record = world.run("dbt_incremental", world.gain_a_day("db.playback"))
    days = {event["event_date"] for event in world.rows("db.playback")}
    assert second.task_states == DONE
    assert record["sources"][0]["files"] == added_files(world) < total_files(world)
    assert len(days) > 2, "no row is late"
    assert_recomputed(world)


def test_the_same_rows_again_change_nothing(world):
    """A run that is cleared has dbt process its range once more."""
    day = world.gain_a_day("db.playback")
    world.run("dbt_incremental", day)
    before = targets(world)

    again, _ = world.run("dbt_incremental", day)

    assert again.task_states == DONE
    assert targets(world) == before
    assert_recomputed(world)


def test_the_var_decides_what_a_source_is(settings, tmp_path):
    """Only `whole_source()` is the table, whatever was captured."""
    captured = ("--vars", '{"captured_sources": {"db.playback": "icdc.x"}}')
    assert sources(settings, tmp_path / "captured", *captured) == {
        "dbt_events": ["icdc.x"],
        "dbt_titles_per_day": ["db.playback", "icdc.x"],
    }
    assert sources(settings, tmp_path / "whole") == {
        "dbt_events": ["db.playback"],
        "dbt_titles_per_day": ["db.playback", "db.playback"],
    }


def sources(settings, folder, *arguments):
    """What each model reads, as dbt compiles it."""
    folder.mkdir()
    done = dbt(settings, folder, "compile", "--no-introspect", "--no-populate-cache", *arguments)
    assert done.returncode == 0, done.stdout
    compiled = folder / "target" / "compiled" / "playback" / "models"
    return {path.stem: re.findall(r"from ([a-z_]+\.[a-z_]+)", path.read_text()) for path in compiled.glob("*.sql")}


def test_a_full_refresh_does_not_rebuild_a_target_from_what_was_captured(world, settings, tmp_path):
    """dbt is stopped by the macro; without the var it rebuilds from the whole source."""
    refused = dbt(
        settings, tmp_path, "run", "--full-refresh", "--vars", '{"captured_sources": {"db.playback": "icdc.x"}}'
    )
    assert refused.returncode != 0
    assert "would rebuild the target from icdc.x alone" in refused.stdout
    assert_recomputed(world)

    done = dbt(settings, tmp_path, "run", "--full-refresh")
    assert done.returncode == 0, done.stdout
    assert_recomputed(world)


def dbt(settings, folder, *arguments):
    """Run dbt by hand."""
    return subprocess.run(
        [settings["IPS_EXAMPLES_DBT"], *arguments, "--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT)],
        env={**os.environ, **settings, "DBT_TARGET_PATH": str(folder / "target"), "DBT_LOG_PATH": str(folder / "logs")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def added_files(world):
    return int(world.catalog.load_table("db.playback").current_snapshot().summary["added-data-files"])


def total_files(world):
    return int(world.catalog.load_table("db.playback").current_snapshot().summary["total-data-files"])


def targets(world):
    return {name: sorted(map(tuple_of, world.rows(f"db.{name}"))) for name in ("dbt_events", "dbt_titles_per_day")}


def tuple_of(row):
    return tuple(row.values())


def assert_recomputed(world):
    """Both targets are what the source gives, computed here from all of its rows."""
    latest: dict[tuple[Any, ...], int] = defaultdict(int)
    totals: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for event in world.rows("db.playback"):
        key = tuple(event[name] for name in ("event_id", "event_date", "account_id", "title_id"))
        latest[key] = max(latest[key], event["watched_seconds"])
        total = totals[event["event_date"], event["title_id"]]
        total[0] += 1
        total[1] += event["watched_seconds"]
    assert targets(world) == {
        "dbt_events": sorted((*key, seconds) for key, seconds in latest.items()),
        "dbt_titles_per_day": sorted((*key, *total) for key, total in totals.items()),
    }
