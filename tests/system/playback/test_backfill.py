"""Some days backfilled in chunks between usual runs: wrong days come right, and the second stage sees only these."""

import pyarrow as pa

from tests.system.playback.events import gain_a_day, last_versions, make_source, sorted_rows
from tests.system.playback.test_playback_stages import INCREMENTAL, assert_recomputed

BACKFILL, BY_INTERVAL = "backfill_incremental", "backfill_by_interval_incremental"
DAILY = f"db.{INCREMENTAL}"


def spoil(world, day):
    """Write a wrong number into all rows of one day of the daily table, as a job with a mistake does."""
    table = world.catalog.load_table(DAILY)
    is_it = f"event_date = '{day}'"
    found = table.scan(row_filter=is_it).to_arrow()
    place = found.schema.get_field_index("watched_seconds")
    wrong = pa.array([-1] * found.num_rows, found.schema.field(place).type)
    table.overwrite(found.set_column(place, found.schema.field(place), wrong), is_it)


def seconds(world, day):
    """What the daily table says of one day, row by row."""
    found = world.catalog.load_table(DAILY).scan(row_filter=f"event_date = '{day}'").to_arrow()
    return sorted(found["watched_seconds"].to_pylist())


def is_right(world):
    """Whether the daily table is what the source says."""
    return sorted_rows(world.rows(DAILY)) == sorted_rows(last_versions(world.rows("db.playback")))


def test_wrong_days_are_backfilled_beside_the_usual_runs(world):
    """A dry run, two days with one between, then all; then the usual run, whose second stage takes wrong days alone."""
    make_source(world)
    days = [gain_a_day(world) for _ in range(3)]
    world.run(INCREMENTAL, days[-1])
    spoil(world, days[0].date())
    spoil(world, days[1].date())
    world.attempt(INCREMENTAL, days[-1].replace(hour=1))
    wish = {
        "ips_run": "partitions",
        "ips_partitions": f"event_date between '{days[0]:%F}' and '{days[-1]:%F}'",
        "ips_everything": True,
        "ips_max_snapshots": 2,
    }

    dry = world.attempt(BACKFILL, days[-1], conf={**wish, "ips_dry_run": True})
    told = world.xcom(dry, "plan", "backfill")
    assert (dry.state, told["partitions"], is_right(world)) == ("success", 3, False)
    assert [chunk["partitions"] for chunk in told["chunks"]] == [2, 1]
    assert [(stage["table"], stage["partitions"]) for stage in told["stages"]] == [(DAILY, 3), (f"{DAILY}_agg", 3)]

    around = f"event_date in ('{days[0]:%F}', '{days[2]:%F}')"
    part = world.attempt(BACKFILL, days[-1].replace(minute=30), conf={**wish, "ips_partitions": around})
    assert part.state == "success", f"{part.task_states}\n{world.end_of_log()}"
    between = seconds(world, days[1].date())
    assert between
    assert set(between) == {-1}  # in the same chunk's bounds, and not asked for: neither deleted nor repaired
    assert -1 not in seconds(world, days[0].date())

    done = world.attempt(BACKFILL, days[-1].replace(hour=1), conf=wish)
    assert done.state == "success", f"{done.task_states}\n{world.end_of_log()}"
    assert is_right(world)

    caught_up = world.attempt(INCREMENTAL, days[-1].replace(hour=2))
    assert caught_up.state == "success", f"{caught_up.task_states}\n{world.end_of_log()}"
    (captured,) = world.xcom(caught_up, "capture_changes", "capture")["sources"]
    bounds = [(bound["lower"], bound["upper"]) for bound in captured["partitions"]]
    assert bounds == [(f"{days[0]:%F}", f"{days[1]:%F}")]
    assert_recomputed(world, INCREMENTAL)


def test_days_that_gained_something_are_made_anew_by_interval_too(world):
    """The usual runs of the DAG that Airflow's own backfill can run again; tests/system/components requests one."""
    day = gain_a_day(world)
    world.run(BY_INTERVAL, day)
    late = gain_a_day(world, corrected=20)
    again, _ = world.run(BY_INTERVAL, late)

    assert again.task_states == {"capture": "success", "refill": "success", "commit": "success"}
    assert sorted_rows(world.rows("db.playback_by_interval")) == sorted_rows(last_versions(world.rows("db.playback")))
