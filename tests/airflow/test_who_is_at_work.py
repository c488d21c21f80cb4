"""Whoever may still write a target is seen by the next capture: replays, runs that were stopped, other tasks."""

# ruff: noqa: AIR311 - the rows in the database are the subject

from datetime import UTC, datetime, timedelta

import pytest
from airflow.models import Variable
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.identifiers import variable_key
from tests.kit.people import stop
from tests.kit.pipelines import capturing, checkpoint_of, incremental, left_running
from tests.kit.tables import append, create, rows

DONE = {"capture": "success", "work": "success", "commit": "success"}


@pytest.fixture
def replayed(events, job, run_dag):
    """A committed run that was cleared, and whose job failed then. Later rows wait."""
    dag = incremental("replayed", "db.events", job)
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    job.fails = True
    ran = run_dag(dag, at=at)
    job.fails = False
    append(events, [4])
    return dag, at, ran


def test_a_cleared_run_that_is_at_work_is_not_overtaken(replayed, job, run_dag):
    """Its job would write its older rows over those of the run that overtook it."""
    dag, _, cleared = replayed

    with left_running(cleared):
        ran = run_dag(dag)

    assert f"run replayed/{cleared.dag_run.run_id} has captured" in str(ran.errors["capture"])
    assert "still active" in str(ran.errors["capture"])
    assert job.seen == [[1, 2, 3]]


def test_a_cleared_run_that_died_is_not_taken_for_done(replayed, job, run_dag):
    """Its job may have removed rows that it did not insert again. Once it is done, others go on."""
    dag, at, cleared = replayed

    ran = run_dag(dag)
    again = run_dag(dag, at=at)
    after = run_dag(dag)

    assert f"run replayed/{cleared.dag_run.run_id} was cleared" in str(ran.errors["capture"])
    assert again.xcom("commit", task="commit")["outcome"] == "replayed"
    assert after.states == DONE
    assert job.seen == [[1, 2, 3], [1, 2, 3], [4]]


def test_a_run_that_was_marked_failed_is_at_work_until_its_processes_end(events, job, run_dag):
    """They live until their next heartbeat, and may commit to the target until then."""
    dag = incremental("stopped", "db.events", job)
    job.fails = True
    first = run_dag(dag)
    job.fails = False
    stop(dag, first)

    ran = run_dag(dag)
    stop(dag, first, ago=timedelta(minutes=5))
    after = run_dag(dag)

    assert f"run stopped/{first.dag_run.run_id} has captured" in str(ran.errors["capture"])
    assert after.states == DONE


def test_two_captures_of_one_run_do_not_share_a_pending_range(events, job, run_dag):
    """A template gives both the same consumer: the second would take the range of the first for its own."""
    with DAG("same_consumer", schedule=None, params={"who": "both"}) as dag:
        for name in ("one", "two"):
            captured = capturing("db.events", task_id=name, consumer="{{ params.who }}")
            work = PythonOperator(task_id=f"work_{name}", python_callable=job, op_args=[captured.output["db.events"]])
            captured >> work >> IpCommitOperator(task_id=f"commit_{name}", capture=captured)
        dag.task_dict["one"] >> dag.task_dict["two"]
        dag.task_dict["two"] >> dag.task_dict["work_one"]

    ran = run_dag(dag)

    assert "another task instance" in str(ran.errors["two"])
    assert job.seen == []


def test_two_captures_of_one_run_may_share_a_consumer_one_after_the_other(lake, events, job, run_dag):
    """What the first has committed is not the second's to repeat."""
    other = create(lake, "db.others")
    append(other, [7])
    with DAG("in_turn", schedule=None, params={"who": "in turn"}) as dag:
        last = None
        for name, table in (("one", "db.events"), ("two", "db.others")):
            captured = capturing(table, task_id=name, consumer="{{ params.who }}")
            work = PythonOperator(task_id=f"work_{name}", python_callable=job, op_args=[captured.output[table]])
            commit = IpCommitOperator(task_id=f"commit_{name}", capture=captured)
            captured >> work >> commit
            if last is not None:
                last >> captured
            last = commit

    ran = run_dag(dag)

    assert set(ran.states.values()) == {"success"}, ran.errors
    assert job.seen == [[1, 2, 3], [7]]


