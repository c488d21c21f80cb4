"""Which instances of mapped tasks are evidence for a commit: what Airflow removed is not, nor is an index by itself."""

from datetime import UTC, datetime

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.sdk import DAG, TaskGroup, task, task_group
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import select, update

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.dag_checks.completion import complete_read_dag
from tests.kit.pipelines import capturing, committed_at
from tests.kit.tables import append, create


@pytest.fixture
def run_cleared(run_dag, monkeypatch):
    """Run a cleared run with the task instances that it has, as a scheduler does; ``dag.test()`` makes new ones."""

    def existing(*, dag, logical_date, session, **_):
        query = select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.logical_date == logical_date)
        dag_run = session.scalar(query)
        dag_run.dag, dag_run.state = dag, DagRunState.RUNNING
        session.commit()
        return dag_run

    def run(dag, *, at):
        with monkeypatch.context() as patched:
            patched.setattr("airflow.models.dagrun.get_or_create_dagrun", existing)
            return run_dag(dag, at=at)

    return run


def failing(numbers):
    """A job that fails for some of the elements that it is expanded over."""

    def work(number):
        if number in numbers:
            raise RuntimeError("the job failed, as the test requires")

    return work


STARTED = pytest.mark.parametrize(
    "rule",
    [
        pytest.param("all_success", marks=pytest.mark.needs_airflow_3_3("a task starts after one that was removed")),
        "all_done",
    ],
)
"""The trigger rules by which a commit starts when one of the instances before it was removed."""


def listing(numbers):
    """A task that lists what the next one is expanded over; the list is read when it runs."""

    @task(task_id="listing")
    def listed():
        return [[number] for number in numbers]

    return listed()


@STARTED
def test_an_instance_that_a_shorter_list_removed_is_not_evidence(events, run_dag, run_cleared, rule):
    """It failed for its part of the rows, and Airflow removes it when the cleared run lists less."""
    numbers, fails = [1, 2, 3], {3}
    with DAG(f"shorter_{rule}", schedule=None) as dag:
        captured = capturing("db.events")
        numbered = listing(numbers)
        work = PythonOperator.partial(task_id="work", python_callable=failing(fails)).expand(op_args=numbered)
        captured >> numbered
        work >> IpCommitOperator(task_id="commit", capture=captured, trigger_rule=rule)
    at = datetime.now(tz=UTC)
    assert run_dag(dag, at=at).states["work[2]"] == "failed"
    numbers.pop()

    ran = run_cleared(dag, at=at)

    assert (ran.states["work[1]"], ran.states["work[2]"]) == ("success", "removed")
    assert "'work[2]' is removed" in str(ran.errors["commit"])
    assert "start a new run" in str(ran.errors["commit"])
    assert committed_at(f"{dag.dag_id}.capture", "db.events") is None

    ran = run_dag(dag)

    assert ran.states["commit"] == "success"
    assert committed_at(f"{dag.dag_id}.capture", "db.events") == events.current_snapshot().snapshot_id


@STARTED
def test_a_living_instance_that_airflow_removes_with_its_upstream_is_not_evidence(events, run_dag, run_cleared, rule):
    """Of two mapped tasks in a row the first one's list gets shorter, and the second never runs for its last rows."""
    numbers = [1, 2, 3]
    with DAG(f"chain_{rule}", schedule=None) as dag:
        captured = capturing("db.events")
        numbered = listing(numbers)
        first = PythonOperator.partial(task_id="first", python_callable=failing({3})).expand(op_args=numbered)
        second = PythonOperator.partial(task_id="second", python_callable=failing(())).expand(op_args=[[4], [5], [6]])
        captured >> numbered
        commit = IpCommitOperator(task_id="commit", capture=captured, require=[second], trigger_rule=rule)
        first >> second >> commit
    at = datetime.now(tz=UTC)
    assert run_dag(dag, at=at).states["second[2]"] == "upstream_failed"
    numbers.pop()

    ran = run_cleared(dag, at=at)

    assert (ran.states["second[1]"], ran.states["second[2]"]) == ("success", "removed")
    assert "'second[2]' is removed" in str(ran.errors["commit"])
    assert committed_at(f"{dag.dag_id}.capture", "db.events") is None


