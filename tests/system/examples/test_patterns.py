"""Every pattern's DAG, run twice by Airflow and Spark, leaves what one computation over everything would."""

from collections import Counter, defaultdict
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def added_by_last_append(world, name):
    """How many files the newest snapshot of a table added."""
    return int(world.catalog.load_table(name).current_snapshot().summary["added-data-files"])


def captured(record):
    """How many files a capture took of each source."""
    return {source["source"]: source["files"] for source in record["sources"]}


def assert_reads_new_files_only(record, world, *names):
    assert captured(record) == {name: added_by_last_append(world, name) for name in names}


def as_appended(events):
    return sorted(
        (e["event_id"], e["event_date"], e["account_id"], e["title_id"], round(e["watched_seconds"] / 60, 4))
        for e in events
    )


def log_rows(world, name):
    return sorted(
        (r["event_id"], r["event_date"], r["account_id"], r["title_id"], round(r["watched_minutes"], 4))
        for r in world.rows(name)
    )


def titles_per_day(events):
    groups = defaultdict(list)
    for event in events:
        groups[event["event_date"], event["title_id"]].append(event["account_id"])
    return {key: (len(accounts), len(set(accounts))) for key, accounts in groups.items()}


def aggregated(world, name):
    rows = world.rows(name)
    result = {(r["event_date"], r["title_id"]): (r["events"], r["accounts"]) for r in rows}
    assert len(result) == len(rows), "a group is there twice"
    return result


def stopped_at(events):
    latest: dict[Any, Any] = {}
    for e in events:
        key, value = (
            (e["account_id"], e["title_id"]),
            (e["event_time"], e["event_id"], e["received_at"], e["watched_seconds"]),
        )
        latest[key] = max(latest.get(key, value), value)
    return latest


def continue_watching(world):
    rows = world.rows("db.continue_watching")
    result = {
        (r["account_id"], r["title_id"]): (r["event_time"], r["event_id"], r["received_at"], r["watched_seconds"])
        for r in rows
    }
    assert len(result) == len(rows), "a key is there twice"
    return result


def test_append_inserts_every_event_once(sqlite_world):
    """Two days apart, a run that is cleared, and one that finds nothing: the target holds each event once."""
    world = sqlite_world
    world.run("append_incremental", world.gain_a_day("db.playback"))
    day = world.gain_a_day("db.playback")
    first, record = world.run("append_incremental", day)
    assert_reads_new_files_only(record, world, "db.playback")
    # Who looks at the target's snapshots finds the capture that each came from.
    stamped = world.catalog.load_table("db.playback_log").current_snapshot().summary
    assert stamped["ips-capture-id"] == record["capture_id"]
    expected = as_appended(world.rows("db.playback"))
    assert log_rows(world, "db.playback_log") == expected

    cleared, record = world.run("append_incremental", day)
    assert cleared.run_id == first.run_id
    assert_reads_new_files_only(record, world, "db.playback")
    assert log_rows(world, "db.playback_log") == expected

    idle, record = world.run("append_incremental", day.replace(hour=1))
    assert idle.task_states == {"capture": "success", "insert": "skipped", "commit": "skipped"}
    assert captured(record) == {"db.playback": 0}


def test_merge_keeps_the_latest_event_of_each_key(sqlite_world):
    """Late rows never overwrite what is newer."""
    world = sqlite_world
    world.run("merge_incremental", world.gain_a_day("db.playback"))
    _, record = world.run("merge_incremental", world.gain_a_day("db.playback"))
    assert_reads_new_files_only(record, world, "db.playback")
    assert continue_watching(world) == stopped_at(world.rows("db.playback"))


def watching_per_title(rows):
    groups = defaultdict(list)
    for row in rows:
        groups[row["title_id"]].append(row["watched_seconds"])
    return {title: (len(seconds), sum(seconds)) for title, seconds in groups.items()}


def test_changes_follow_merges_and_deletions(sqlite_world):
    """The source is merged into and then loses rows: groups shrink, and those that lost all of theirs go."""
    world = sqlite_world
    for _ in range(2):
        day = world.gain_a_day("db.playback")
        world.run("merge_incremental", day)
        world.run("changes_incremental", day)
    watching = world.catalog.load_table("db.continue_watching")
    titles = sorted({row["title_id"] for row in world.rows("db.continue_watching")})
    watching.delete(f"title_id = {titles[0]} or account_id < 200")
    _, record = world.run("changes_incremental", day.replace(hour=1))
    (source,) = record["sources"]
    assert source["superset"] is True
    assert source["before"]["files"] > 0
    expected = watching_per_title(world.rows("db.continue_watching"))
    assert titles[0] not in expected
    found = {r["title_id"]: (r["accounts"], r["watched_seconds"]) for r in world.rows("db.watching_per_title")}
    assert found == expected


