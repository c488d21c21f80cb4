"""A DAG over Nessie's REST, which shows of each table the current snapshot only."""

import json

import pytest
from pyiceberg.catalog import load_catalog

from airflow_provider_ips.core.errors import GapError
from tests.kit.pipelines import Job, committed_at, incremental
from tests.kit.tables import append, create, icdc_tables

pytestmark = pytest.mark.xdist_group("catalogs")

DONE = {"capture": "success", "work": "success", "commit": "success"}
RESYNC = {"on_gap": "resync"}


@pytest.fixture
def properties(nessie, storage):
    return {"type": "rest", "uri": nessie, **storage.properties}


@pytest.fixture
def lake(properties, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace_if_not_exists("db")
    return catalog


@pytest.fixture
def events(lake, request):
    """A source of three rows, under a name of the test's own."""
    table = create(lake, f"db.{request.node.name}")
    append(table, [1, 2, 3])
    return table


@pytest.fixture
def job(lake):
    return Job(lake)


def name_of(table):
    return ".".join(table.name())


def head_of(table):
    return table.refresh().current_snapshot().snapshot_id


def test_run_after_run_reads_what_was_appended(events, job, lake, run_dag):
    """Also after a run with nothing to do, after a job that failed, and with the capture cleared together with it."""
    dag = incremental("nessie_runs", name_of(events), job, capture=RESYNC)
    assert run_dag(dag).states == DONE
    append(events, [4])
    append(events, [5])
    assert run_dag(dag).states == DONE
    assert run_dag(dag).states["work"] == "skipped"
    append(events, [6])
    job.fails = True
    failed = run_dag(dag)
    assert failed.states["work"] == "failed"
    job.fails = False
    assert run_dag(dag, at=failed.dag_run.logical_date).states == DONE
    append(events, [7])
    job.fails = True
    run_dag(dag)
    append(events, [8])
    job.fails = False
    assert run_dag(dag).states == DONE

    assert job.seen == [[1, 2, 3], [4, 5], [6], [7, 8]]
    assert committed_at("nessie_runs.capture", name_of(events)) == head_of(events)
    assert len(icdc_tables(lake)) == 1


def test_without_on_gap_the_run_fails_and_names_the_choices(events, job, run_dag):
    dag = incremental("nessie_gap", name_of(events), job)
    run_dag(dag)
    append(events, [4])

    failed = run_dag(dag)

    assert isinstance(failed.errors["capture"], GapError)
    assert "on_gap='resync' captures the live files newer" in failed.errors["capture"].remedy
    assert job.seen == [[1, 2, 3]]


def test_a_cleared_capture_whose_table_has_moved_on_hands_out_what_it_had_captured(events, job, run_dag):
    """The end of its range is no longer shown, but its ICDC table exists. The next run continues after it."""
    dag = incremental("nessie_moved_on", name_of(events), job, capture=RESYNC)
    run_dag(dag)
    append(events, [4])
    job.fails = True
    failed = run_dag(dag)
    append(events, [5])
    job.fails = False

    cleared = run_dag(dag, at=failed.dag_run.logical_date)

    assert cleared.states == DONE
    assert run_dag(dag).states == DONE
    assert job.seen == [[1, 2, 3], [4], [5]]
