"""Rows are written to a branch, audited, published; readers, checkpoint and next stage see only what was published."""

from datetime import timedelta
from functools import partial

from airflow_provider_ips.iceberg import capture
from tests.system.playback.events import append_rows, make_source
from tests.system.playback.few_days import fail, first_task_waits, gain_a_day, span

DAG_ID = "write_audit_publish_incremental"
TARGET = "db.playback_audited"
PLAIN, PLAIN_TARGET = f"{DAG_ID}_plain", f"{TARGET}_plain"
LONG = 2_000


def rows_of(table):
    """What the target has of each event, by whichever scan."""
    return sorted(
        (r["event_id"], r["event_date"], r["account_id"], r["title_id"], round(r["watched_minutes"], 4)) for r in table
    )


def assert_recomputed(world):
    """Every event of the source, as often as it was sent, is published."""
    events = world.rows("db.playback")
    expected = [{**e, "watched_minutes": e["watched_seconds"] / 60} for e in events]
    assert rows_of(world.rows(TARGET)) == rows_of(expected)


def head(world):
    return world.catalog.load_table(TARGET).current_snapshot().snapshot_id


def branches(world):
    return set(world.catalog.load_table(TARGET).metadata.refs)


def captured_next(world, since, into):
    """What a following stage would capture of the target."""
    record = capture(world.catalog, TARGET, since=since, into=into)
    return rows_of(world.rows(record.icdc_table) if record.icdc_table else []), record


def gain_a_long_event(world):
    """An event that the audit has never seen the like of."""
    event = world.rows("db.playback")[0]
    append_rows(world, "db.playback", [{**event, "event_id": 7, "watched_seconds": 60 * LONG}])


def test_what_the_audit_refuses_is_seen_by_nobody_until_its_run_publishes_it(world):
    """A day, and one that the audit refuses: the next one waits, and main moves twice, and so does what captures it."""
    make_source(world)
    first, _ = world.run(DAG_ID, gain_a_day(world))
    assert_recomputed(world)
    assert branches(world) == {"main"}
    published, before = head(world), world.rows(TARGET)

    day = gain_a_day(world)
    gain_a_long_event(world)
    refused = world.attempt(DAG_ID, day)
    assert refused.task_states == {
        "capture": "success",
        "write": "success",
        "audit": "failed",
        "publish": "upstream_failed",
        "commit": "upstream_failed",
    }
    assert head(world) == published
    (left,) = branches(world) - {"main"}
    assert captured_next(world, published, "icdc.after_refusal")[0] == []

    waits = partial(world.ask, first_task_waits, DAG_ID, day + timedelta(days=1))
    assert waits()

    # The worker that writes dies once more, behind its insert; nothing of that attempt may be published.
    died = world.attempt(DAG_ID, day, after={"write": fail})
    assert head(world) == published
    again, record = world.run(DAG_ID, day, conf={"most_minutes": LONG})
    assert span(world, again) == span(world, died) == span(world, refused)
    assert span(world, again)[0] == span(world, first)[1]
    assert_recomputed(world)
    assert left == f"audit_{record['capture_id']}"
    assert branches(world) == {"main"}
    assert not waits()
    new, told = captured_next(world, published, "icdc.after_publication")
    assert sorted(new + rows_of(before)) == rows_of(world.rows(TARGET))
    assert [verdict.decision.value for verdict in told.verdicts] == ["captured"]

    # The plain twin looks at the long event once more, with all of its window, and publishes the same rows.
    refused = world.attempt(PLAIN, day)
    assert (refused.task_states["audit"], refused.task_states["publish"]) == ("failed", "upstream_failed")
    assert world.rows(PLAIN_TARGET) == []
    assert world.attempt(PLAIN, day, conf={"most_minutes": LONG}).state == "success"
    assert rows_of(world.rows(PLAIN_TARGET)) == rows_of(world.rows(TARGET))
    assert set(world.catalog.load_table(PLAIN_TARGET).metadata.refs) == {"main"}
    assert world.catalog.load_table(TARGET).current_snapshot().summary["ips-capture-id"] == record["capture_id"]


def test_a_run_that_published_and_lost_its_commit_is_repeated_without_harm(world):
    """The next day waits; the day is cleared, finds its rows in main, and moves the checkpoint."""
    day = gain_a_day(world)
    lost = world.attempt(DAG_ID, day, after={"commit": fail})
    assert (lost.task_states["publish"], lost.task_states["commit"]) == ("success", "failed")
    published = head(world)
    assert world.ask(first_task_waits, DAG_ID, day + timedelta(days=1))
    world.run(DAG_ID, day)
    assert head(world) == published
    assert_recomputed(world)