@pytest.mark.needs_airflow_below_3_3("a task that requires all others to succeed starts after one that was removed")
def test_where_airflow_starts_no_commit_after_a_removed_instance_the_run_fails(events, run_dag, run_cleared):
    """Nothing is committed, and the next run captures the range again."""
    numbers = [1, 2, 3]
    with DAG("shorter_unstarted", schedule=None) as dag:
        captured = capturing("db.events")
        numbered = listing(numbers)
        work = PythonOperator.partial(task_id="work", python_callable=failing({3})).expand(op_args=numbered)
        captured >> numbered
        work >> IpCommitOperator(task_id="commit", capture=captured)
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    numbers.pop()

    ran = run_cleared(dag, at=at)

    assert ran.dag_run.state == DagRunState.FAILED
    assert (ran.states["work[1]"], ran.states["work[2]"], ran.states["commit"]) == ("success", "removed", None)
    assert committed_at("shorter_unstarted.capture", "db.events") is None
    assert run_dag(dag).states["commit"] == "success"


def test_an_index_counts_only_within_the_group_of_the_commit(lake, events, run_dag):
    """A task that is expanded over something else did its part for a source only if all of its instances did."""
    append(create(lake, "db.users"), [1])
    with DAG("indexes", schedule=None) as dag:
        work = PythonOperator.partial(task_id="work", python_callable=failing({3})).expand(op_args=[[1], [2], [3]])

        @task_group
        def one(table):
            captured = capturing(table)
            commit = IpCommitOperator(task_id="commit", capture=captured, trigger_rule="all_done")
            captured >> work >> commit

        one.expand(table=["db.events", "db.users"])

    ran = run_dag(dag)

    assert [ran.states[f"work[{index}]"] for index in range(3)] == ["success", "success", "failed"]
    assert [ran.states[f"one.commit[{index}]"] for index in range(2)] == ["failed", "failed"]
    assert "'work[2]' is failed" in str(ran.errors["one.commit"])
    assert committed_at("indexes.one.capture.db.events", "db.events") is None
    assert committed_at("indexes.one.capture.db.users", "db.users") is None


def test_an_index_counts_in_groups_within_the_group_of_the_commit(lake, events, run_dag):
    """A source is committed although the job of another one failed, wherever in the mapped group the tasks are."""
    append(create(lake, "db.users"), [1])

    with DAG("inner", schedule=None) as dag:

        @task_group
        def one(table):
            with TaskGroup("first"):
                captured = capturing(table)
                work = PythonOperator(task_id="work", python_callable=failing({"db.users"}), op_args=[table])
            captured >> work >> IpCommitOperator(task_id="commit", capture=captured, trigger_rule="all_done")

        one.expand(table=["db.events", "db.users"])

    ran = run_dag(dag)

    assert [ran.states[f"one.commit[{index}]"] for index in range(2)] == ["success", "failed"]
    assert committed_at("inner.one.first.capture.db.events", "db.events") == events.current_snapshot().snapshot_id
    assert committed_at("inner.one.first.capture.db.users", "db.users") is None


def test_a_job_that_is_expanded_again_within_the_group_of_its_commit_is_refused():
    """Airflow numbers its instances through all commits, so an index says nothing about which it belongs to."""
    with DAG("nested", schedule=None) as dag:

        @task_group
        def part(number):
            EmptyOperator(task_id="work")

        @task_group
        def one(table):
            captured = capturing(table)
            captured >> part.expand(number=[1, 2]) >> IpCommitOperator(task_id="commit", capture=captured)

        one.expand(table=["db.events", "db.users"])

    with pytest.raises(InputError, match=r"'one.part.work' is in the mapped task group 'one.part', which is within"):
        complete_read_dag(dag)


