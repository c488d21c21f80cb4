"""What captures, commits, sensors and triggers see is written down, for people, and costs little."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_ips import sightings
from airflow_provider_ips.checkpoints.variable import ServerVariables, TaskVariables
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting, SeenBy
from airflow_provider_ips.core.sightings.table_sighting import Effect, TableSighting
from airflow_provider_ips.core.watching.watch import Watch
from airflow_provider_ips.runs.environment import now_ms
from airflow_provider_ips.watching import Poller
from tests.kit.pipelines import checkpoint_of, default_store, incremental
from tests.kit.tables import append

EVENTS = Source("db.events")


def seen(consumer):
    return sightings.read_consumer(ServerVariables(), consumer)


def test_a_run_writes_down_what_it_saw_and_what_its_commit_left(events, job, run_dag):
    """The second run, with a limit: the commit leaves what came after the end of its range."""
    dag = incremental("sees", "db.events", job, capture={"max_snapshots": 1, "target_lag": timedelta(hours=1)})
    run_dag(dag)
    for ids in ([4, 5], [6]):
        append(events, ids)
    job.fails = True
    run_dag(dag)

    captured = seen("sees.capture")
    (source,) = captured.sources

    assert (captured.seen_by, captured.dag_id, captured.task_id) == (SeenBy.CAPTURE, "sees", "capture")
    assert (source.lag.commits, source.lag.volume.files, source.lag.volume.records) == (2, 2, 3)
    assert source.committed.snapshot_id == checkpoint_of("sees.capture").position_of(EVENTS).snapshot_id
    assert captured.pending.capture_id == checkpoint_of("sees.capture").pending.capture_id
    assert (source.pending.rest.commits, source.pending.captured.records) == (1, 2)
    assert captured.target_lag_s == 3600
    assert captured.breach is None

    job.fails = False
    run_dag(dag)
    committed = seen("sees.capture")

    assert (committed.seen_by, committed.pending) == (SeenBy.COMMIT, None)
    assert (committed.sources[0].lag.commits, committed.sources[0].lag.volume.records) == (1, 1)
    assert committed.sources[0].seen_by is SeenBy.CAPTURE, "the commit looks at no table"
    assert committed.sources[0].committed == checkpoint_of("sees.capture").position_of(EVENTS)
    assert len(committed.points) == 5, "of two captures with their commits, and one whose job failed"


def test_a_table_is_written_down_with_its_commits(events, job, run_dag):
    """Each commit, newest first, so that a page can tell who has processed it."""
    append(events, [4])
    run_dag(incremental("sees_table", "db.events", job))

    (table,) = sightings.read_all(TableSighting)

    assert table == sightings.read_table(ServerVariables(), "lake", EVENTS)
    assert [commit.effect for commit in table.commits] == [Effect.APPEND] * 2
    assert table.commits[0].snapshot_id == events.refresh().current_snapshot().snapshot_id
    assert table.commits[0].parent_id == table.commits[1].snapshot_id
    assert not table.has_more


def test_a_gap_is_written_down_though_the_capture_fails(events, job, run_dag):
    """The table was rolled back: what the capture refuses is what people have to see."""
    dag = incremental("sees_gap", "db.events", job)
    first = events.current_snapshot().snapshot_id
    append(events, [4])
    run_dag(dag)
    events.refresh().manage_snapshots().rollback_to_snapshot(first).commit()
    append(events, [5])

    assert "capture" in run_dag(dag).errors

    (source,) = seen("sees_gap.capture").sources
    assert "not in the lineage" in source.gap
    assert source.lag.commits is None
    assert source.lag_s(source.seen_at_ms) is None


def test_an_empty_run_says_that_nothing_is_left(events, job, run_dag):
    dag = incremental("sees_nothing", "db.events", job)
    for _ in range(2):
        run_dag(dag)

    sighting = seen("sees_nothing.capture")

    assert sighting.lag_s(sighting.seen_at_ms) == 0
    assert sighting.pending is None


def test_no_sighting_is_taken_for_a_checkpoint(events, job, run_dag):
    """They are Variables of the same prefix."""
    run_dag(incremental("sees_both", "db.events", job))

    assert [consumer for _, consumer, _ in default_store().documents()] == ["sees_both.capture"]
    assert [each.consumer for each in sightings.read_all(ConsumerSighting)] == ["sees_both.capture"]
    assert [each.source for each in sightings.read_all(TableSighting)] == [EVENTS]


@pytest.mark.parametrize("damage", ["", "{}", "***", "[" * 10_000])
def test_a_damaged_sighting_is_replaced(events, job, run_dag, damage):
    dag = incremental("sees_damage", "db.events", job)
    run_dag(dag)
    key = seen("sees_damage.capture").key
    ServerVariables().set(key, damage or "x", description="")

    assert set(run_dag(dag).states.values()) == {"success", "skipped"}
    assert seen("sees_damage.capture") is not None


def test_a_sighting_that_cannot_be_stored_fails_nothing(events, job, run_dag, monkeypatch, caplog):
    """It is logged by type and text, without secrets."""
    set_variable = TaskVariables.set

    def refuse(self, key, value, *, description):
        if key.startswith("ips_seen"):
            raise OSError("no route to https://me:secret-word@host")
        set_variable(self, key, value, description=description)

    monkeypatch.setattr(TaskVariables, "set", refuse)

    assert set(run_dag(incremental("sees_outage", "db.events", job)).states.values()) == {"success"}
    assert "was not stored: OSError" in caplog.text
    assert "secret-word" not in caplog.text


def test_what_a_run_reads_and_writes_for_people_is_little(events, job, run_dag, monkeypatch):
    """One Variable read and written by a capture and by its commit, and one written for a table with a new head."""
    dag = incremental("counted", "db.events", job)
    run_dag(dag)
    append(events, [4])
    calls = calls_for_people(monkeypatch)

    run_dag(dag)
    with_news = list(calls)
    calls.clear()
    run_dag(dag)

    assert with_news == ["get seen", "set seen", "set table", "get seen", "set seen"]
    assert calls == ["get seen", "set seen"], "of a capture without news"


def calls_for_people(monkeypatch):
    """What tasks read and write of sightings from now on."""
    found: list[str] = []

    def note(verb):
        call = getattr(TaskVariables, verb)

        def noting(self, key, *args, **kwargs):
            if key.startswith(("ips_seen_", "ips_table_")):
                found.append(f"{verb} {key.split('_')[1]}")
            return call(self, key, *args, **kwargs)

        monkeypatch.setattr(TaskVariables, verb, noting)

    note("get")
    note("set")
    return found


def test_a_sensor_writes_down_what_it_sees_once_in_a_while(events, job, run_dag, monkeypatch):
    """Any number of polls stores one sighting in five minutes, of what came since the one before."""
    dag = incremental("polled", "db.events", job)
    run_dag(dag)
    append(events, [4, 5])
    polled = polling("polled")
    written = writes(monkeypatch)
    for _ in range(3):
        polled.poll()
    assert not written, "the commit was seen a moment ago"

    later = now_ms() + 5 * 60_000
    for passed in (0, 1, 299_999, 300_000):
        monkeypatch.setattr("airflow_provider_ips.watching.now_ms", lambda passed=passed: later + passed)
        polled.poll()

    sighting = seen("polled.capture")
    assert written == ["ips_seen"] * 2
    assert (sighting.seen_by, sighting.dag_id, sighting.sources[0].lag.commits) == (SeenBy.SENSOR, "polled", 1)


def polling(dag_id):
    watch = Watch.parse(table="db.events", consumer=f"{dag_id}.capture")
    return Poller(watch, "lake", None, consumer_may_be_new=False)


def writes(monkeypatch):
    """The kinds of the sightings that tasks write from now on."""
    found: list[str] = []

    def note(self, key, value, *, description):
        found.append(key[: key.index("_", 4)])
        ServerVariables().set(key, value, description=description)

    monkeypatch.setattr(TaskVariables, "set", note)
    monkeypatch.setattr(TaskVariables, "get", lambda _, key: ServerVariables().get(key))
    return found
