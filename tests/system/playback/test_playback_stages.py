"""The talk's two stages, beside the same two as a lookback: late events and corrections arrive at the totals."""

from collections import defaultdict
from datetime import timedelta

from tests.system.playback.events import append_rows, gain_a_day, last_versions, make_source, sorted_rows

PLAIN, INCREMENTAL = "playback_stages_plain", "playback_stages_incremental"


def totals(events):
    """The second stage's table, computed from all rows of the first one's."""
    groups = defaultdict(list)
    for e in events:
        groups[e["event_date"], e["account_id"]].append(e)
    return [
        {
            "event_date": day,
            "account_id": account,
            "events": len(group),
            "titles": len({e["title_id"] for e in group}),
            "watched_seconds": sum(e["watched_seconds"] for e in group),
        }
        for (day, account), group in groups.items()
    ]


def assert_recomputed(world, dag_id):
    """Both targets of a pipeline are what one computation over the whole source makes."""
    events = last_versions(world.rows("db.playback"))
    assert sorted_rows(world.rows(f"db.{dag_id}")) == sorted_rows(events)
    assert sorted_rows(world.rows(f"db.{dag_id}_agg")) == sorted_rows(totals(events))


def fail():
    raise RuntimeError("the worker died when the job had written")


def older_than_any_window(world):
    """An event of sixty days ago. Only the incremental pipeline has no window that it could lie before."""
    newest = max(world.rows("db.playback"), key=lambda e: (e["event_date"], e["event_id"]))
    past = timedelta(days=60)
    return {**newest, "event_date": newest["event_date"] - past, "event_time": newest["event_time"] - past}


def test_both_twins_equal_a_full_recomputation_day_after_day(world):
    """Rows come late, are corrected, move to another account: both tables of both twins are what the source says."""
    make_source(world)
    for corrected in (0, 20, 40):
        day = gain_a_day(world, corrected=corrected)
        keys_before = keys_of(world)
        world.run(PLAIN, day)
        world.run(INCREMENTAL, day)
        assert_recomputed(world, PLAIN)
        assert_recomputed(world, INCREMENTAL)
    assert keys_before - keys_of(world), "no key lost its last row: the corrections did not test what they should"


def keys_of(world):
    """The keys of the totals, if there are totals yet."""
    name = f"db.{INCREMENTAL}_agg"
    rows = world.rows(name) if world.catalog.table_exists(name) else []
    return {(r["event_date"], r["account_id"]) for r in rows}


def test_the_second_stage_catches_up_on_a_day_without_events(world):
    """Its job fails when it has written; the next run has nothing for stage 1, and stage 2 makes up for it."""
    day = gain_a_day(world, corrected=10)
    append_rows(world, "db.playback", [older_than_any_window(world)])
    failed = world.attempt(INCREMENTAL, day, after={"aggregate": fail})
    assert failed.task_states["commit"] == "success"
    assert failed.task_states["commit_changes"] == "upstream_failed"

    caught_up, _ = world.run(INCREMENTAL, day.replace(hour=1))
    states = caught_up.task_states
    assert (states["daily"], states["commit"]) == ("skipped", "skipped")
    assert (states["aggregate"], states["commit_changes"]) == ("success", "success")
    assert_recomputed(world, INCREMENTAL)

    idle, _ = world.run(INCREMENTAL, day.replace(hour=2))
    assert idle.task_states["aggregate"] == "skipped"
