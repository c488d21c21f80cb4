"""A job that fails, a recovery, and the job once more: the commit goes by whichever of the two succeeded."""

from tests.system.playback.events import append_rows, last_versions, make_source
from tests.system.playback.few_days import fail, gain_a_day, span

PLAIN, INCREMENTAL = "auto_remediation_plain", "auto_remediation_incremental"
MOST_SECONDS = 86_400
COLUMNS = ("event_id", "event_date", "account_id", "title_id", "watched_seconds", "received_at")


def assert_recomputed(world, dag_id):
    """The last version of each event that can be, and in quarantine each that cannot, once."""
    events = world.rows("db.playback")
    good = last_versions([e for e in events if e["watched_seconds"] <= MOST_SECONDS])
    bad = [(e["event_id"], e["received_at"]) for e in events if e["watched_seconds"] > MOST_SECONDS]
    found = [tuple(r[c] for c in COLUMNS) for r in world.rows(f"db.{dag_id}")]
    assert sorted(found) == sorted(tuple(e[c] for c in COLUMNS) for e in good)
    held = [(r["event_id"], r["received_at"]) for r in world.rows(f"db.{dag_id}_quarantine")]
    assert sorted(held) == sorted(bad)


def gain_impossible_events(world, count):
    """Events of the newest day that last for two days: the days before it are written when the job meets them."""
    events = sorted(world.rows("db.playback"), key=lambda e: e["event_date"])[-count:]
    new = [{**e, "event_id": e["event_id"] + 900_000, "watched_seconds": 2 * MOST_SECONDS} for e in events]
    append_rows(world, "db.playback", new)


def test_a_failure_is_recovered_from_and_its_range_covered(world):
    """A half-written range, a recovery that fails, one that helps: no event is lost or there twice."""
    make_source(world)
    good, _ = world.run(INCREMENTAL, gain_a_day(world))
    assert good.task_states == {
        "capture": "success",
        "daily": "success",
        "recover": "skipped",
        "daily_again": "skipped",
        "commit": "success",
    }
    written = len(world.rows(f"db.{INCREMENTAL}"))

    day = gain_a_day(world)
    gain_impossible_events(world, 2)
    failed = world.attempt(INCREMENTAL, day, after={"recover": fail})
    assert failed.task_states == {
        "capture": "success",
        "daily": "failed",
        "recover": "failed",
        "daily_again": "upstream_failed",
        "commit": "failed",
    }
    assert len(world.rows(f"db.{INCREMENTAL}")) > written, "nothing was written by halves: this shows too little"

    day = gain_a_day(world)
    gain_impossible_events(world, 1)
    remedied, _ = world.run(INCREMENTAL, day)
    states = remedied.task_states
    assert (states["daily"], states["recover"], states["daily_again"]) == ("failed", "success", "success")
    assert span(world, remedied)[0] == span(world, failed)[0] == span(world, good)[1]
    assert_recomputed(world, INCREMENTAL)
    plain = world.attempt(PLAIN, day)
    assert plain.task_states == {"daily": "failed", "recover": "success", "daily_again": "success"}
    assert_recomputed(world, PLAIN)

    idle, _ = world.run(INCREMENTAL, day.replace(hour=1))
    assert set(idle.task_states.values()) == {"success", "skipped"}, "the checkpoint does not stand at the head"
    assert world.xcom(idle, "capture", "capture")["requested"]["settled"]


def test_a_failure_of_another_kind_is_not_taken_for_a_recovered_one(world):
    """The recovery finds nothing to repair, so it fails, the run is red, and the next run covers the range."""
    day = gain_a_day(world)
    failed = world.attempt(INCREMENTAL, day, after={"daily": fail})
    assert failed.task_states["recover"] == "failed"
    assert (failed.task_states["commit"], failed.state) == ("failed", "failed")

    caught_up, _ = world.run(INCREMENTAL, gain_a_day(world))
    assert span(world, caught_up)[0] == span(world, failed)[0]
    assert_recomputed(world, INCREMENTAL)


def test_a_capture_that_fails_is_not_recovered_from(world):
    """Airflow's one_failed runs after upstream_failed too: the recovery has no table to read, and commit nothing."""
    gain_a_day(world)
    world.catalog.load_table("db.playback").delete("title_id = 1")
    failed = world.attempt(INCREMENTAL, gain_a_day(world))
    assert (failed.task_states["capture"], failed.task_states["commit"]) == ("failed", "failed")
    assert failed.task_states["daily_again"] == "upstream_failed"
