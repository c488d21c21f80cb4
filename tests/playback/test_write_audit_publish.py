"""Rows are written to a branch, audited, published; readers, checkpoint and next stage see only what was published."""

from airflow_provider_ips.iceberg import capture
from tests.playback.events import append_rows, make_source
from tests.playback.few_days import fail, gain_a_day, span

DAG_ID = "ips_write_audit_publish"
TARGET = "db.playback_audited"
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


def test_what_the_audit_refuses_is_seen_by_nobody_until_a_later_run_publishes_it(world):
    """A day, one that fails its audit, one whose worker dies, one that covers all: main moves twice, stage 2 too."""
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

    # The worker that writes dies once more, behind its insert; nothing of that attempt may be published.
    died = world.attempt(DAG_ID, gain_a_day(world), after={"write": fail})
    assert head(world) == published
    again, record = world.run(DAG_ID, gain_a_day(world), conf={"most_minutes": LONG})
    assert span(world, again)[0] == span(world, died)[0] == span(world, refused)[0] == span(world, first)[1]
    assert_recomputed(world)
    assert left in branches(world), "the refused branch is there to be looked at"
    new, told = captured_next(world, published, "icdc.after_publication")
    assert sorted(new + rows_of(before)) == rows_of(world.rows(TARGET))
    assert [verdict.decision.value for verdict in told.verdicts] == ["captured"]
    assert world.catalog.load_table(TARGET).current_snapshot().summary["ips-capture-id"] == record["capture_id"]