def test_a_source_that_is_taken_out_after_a_failed_run_is_not_forgotten(lake, events, job, run_dag):
    """Its job may have written rows that the source has removed since, so the next capture of the source covers it."""
    other = create(lake, "db.others")
    append(other, [7])
    options = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow"}

    def of(*sources):
        return incremental("shrunk", list(sources), job, capture=options)

    run_dag(of("db.events", "db.others"))
    for table, ids in ((events, [4]), (other, [8])):
        append(table, ids)
    job.fails = True
    run_dag(of("db.events", "db.others"))
    job.fails = False
    run_dag(of("db.events"))
    lake.load_table("db.others").delete("id = 8")

    ran = run_dag(of("db.events", "db.others"))

    assert ran.states["commit"] == "success", ran.errors
    assert ran.xcom("db.others.before") is not None
    assert checkpoint_of("shrunk.capture").uncommitted == ()


def test_a_renamed_source_is_asked_about_before_it_is_taken_whole_again(lake, events, job, run_dag):
    """Its uuid shows that it is the same table, whatever its name."""
    dag = incremental("moved_table", "db.events", job, capture={"consumer": "keeps its name"})
    run_dag(dag)
    lake.rename_table("db.events", "db.happenings")

    ran = run_dag(incremental("moved_table", "db.happenings", job, capture={"consumer": "keeps its name"}))

    assert "has processed the same table as 'db.events'" in str(ran.errors["capture"])
    assert "--table db.happenings" in str(ran.errors["capture"])
    assert job.seen == [[1, 2, 3]]


def test_rows_of_a_full_refresh_beside_the_checkpoint_are_taken_back(lake, events, job, run_dag):
    """The refresh wrote row 4, which the range since the checkpoint both adds and removes."""
    options = {"data_operations": ("append", "overwrite", "delete"), "on_superset": "allow"}
    dag = incremental("refreshed", "db.events", job, capture=options)
    run_dag(dag)
    append(events, [4])
    run_dag(dag, conf={"ips_run": "full"})
    lake.load_table("db.events").delete("id = 4")

    ran = run_dag(dag)

    assert rows(lake, ran.xcom("db.events.before")) == [4]
    assert checkpoint_of("refreshed.capture").uncommitted == ()


def test_a_stand_by_deployment_does_not_take_the_run_of_another_for_its_own(events, job, run_dag, monkeypatch):
    """Both have the same DAG, and so runs of the same name. Whether the other is at work it cannot ask."""
    dag = incremental("twice", "db.events", job)
    at = datetime.now(tz=UTC)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://one.example")
    job.fails = True
    run_dag(dag, at=at)
    job.fails = False

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://two.example")
    refused = run_dag(dag, at=at)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://one.example")
    retried = run_dag(dag, at=at)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://two.example")
    idle = run_dag(dag, at=at)

    assert "deployment 'https://one.example'" in str(refused.errors["capture"])
    assert retried.states == DONE
    assert idle.states["work"] == "skipped"
    assert job.seen == [[1, 2, 3]]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_checkpoint_that_went_back_is_noticed(events, job, run_dag, is_lost):
    """An older export was imported, or the Variable was deleted: the table of the last run is newer than it."""
    dag = incremental(f"set_back_{is_lost}", "db.events", job)
    consumer = f"{dag.dag_id}.capture"
    run_dag(dag)
    older = Variable.get(variable_key(consumer))
    append(events, [4])
    run_dag(dag)
    append(events, [5])
    Variable.delete(variable_key(consumer))
    if not is_lost:
        Variable.set(variable_key(consumer), older)

    ran = run_dag(dag)

    assert "newer than its checkpoint" in str(ran.errors["capture"])
    assert job.seen == [[1, 2, 3], [4]]