def test_row_filter_aggregates_changed_groups_from_all_their_rows(sqlite_world):
    """A group that gains a late row counts its old rows too."""
    world = sqlite_world
    world.run("row_filter_incremental", world.gain_a_day("db.playback"))
    _, record = world.run("row_filter_incremental", world.gain_a_day("db.playback"))
    assert_reads_new_files_only(record, world, "db.playback")
    assert aggregated(world, "db.titles_per_day") == titles_per_day(world.rows("db.playback"))


def test_range_recomputes_the_days_between_the_captured_bounds(sqlite_world):
    """The bounds come from metadata, and no day outside of them is computed again."""
    world = sqlite_world
    world.run("range_incremental", world.gain_a_day("db.playback"))
    before = world.catalog.load_table("db.hours_per_day").current_snapshot().snapshot_id
    _, record = world.run("range_incremental", world.gain_a_day("db.playback"))
    assert_reads_new_files_only(record, world, "db.playback")

    seconds: Counter[Any] = Counter()
    counts: Counter[Any] = Counter()
    for event in world.rows("db.playback"):
        seconds[event["event_date"]] += event["watched_seconds"]
        counts[event["event_date"]] += 1
    target = world.catalog.load_table("db.hours_per_day")
    rows = target.scan().to_arrow().to_pylist()
    assert {r["event_date"]: (r["events"], round(r["hours_watched"], 4)) for r in rows} == {
        day: (counts[day], round(seconds[day] / 3600, 4)) for day in counts
    }
    # Late rows reach back 13 days, so the oldest day of the first run is not among those of the second.
    rewritten = {
        e["data_file"]["partition"]["event_date"]
        for e in target.inspect.entries().to_pylist()
        if e["snapshot_id"] != before
    }
    assert min(counts) not in rewritten


def test_multi_table_commits_two_sources_together(sqlite_world):
    """Both sources are merged; one that gained nothing is passed over without harm."""
    world = sqlite_world
    world.run("multi_table_incremental", world.gain_a_day("db.playback", "db.downloads"))
    finished, record = world.run("multi_table_incremental", world.gain_a_day("db.downloads"))
    assert captured(record) == {"db.playback": 0, "db.downloads": added_by_last_append(world, "db.downloads")}
    assert finished.task_states["commit"] == "success"
    latest: dict[Any, Any] = {}
    for e in world.rows("db.playback") + world.rows("db.downloads"):
        value = (e["received_at"], e["account_id"], e["title_id"], e["watched_seconds"])
        latest[e["event_id"]] = max(latest.get(e["event_id"], value), value)
    rows = world.rows("db.viewing")
    assert len(rows) == len(latest)
    assert {
        r["event_id"]: (r["received_at"], r["account_id"], r["title_id"], r["watched_seconds"]) for r in rows
    } == latest


def test_multi_stage_hands_on_what_the_first_stage_wrote(sqlite_world):
    """The second stage reads the files that the first one's last run inserted, and no others."""
    world = sqlite_world
    for _ in range(2):
        day = world.gain_a_day("db.playback")
        world.run("multi_stage_incremental_1", day)
        _, record = world.run("multi_stage_incremental_2", day)
    assert_reads_new_files_only(record, world, "db.playback_log_staged")
    events = world.rows("db.playback")
    assert log_rows(world, "db.playback_log_staged") == as_appended(events)
    assert aggregated(world, "db.titles_per_day_staged") == titles_per_day(events)


def test_assets_lead_from_the_watched_table_through_both_stages(sqlite_world):
    """Stage 1 tells the asset that stage 2 waits for, once; the DAG with a clock besides keeps a target of its own."""
    world = sqlite_world
    day = world.gain_a_day("db.playback")
    world.run("asset_stages_incremental_1", day)
    _, record = world.run("asset_stages_incremental_2", day)
    assert_reads_new_files_only(record, world, "db.playback_log_watched")
    world.run("asset_or_time_incremental", day)
    events = world.rows("db.playback")
    assert log_rows(world, "db.playback_log_watched") == as_appended(events)
    assert aggregated(world, "db.titles_per_day_watched") == titles_per_day(events)
    assert len(world.rows("db.watching_by_event")) == len(stopped_at(events))
    assert world.ask(assets_told) == ["iceberg://lake/db/playback_log_watched"]


def assets_told():
    """The assets that got an event of these DAGs, in a process where Airflow is at hand. Others tell assets too."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        told = select(AssetModel.uri).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        return sorted(session.scalars(told.where(AssetEvent.source_dag_id.startswith("asset_"))))


@pytest.mark.postgres
def test_merge_works_on_a_catalog_in_postgresql(postgres_world):
    """Spark's JDBC catalog and PyIceberg's SQL catalog share a PostgreSQL database as they share a SQLite file."""
    world = postgres_world
    world.run("merge_incremental", world.gain_a_day("db.playback"))
    _, record = world.run("merge_incremental", world.gain_a_day("db.playback"))
    assert_reads_new_files_only(record, world, "db.playback")
    assert continue_watching(world) == stopped_at(world.rows("db.playback"))
