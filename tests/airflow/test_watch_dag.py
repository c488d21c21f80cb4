"""The DAG ips_watch: it sees consumers for which no run starts, loads each table once, and notifies once."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from airflow.sdk.bases.notifier import BaseNotifier

from airflow_provider_ips import SourceTable, ips_watch, sightings
from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.sightings.consumer_sighting import Freshness, SeenBy
from airflow_provider_ips.core.sightings.table_sighting import TableSighting
from airflow_provider_ips.runs.environment import now_ms
from tests.airflow.counting import IMPLEMENTATION, CountingCatalog
from tests.kit.pipelines import Job, incremental
from tests.kit.tables import append, create


def seen(consumer):
    return sightings.read_consumer(ServerVariables(), consumer)


@pytest.fixture
def loads(lake, monkeypatch):
    """The names of the tables that are loaded through the connection."""
    extra = {**{k: v for k, v in lake.properties.items() if k != "type"}, "py-catalog-impl": IMPLEMENTATION}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": extra}))
    CountingCatalog.loads.clear()
    CountingCatalog.faults.clear()
    yield CountingCatalog.loads
    CountingCatalog.faults.clear()


class Pager(BaseNotifier):
    """A notifier as its author would write it."""

    template_fields = ("text",)

    def __init__(self, pages, text="{{ ips.message }}"):
        super().__init__()
        self.pages, self.text = pages, text

    def notify(self, context):
        self.pages.append((context["ips"]["state"], self.text))
        self.text = "{{ ips.message }}"


def watch(pages=(), **options):
    return ips_watch(
        schedule=None,
        iceberg_conn_id="lake",
        on_breach_callback=Pager(pages),
        on_recovery_callback=[Pager(pages)],
        **options,
    )


def test_it_sees_what_came_though_no_run_starts(events, job, run_dag):
    run_dag(incremental("idle", "db.events", job, capture={"target_lag": timedelta(hours=1)}))
    append(events, [4, 5])
    append(events, [6])

    ran = run_dag(watch())

    found = seen("idle.capture")
    assert ran.states == {"look": "success"}
    assert (found.seen_by, found.dag_id, found.task_id, found.target_lag_s) == (SeenBy.WATCH, "idle", "capture", 3600)
    assert (found.sources[0].lag.commits, found.sources[0].lag.volume.records) == (2, 3)
    assert found.freshness(now_ms()) is Freshness.KEPT
    assert dict(found.settings)["on_gap"] == "fail", "what only the capture knows is kept"
    assert [len(table.commits) for table in sightings.read_all(TableSighting)] == [3]
    assert ran.xcom("return_value", "look") == {
        "consumers": 1,
        "gap": [],
        "breached": [],
        "stranded soon": [],
        "unknown": [],
    }


def test_what_a_first_run_captured_is_seen_though_it_has_not_committed(events, job, run_dag):
    """A look takes nothing away that the capture has written down."""
    job.fails = True
    run_dag(incremental("uncommitted", "db.events", job))

    run_dag(watch())

    (source,) = seen("uncommitted.capture").sources
    assert (source.source.table, source.committed, source.lag.commits) == ("db.events", None, None)
    assert source.pending.to_inclusive.snapshot_id == events.current_snapshot().snapshot_id


def test_a_breach_is_reported_once_and_once_when_it_is_over(events, job, run_dag):
    """Whoever sees the end: here it is the commit of a run."""
    pages: list[tuple[str, str]] = []
    dag = incremental("late", "db.events", job, capture={"target_lag": timedelta(seconds=1)})
    run_dag(dag)
    watching = watch(pages)
    run_dag(watching)
    assert pages == []

    append(events, [4])
    while now_ms() - seen_time(events) <= 1000:
        pass
    for _ in range(2):
        ran = run_dag(watching)

    ((state, text),) = pages
    assert state == "breached"
    assert "Consumer late.capture lags by 0:00:0" in text
    assert "more than its target of 0:00:01" in text
    assert ran.xcom("return_value", "look")["breached"] == ["late.capture"]
    assert seen("late.capture").breach.is_open

    run_dag(dag)
    assert not seen("late.capture").breach.is_open
    for _ in range(2):
        run_dag(watching)

    assert [state for state, _ in pages] == ["breached", "kept"]
    assert "keeps its target of 0:00:01 again" in pages[1][1]
    assert seen("late.capture").breach is None


def seen_time(table):
    return table.refresh().current_snapshot().timestamp_ms


def test_a_notification_that_fails_is_sent_again(events, job, run_dag):
    pages: list[str] = []

    def fail_once(context):
        pages.append(context["ips"]["state"])
        if len(pages) == 1:
            raise OSError("the pager does not answer")

    dag = ips_watch(
        schedule=None,
        iceberg_conn_id="lake",
        target_lag={"paged.capture": timedelta(seconds=1)},
        on_breach_callback=fail_once,
    )
    run_dag(incremental("paged", "db.events", job))
    append(events, [4])
    while now_ms() - seen_time(events) <= 1000:
        pass

    assert [run_dag(dag).states["look"] for _ in range(3)] == ["success"] * 3
    assert pages == ["breached", "breached"]


def test_each_table_is_loaded_once_however_many_consumers_read_it(lake, run_dag, loads):
    """And each branch of it, by the same load."""
    job = Job(lake)
    for name in ("db.events", "db.users"):
        append(create(lake, name), [1])
    lake.load_table("db.events").manage_snapshots().create_branch(
        lake.load_table("db.events").current_snapshot().snapshot_id, "audit"
    ).commit()
    for number in range(3):
        run_dag(incremental(f"reads_{number}", ["db.events", "db.users"], job))
    of_branch = SourceTable("db.events", branch="audit", key="db.events")
    run_dag(incremental("reads_branch", "db.events", job, capture={"source_tables": of_branch}))
    loads.clear()

    run_dag(watch())

    of_sources = [name for name in loads if name.startswith("db.")]  # checkpoints may be in tables, too
    assert sorted(of_sources) == ["db.events", "db.users"]
    assert seen("reads_branch.capture").sources[0].source == Source("db.events", "audit")


def test_an_outage_leaves_what_was_seen_and_says_so(lake, run_dag, loads):
    """The other tables are looked at all the same."""
    job = Job(lake)
    for name in ("db.events", "db.users"):
        append(create(lake, name), [1])
        run_dag(incremental(f"of_{name[3:]}", name, job))
    before = seen("of_events.capture").sources[0]
    CountingCatalog.faults["db.events"] = OSError("no answer from https://me:secret-word@host")

    assert run_dag(watch()).states == {"look": "success"}

    after = seen("of_events.capture").sources[0]
    assert (after.lag, after.seen_at_ms) == (before.lag, before.seen_at_ms)
    assert "no answer" in after.problem
    assert "secret-word" not in after.problem
    assert seen("of_users.capture").seen_by is SeenBy.WATCH


def test_a_checkpoint_in_iceberg_is_watched_too(lake, events, job, run_dag, monkeypatch):
    monkeypatch.setenv("AIRFLOW__IPS__CHECKPOINT_STORE", "iceberg")
    run_dag(incremental("in_iceberg", "db.events", job))
    append(events, [4])

    run_dag(watch())

    assert seen("in_iceberg.capture").sources[0].lag.commits == 1


def test_a_target_of_a_consumer_that_never_ran_is_unknown(events, run_dag):
    """Its name may be misspelt; it would never be late."""
    ran = run_dag(watch(target_lag={"never.ran": timedelta(hours=1)}))

    assert ran.xcom("return_value", "look")["unknown"] == ["never.ran"]
