"""Two tables that both gain rows, joined pair by pair: none is lost and none comes twice, whatever is written when."""

from functools import partial

import pytest

from scripts.lake import Lake, midnight
from tests.kit.example_world import FIRST_DAY
from tests.system.playback.events import append_rows, make_source

DAG, CONSUMER, TARGET = "multi_table_join_incremental", "multi_table_join_incremental.capture", "db.downloads_played"
PLAYS, DOWNLOADS = "db.playback", "db.downloads"


@pytest.fixture(scope="module")
def sources(world):
    """Both tables, without a row and without a snapshot."""
    make_source(world, PLAYS)
    make_source(world, DOWNLOADS)
    return world


def event(number, title):
    at = midnight(FIRST_DAY)
    return {
        "event_id": number,
        "event_date": FIRST_DAY,
        "event_time": at,
        "account_id": 7,
        "title_id": title,
        "watched_seconds": 1,
        "received_at": at,
        "device": "tv",
    }


def gain(world, name, *numbers, title=1):
    append_rows(world, name, [event(number, title) for number in numbers])


def pairs(world, target=TARGET):
    """What the target holds, as often as it holds it."""
    return sorted((row["play_id"], row["download_id"]) for row in world.rows(target))


def all_pairs(world):
    """What it should hold: the join of all plays with all downloads."""
    plays, downloads = world.rows(PLAYS), world.rows(DOWNLOADS)
    return sorted((p["event_id"], d["event_id"]) for p in plays for d in downloads if p["title_id"] == d["title_id"])


def gain_elsewhere(lake: Lake, *gains):
    """Append to tables from another process, as writers do that know nothing of the capture."""
    catalog = lake.catalog()
    for name, number in gains:
        append_rows(_Elsewhere(catalog), name, [event(number, 1)])


class _Elsewhere:
    def __init__(self, catalog):
        self.catalog = catalog


def expire_elsewhere(lake: Lake, name: str, snapshot_id: int):
    lake.catalog().load_table(name).maintenance.expire_snapshots().by_id(snapshot_id).commit()


def at(hour):
    return midnight(FIRST_DAY).replace(hour=hour)


def test_every_pair_comes_once_whatever_is_written_between_capture_and_job(sources):
    """From an empty table on; both sides gain, during a run too; then one side alone, with nothing that matches."""
    world = sources
    gain(world, PLAYS, 1, 2)
    _, record = world.run(DAG, at(0))
    assert record["sources"][1]["to"]["snapshot_id"] is None, "downloads should not have had a snapshot yet"
    assert pairs(world) == []

    gain(world, PLAYS, 3)
    gain(world, DOWNLOADS, 10, 11)
    during = partial(gain_elsewhere, world.lake, (PLAYS, 4), (DOWNLOADS, 12))
    world.run(DAG, at(1), after={"capture": during})
    of_the_capture = sorted((play, download) for play in (1, 2, 3) for download in (10, 11))
    assert pairs(world) == of_the_capture, "what came behind the capture belongs to the next one"
    world.run(DAG, at(2))
    assert pairs(world) == all_pairs(world)
    assert (4, 12) in pairs(world)

    gain(world, DOWNLOADS, 13, title=2)
    _, record = world.run(DAG, at(3))
    assert [source["kind"] for source in record["sources"]] == ["empty", "range"]
    assert pairs(world) == all_pairs(world)
    for hour in (3, 4):
        assert world.attempt(f"{DAG}_plain", at(hour)).state == "success"
        assert pairs(world, f"{TARGET}_plain") == all_pairs(world)


def test_an_expired_start_is_an_error_and_a_new_start_makes_the_join_anew(sources):
    """The rows as of the start are not to be had any more: the job fails, and after a reset all pairs are there."""
    world = sources
    start = world.catalog.load_table(PLAYS).current_snapshot().snapshot_id
    gain(world, PLAYS, 5)
    gain(world, DOWNLOADS, 14)
    before = pairs(world)
    expire = partial(expire_elsewhere, world.lake, PLAYS, start)
    failed = world.attempt(DAG, at(4), after={"capture": expire})
    assert (failed.task_states["join"], failed.task_states["commit"]) == ("failed", "upstream_failed")
    assert f"{start}" in world.end_of_log()
    assert pairs(world) == before

    reset = {"command": "reset", "consumer": CONSUMER, "confirm": CONSUMER, "dry_run": False}
    assert world.attempt("ips_maintenance", at(5), conf=reset).state == "success"
    _, record = world.run(DAG, at(4))
    assert [source["kind"] for source in record["sources"]] == ["full", "full"]
    assert pairs(world) == all_pairs(world)
