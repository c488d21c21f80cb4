"""What `airflow ips` learns from a server: runs that ended without a commit, and the connections of captures."""

import json

import pytest
from airflow.sdk import DAG

from tests.checkpoints.test_cli import ips
from tests.kit.pipelines import Job, capturing, incremental
from tests.kit.tables import append, create

__all__ = ["ips"]
pytestmark = pytest.mark.usefixtures("airflow_database")


@pytest.fixture
def events(lake):
    table = create(lake, "db.events")
    append(table, [1, 2])
    return table


def listed(ips, consumer):
    return {row["consumer"]: row for row in ips("list").rows}[consumer]


def delete(dag_run):
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        session.delete(session.get(DagRun, dag_run.id))


def test_a_run_that_failed_is_a_problem_until_the_next_one_commits(ips, lake, events, run_dag):
    """Its capture is pending, and nobody works on it. Its sources are listed though it has committed none of them."""
    job = Job(lake)
    dag = incremental("listed", "db.events", job)
    job.fails = True
    run_dag(dag)
    assert listed(ips, "listed.capture")["sources"] == "db.events"
    assert listed(ips, "listed.capture")["problem"].startswith("the run has ended (failed) without a commit")
    job.fails = False
    run_dag(dag)
    assert listed(ips, "listed.capture")["problem"] is None


def test_a_full_refresh_that_failed_is_a_problem_though_nothing_is_pending(ips, lake, events, run_dag):
    """All other runs of the consumer are refused."""
    job = Job(lake)
    dag = incremental("refreshed", "db.events", job)
    run_dag(dag)
    job.fails = True
    run_dag(dag, conf={"ips_run": "full"})
    assert listed(ips, "refreshed.capture")["problem"].startswith("a full refresh has ended (failed)")


def test_a_run_at_work_is_not_a_problem(ips, lake, events, run_dag):
    """Its job may take hours."""
    said = []
    with DAG("at_work", schedule=None) as dag:
        captured = capturing("db.events")
        captured >> task_that(lambda: said.append(listed(ips, "at_work.capture")["problem"]))
    run_dag(dag)
    assert said == [None]


def test_a_dag_without_a_commit_is_said_to_have_none(ips, lake, events, run_dag):
    """Each of its runs captures the same rows again."""
    with DAG("uncommitted", schedule=None) as dag:
        capturing("db.events")
    run_dag(dag)
    assert "has no IpCommitOperator" in listed(ips, "uncommitted.capture")["problem"]


def test_a_deleted_run_is_a_problem(ips, lake, events, run_dag):
    job = Job(lake)
    job.fails = True
    delete(run_dag(incremental("run_deleted", "db.events", job)).dag_run)
    assert listed(ips, "run_deleted.capture")["problem"].startswith("the run was deleted")


def task_that(call):
    from airflow.providers.standard.operators.python import PythonOperator

    return PythonOperator(task_id="look", python_callable=call)


@pytest.mark.parametrize("named", [None, "by_name"])
def test_commands_use_the_connection_of_the_capture(ips, lake, events, run_dag, named):
    """Nobody has to repeat what the DAG says; `iceberg_default` does not even exist here."""
    dag_id = f"own_connection_{named}"
    dag = incremental(dag_id, "db.events", Job(lake), capture={"consumer": named} if named else {})
    run = run_dag(dag).dag_run
    consumer = named or f"{dag_id}.capture"
    said = ips("replay", "--consumer", consumer, "--run-id", run.run_id, "--dry-run")
    assert (said.failure, [row["source"] for row in said.rows]) == ("", ["db.events"])
    lineage = [row for row in ips("doctor", "--consumer", consumer).rows if row["check"] == "lineage"]
    assert [row["status"] for row in lineage] == ["ok"]


def test_a_list_looks_at_branches_by_the_connections_of_their_captures(ips, lake, events, run_dag):
    """Each consumer may have its own."""
    run_dag(incremental("listed_branch", "db.events", Job(lake), capture={"capture_mode": "BRANCH"}))
    listed = {row["consumer"]: row for row in ips("list").rows}
    assert listed["listed_branch.capture"]["held_bytes"] == "0"


def test_a_connection_that_is_named_is_used(ips, lake, events, run_dag, monkeypatch):
    """Also where the capture has another one."""
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "http"}))
    dag = incremental("other_connection", "db.events", Job(lake))
    run = run_dag(dag).dag_run
    words = ("replay", "--consumer", "other_connection.capture", "--run-id", run.run_id, "--dry-run")
    assert "connection 'other' is of type 'http'" in ips(*words, "--conn-id", "other").failure


def test_a_consumer_that_no_stored_dag_knows_has_the_usual_connection(ips):
    """Such as one that is to be seeded before its DAG exists."""
    said = ips("seed", "--consumer", "not.there", "--table", "db.events", "--latest", "--dry-run")
    assert "connection 'iceberg_default' does not exist" in said.failure