def test_a_record_counts_only_while_its_index_is_of_the_same_source(lake, events, run_dag):
    """The list of the mapped group changes its order after the capture, and the job works for the other source."""
    append(create(lake, "db.users"), [1])
    tables = ["db.events", "db.users"]
    with DAG("reordered", schedule=None) as dag:

        @task_group
        def one(table):
            captured = capturing(table)
            work = PythonOperator(task_id="work", python_callable=lambda: tables.sort(reverse=True))
            captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

        one.expand(table=tables)

    ran = run_dag(dag)

    told = str(ran.errors["one.commit"])  # of whichever instance came last
    assert told.startswith(
        (
            "'one.capture' has captured db.users, and instance 1 of its mapped task group is now for db.events",
            "'one.capture' has captured db.events, and instance 0 of its mapped task group is now for db.users",
        )
    )
    assert committed_at("reordered.one.capture.db.events", "db.events") is None
    assert committed_at("reordered.one.capture.db.users", "db.users") is None


def test_a_source_that_a_changed_list_gave_to_another_instance_comes_with_the_next_run(
    lake, events, job, run_dag, run_cleared
):
    """Instance 1 has captured it, and Airflow removes that. Instance 0 does not take it for its own retry."""
    append(create(lake, "db.others"), [7])
    at = datetime.now(tz=UTC)

    def of(*tables):
        with DAG("shifted", schedule=None) as dag:

            @task
            def tables_to_capture():
                return [{"table": table, "key": "source"} for table in tables]

            @task_group
            def one(entry):
                captured = capturing(entry)
                work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["source"]])
                captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

            one.expand(entry=tables_to_capture())
        return dag

    job.fails = True
    run_dag(of("db.events", "db.others"), at=at)
    job.fails = False

    cleared = run_cleared(of("db.others"), at=at)
    after = run_dag(of("db.events", "db.others"))

    assert "start a new run" in str(cleared.errors["one.capture"])
    assert set(after.states.values()) == {"success"}, after.errors
    assert sorted(job.seen) == [[1, 2, 3], [7]]


def test_a_record_counts_only_while_its_index_is_of_the_same_consumer(events, run_dag):
    """One source for two targets, with a consumer each: the job works for the other target by now."""

    def list_again(ti):
        """Do what clearing ``listed`` alone does after the list has changed."""
        with create_session() as session:
            of_list = (XComModel.dag_id == ti.dag_id, XComModel.task_id == "listed")
            session.execute(update(XComModel).where(*of_list).values(value=["db.two"]))

    with DAG("retargeted", schedule=None) as dag:

        @task
        def listed():
            return ["db.one"]

        @task_group
        def one(target):
            captured = capturing("db.events", consumer=target)
            work = PythonOperator(task_id="work", python_callable=list_again)
            captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

        one.expand(target=listed())

    ran = run_dag(dag)

    assert "instance 0 of its mapped task group is now for 'db.two'" in str(ran.errors["one.commit"])
    assert committed_at("db.one", "db.events") is None


def test_instances_of_one_source_need_a_consumer_each_also_one_after_another(events, run_dag):
    """Otherwise the second would find nothing after the commit of the first, and its target would stay empty."""

    def has_its_turn(ti):
        return ti.map_index == 0 or committed_at("two_targets.one.capture.db.events", "db.events") is not None

    with DAG("two_targets", schedule=None) as dag:

        @task_group
        def one(target):
            after = PythonSensor(task_id="after", python_callable=has_its_turn, mode="reschedule", poke_interval=0.1)
            captured = capturing("db.events")
            work = PythonOperator(task_id="work", python_callable=print, op_args=[target])
            after >> captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

        one.expand(target=["db.one", "db.two"])

    ran = run_dag(dag)

    assert "has committed the same source for consumer 'two_targets.one.capture.db.events'" in str(
        ran.errors["one.capture"]
    )
