"""Captures in mode BRANCH, run by run: what the job reads, what is held for how long, and what is taken away."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from airflow_provider_ips.core.errors import CatalogError, EvidenceError, InputError, IpsError
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.core.settings import ALL_OPERATIONS
from airflow_provider_ips.iceberg import captured_partitions, drop_icdc
from airflow_provider_ips.maintenance.clean_up import clean_up, plan_clean_up
from airflow_provider_ips.runs.environment import now_ms
from airflow_provider_ips.runs.lost_files import check_branches
from tests.kit.people import clear, go_on
from tests.kit.pipelines import capturing, checkpoint_of, default_store, incremental, lose_checkpoint
from tests.kit.tables import append, branches, icdc_tables, rows

DONE = {"capture": "success", "work": "success", "commit": "success"}
BRANCH: dict[str, Any] = {"capture_mode": "BRANCH"}


def test_the_job_reads_a_branch_that_stays_until_the_next_commit(lake, events, job, run_dag):
    """Under the name that Spark knows, and without any table in the ICDC namespace."""
    dag = incremental("in_branches", "db.events", job, capture={**BRANCH, "engine_catalog": None})
    first = run_dag(dag)
    append(events, [4])
    assert branches(events) == [first.xcom("db.events")]
    append(events, [5])

    second = run_dag(dag)

    assert second.states == DONE
    assert job.seen == [[1, 2, 3], [4, 5]]
    assert branches(events) == [second.xcom("db.events")]
    assert icdc_tables(lake) == []
    record = second.xcom("capture")
    made = record["sources"][0]["captured_branch"]
    assert (record["mode"], made["branch"]) == ("BRANCH", second.xcom("db.events").removeprefix("db.events.branch_"))
    assert rows(lake, "db.events") == [1, 2, 3, 4, 5]


def test_changes_are_two_branches(events, job, run_dag):
    """A first run has an origin without rows."""
    with DAG("changes_in_branches", schedule=None) as dag:
        captured = capturing("db.events", data_operations=ALL_OPERATIONS, on_superset="allow", **BRANCH)
        names = [captured.output["db.events"], captured.output["db.events.before"]]
        work = PythonOperator(task_id="work", python_callable=job, op_args=names)
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured, icdc_retention="drop")
    run_dag(dag)
    events.refresh().delete("id = 2")

    run_dag(dag)

    assert job.seen == [[[1, 2, 3], []], [[1, 3], [1, 2, 3]]]
    assert branches(events) == []


def test_a_retry_after_a_crash_reads_the_same_branch(events, job, run_dag):
    """Also if the configuration chooses the other mode by then."""
    names = []

    class Dying(IpCaptureOperator):
        def execute(self, context):
            super().execute(context)
            names.append(context["ti"].xcom_pull(task_ids="capture", key="db.events"))
            if len(names) == 1:
                append(events, [4])
                context["task"].capture_mode = "ICDC"
                raise RuntimeError("the worker dies, as the test wants it")

    with DAG("crash_in_branch", schedule=None) as dag:
        captured = Dying(
            task_id="capture",
            source_tables="db.events",
            iceberg_conn_id="lake",
            retries=1,
            retry_delay=timedelta(0),
            **BRANCH,
        )
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert ran.states == DONE
    assert names[0] == names[1]
    assert branches(events) == [names[0]]
    assert ran.xcom("capture")["mode"] == "BRANCH"
    assert job.seen == [[1, 2, 3]]


def test_a_failed_run_is_covered_by_the_next_which_removes_its_branch(events, job, run_dag):
    """The commit releases both."""
    dag = incremental("superseded_branch", "db.events", job, capture=BRANCH)
    job.fails = True
    failed = run_dag(dag)
    append(events, [4])
    job.fails = False

    ran = run_dag(dag)

    assert job.seen == [[1, 2, 3, 4]]
    assert failed.xcom("db.events") != ran.xcom("db.events")
    assert branches(events) == [ran.xcom("db.events")]


def test_a_cleared_run_is_handed_its_branch_when_the_history_has_expired(events, job, run_dag):
    """The branch holds its files, whatever became of the range's snapshots."""
    dag = incremental("kept_branch", "db.events", job, capture={**BRANCH, "range_columns": ["id"]})
    run_dag(dag)
    append(events, [4, 5])
    at = datetime.now(tz=UTC)
    job.fails = True
    run_dag(dag, at=at)
    job.fails = False
    append(events, [9])
    append(events, [10])
    held = {ref.snapshot_id for name, ref in events.refresh().refs().items()}
    old = [s.snapshot_id for s in events.metadata.snapshots if s.snapshot_id not in held]
    events.maintenance.expire_snapshots().by_ids(old).commit()

    ran = run_dag(dag, at=at)

    assert ran.states == DONE
    assert job.seen == [[1, 2, 3], [4, 5]]
    source = ran.xcom("capture")["sources"][0]
    assert "checked file by file" in source["warnings"][0]
    assert f"db.events.branch_{source['captured_branch']['branch']}" == ran.xcom("db.events")


def test_a_detached_run_has_a_branch_of_its_own(events, job, run_dag):
    """A retry finds its range by the branch, and a commit leaves it to gc."""
    dag = incremental("detached_branch", "db.events", job, capture=BRANCH)
    run_dag(dag)
    at = datetime.now(tz=UTC)
    job.fails = True
    first = run_dag(dag, at=at, conf={"ips_run": "full"})
    append(events, [4])
    job.fails = False

    again = run_dag(dag, at=at, conf={"ips_run": "full"})

    assert first.xcom("db.events") == again.xcom("db.events")
    assert job.seen == [[1, 2, 3], [1, 2, 3]]
    assert again.xcom("db.events") in branches(events)


def test_gc_removes_what_no_checkpoint_names_and_what_has_no_lease_any_more(lake, events, job, run_dag):
    """A lease that has ended is the reason why a forgotten capture holds no files for ever."""
    dag = incremental("collected_branch", "db.events", job, capture={**BRANCH, "lease": timedelta(hours=1)})
    live = run_dag(dag).xcom("db.events")
    detached = run_dag(dag, conf={"ips_run": "full"}).xcom("db.events")

    young = plan_clean_up(lake, "icdc", [default_store()], before_ms=now_ms() - 60_000)
    old = plan_clean_up(lake, "icdc", [default_store()], before_ms=now_ms() + 60_000)

    assert {(b.name, reason, removed) for b, reason, removed in young.branches} == {
        (live, "a checkpoint names it", False),
        (detached, "not old enough", False),
    }
    assert {b.name for b, _, removed in old.branches if removed} == {detached}
    assert clean_up(lake, old) == (1, 0)
    assert branches(events) == [live]


def test_gc_removes_a_branch_whose_lease_has_ended(lake, events, job, run_dag):
    """Though its checkpoint names it. The job that comes too late is told why."""
    dag = incremental("ended_lease", "db.events", job, capture={**BRANCH, "lease": timedelta(milliseconds=1)})
    run_dag(dag)

    plan = plan_clean_up(lake, "icdc", [default_store()], before_ms=0)

    assert [(reason, removed) for _, reason, removed in plan.branches] == [("its lease has ended", True)]
    clean_up(lake, plan)
    assert branches(events) == []


def test_a_job_that_comes_too_late_is_told_why(lake, events, run_dag, caplog):
    """The engine only says that it knows no such branch."""

    def fail(name):
        drop_icdc(lake, name)
        raise RuntimeError("there is no such branch, as the test wants it")

    with DAG("too_late", schedule=None) as dag:
        captured = capturing("db.events", **BRANCH)
        work = PythonOperator(task_id="work", python_callable=fail, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    run_dag(dag)
    assert "does not exist any more: it was removed while this task was to read it (its lease ends at" in caplog.text


@pytest.mark.parametrize(
    ("is_removed", "says"), [(True, "the branch was removed"), (False, "the branch is still there, and may be removed")]
)
def test_a_commit_after_the_end_of_the_lease_says_so(lake, events, job, run_dag, caplog, is_removed, says):
    """The job has read its rows, so the checkpoint moves; the next job may be slower."""

    def read(name):
        job(name)
        if is_removed:
            clean_up(lake, plan_clean_up(lake, "icdc", [default_store()], before_ms=0))

    dag_id = f"late_commit_{is_removed}".lower()
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events", **BRANCH, lease=timedelta(milliseconds=1))
        work = PythonOperator(task_id="work", python_callable=read, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert (ran.states, job.seen) == (DONE, [[1, 2, 3]])
    assert bool(branches(events)) is not is_removed
    assert "its lease ended at" in caplog.text
    assert f"before this commit, and {says}" in caplog.text
    assert checkpoint_of(f"{dag_id}.capture").positions


@pytest.mark.parametrize("writes", ["append", "move"])
def test_a_commit_is_refused_if_somebody_has_written_to_the_branch(lake, events, run_dag, writes):
    """The job has read other rows than were captured, and does not fail by itself."""

    def read(name):
        branch, table = name.rpartition("branch_")[2], lake.load_table("db.events")
        manage = table.manage_snapshots()
        if writes == "append":
            table.append(table.scan(row_filter="id = 1").to_arrow(), branch=branch)
        else:
            manage.remove_branch(branch).commit()
            table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, branch).commit()

    with DAG(f"written_{writes}", schedule=None) as dag:
        captured = capturing("db.events", **BRANCH)
        work = PythonOperator(task_id="work", python_callable=read, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert ran.states["commit"] == "failed"
    assert isinstance(ran.errors["commit"], EvidenceError)
    assert "somebody has written to it, or moved it" in ran.errors["commit"].problem
    assert "DROP BRANCH ips_" in ran.errors["commit"].remedy
    assert not checkpoint_of(f"written_{writes}.capture").positions


@pytest.mark.parametrize("writes", [True, False])
def test_a_commit_is_refused_if_the_branch_was_removed_during_its_lease(lake, events, job, run_dag, writes):
    """Somebody may have written to it before, as here: to clear the commit alone would move over these rows."""

    def read(name):
        if writes and not job.seen:
            table = lake.load_table("db.events")
            table.append(table.scan(row_filter="id = 1").to_arrow(), branch=name.rpartition("branch_")[2])
        job(name)
        if not writes and len(job.seen) == 1:
            drop_icdc(lake, name)

    with DAG(f"removed_{writes}".lower(), schedule=None) as dag:
        captured = capturing("db.events", **BRANCH)
        work = PythonOperator(task_id="work", python_callable=read, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    ran = run_dag(dag)
    assert job.seen == [[1, 1, 2, 3] if writes else [1, 2, 3]]
    assert ran.states["commit"] == "failed"
    if writes:
        name = ran.xcom("db.events").rpartition("branch_")[2]
        events.refresh().manage_snapshots().remove_branch(name).commit()

    clear(ran, "commit")
    again = go_on(dag, ran)

    assert isinstance(again.errors["commit"], EvidenceError)
    assert "does not exist any more, and its lease ends at" in again.errors["commit"].problem
    assert "clear the capture with its downstream tasks" in again.errors["commit"].remedy
    assert not checkpoint_of(f"removed_{writes}.capture".lower()).positions
    clear(again, "capture", "work", "commit")
    assert go_on(dag, again).states == DONE
    assert job.seen[-1] == [1, 2, 3]


@pytest.mark.parametrize("retention", ["drop", "next_commit"])
def test_a_commit_that_has_moved_its_checkpoint_succeeds_when_its_branch_was_removed(
    lake, events, job, run_dag, retention
):
    """It is cleared, or was interrupted: the branch may be removed by then, by itself or by somebody."""
    dag = incremental("done", "db.events", job, capture=BRANCH, commit={"icdc_retention": retention})
    ran = run_dag(dag)
    for name in branches(events):
        drop_icdc(lake, name)
    clear(ran, "commit")

    again = go_on(dag, ran)

    assert again.states == DONE
    assert again.xcom("commit", "commit")["outcome"] == "already_done"


def test_a_commit_waits_for_a_catalog_that_cannot_tell_whether_its_branch_was_written_to(lake, events, job, run_dag):
    """It is retried, and says why without secrets: its log is read by many."""
    record = CaptureRecord.from_json(run_dag(incremental("outage", "db.events", job, capture=BRANCH)).xcom("capture"))

    def refuse():
        raise OSError("the server said no to token=lake-secret-4711")

    with pytest.raises(CatalogError, match="OSError: the server said no") as caught:
        check_branches(record, refuse, now_ms(), must_exist=True)

    assert not caught.value.is_permanent
    assert "lake-secret" not in str(caught.value)


def test_a_job_that_fails_after_the_end_of_the_lease_is_told_when_it_ended(lake, events, job, run_dag, caplog):
    """And not only that a branch is missing."""

    def fail(name):
        clean_up(lake, plan_clean_up(lake, "icdc", [default_store()], before_ms=0))
        job(name)

    with DAG("late_job", schedule=None) as dag:
        captured = capturing("db.events", **BRANCH, lease=timedelta(milliseconds=1))
        work = PythonOperator(task_id="work", python_callable=fail, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    assert run_dag(dag).states["work"] == "failed"
    assert "(its lease ended at" in caplog.text
    assert "Give the capture a longer lease than the job takes" in caplog.text


def test_a_checkpoint_that_was_set_back_is_refused(events, job, run_dag):
    """A branch of the consumer is newer than its checkpoint, and the checkpoint does not name it."""
    dag = incremental("set_back_branch", "db.events", job, capture=BRANCH)
    run_dag(dag)
    lose_checkpoint("set_back_branch.capture")
    append(events, [4])

    ran = run_dag(dag)

    assert isinstance(ran.errors["capture"], IpsError)
    assert "newer than its checkpoint" in str(ran.errors["capture"])
    assert "db.events.branch_ips_db_events" in str(ran.errors["capture"])


def test_partitions_of_a_branch_can_be_listed(lake, events, job, run_dag):
    """By its name, as those of an ICDC table."""
    name = run_dag(incremental("listed_branch", "db.events", job, capture=BRANCH)).xcom("db.events")

    with pytest.raises(InputError, match="belong to no partition"):
        captured_partitions(lake, name)


def test_the_configuration_chooses_the_mode(lake, events, job, run_dag, monkeypatch):
    """For captures that name none; a place for ICDC tables contradicts it, because it would not be used."""
    monkeypatch.setenv("AIRFLOW__IPS__CAPTURE_MODE", "BRANCH")
    ran = run_dag(incremental("by_configuration", "db.events", job))
    assert branches(events) == [ran.xcom("db.events")]
    named = run_dag(incremental("by_parameter", "db.events", job, capture={"capture_mode": "ICDC"}))
    assert icdc_tables(lake) == [named.xcom("db.events")]

    contradicting = run_dag(incremental("contradicting", "db.events", job, capture={"icdc_namespace": "icdc"}))
    assert "capture_mode is 'BRANCH'" in str(contradicting.errors["capture"])
    monkeypatch.setenv("AIRFLOW__IPS__CAPTURE_MODE", "VIEW")
    unknown = run_dag(incremental("unknown_mode", "db.events", job))
    assert "capture_mode='VIEW' is unknown" in str(unknown.errors["capture"])
    assert checkpoint_of("unknown_mode.capture") is None


HELD: dict[str, Any] = {"hold_source": True}


def test_an_icdc_table_is_held_until_the_next_commit(lake, events, job, run_dag):
    """The job reads the table. A failed run's table and branch are released by the commit that covers its range."""
    dag = incremental("held_table", "db.events", job, capture=HELD)
    first = run_dag(dag)
    append(events, [4])
    job.fails = True
    failed = run_dag(dag)
    job.fails = False
    assert (len(branches(events)), len(icdc_tables(lake))) == (2, 2)

    last = run_dag(dag)

    assert last.states == DONE
    assert job.seen == [[1, 2, 3], [4]]
    assert icdc_tables(lake) == [last.xcom("db.events")]
    assert len({first.xcom("db.events"), failed.xcom("db.events"), last.xcom("db.events")}) == 3
    (held,) = branches(events)
    source = last.xcom("capture")["sources"][0]
    assert (last.xcom("capture")["mode"], source["captured_branch"]["branch"]) == ("ICDC", held.partition("branch_")[2])


def test_a_commit_that_drops_its_table_takes_the_branch_along(lake, events, job, run_dag):
    """Also both tables of a capture of changes."""
    settings = {**HELD, "data_operations": ALL_OPERATIONS, "on_superset": "allow"}
    dag = incremental("held_and_dropped", "db.events", job, capture=settings, commit={"icdc_retention": "drop"})
    assert run_dag(dag).states == DONE
    events.refresh().delete("id = 2")
    assert run_dag(dag).states == DONE
    assert (branches(events), icdc_tables(lake)) == ([], [])


def test_gc_removes_what_held_a_table_with_it(lake, events, job, run_dag):
    """What a checkpoint needs stays until the lease has ended."""
    dag = incremental("held_and_collected", "db.events", job, capture={**HELD, "lease": timedelta(hours=1)})
    run_dag(dag)
    (live,) = branches(events)
    run_dag(dag, conf={"ips_run": "full"})

    plan = plan_clean_up(lake, "icdc", [default_store()], before_ms=now_ms() + 60_000)

    assert {b.name: reason for b, reason, removed in plan.branches if not removed} == {live: "a checkpoint names it"}
    clean_up(lake, plan)
    assert branches(events) == [live]
    assert len(icdc_tables(lake)) == 1


def test_a_table_outlives_its_lease(lake, events, job, run_dag):
    """Then nothing holds its files, as without ``hold_source``."""
    dag = incremental("held_too_short", "db.events", job, capture={**HELD, "lease": timedelta(milliseconds=1)})
    name = run_dag(dag).xcom("db.events")
    clean_up(lake, plan_clean_up(lake, "icdc", [default_store()], before_ms=0))
    assert (branches(events), icdc_tables(lake)) == ([], [name])
    append(events, [4])
    assert run_dag(dag).states == DONE


@pytest.mark.parametrize("wrong", [{"capture_mode": "BRANCH", "hold_source": True}, {"hold_source": "yes"}])
def test_contradictory_holds_are_refused_when_the_dag_is_read(wrong):
    """A branch is what holds; and a text is neither yes nor no."""
    with pytest.raises(InputError, match="hold_source"):
        capturing("db.events", **wrong)


def test_one_name_for_all_runs_is_refused_when_the_dag_is_read():
    """A job that is cleared alone would read a later run's rows."""
    with pytest.raises(InputError, match="stable_name is not offered") as refused:
        capturing("db.events", **BRANCH, stable_name=True)
    assert "environment variable" in refused.value.remedy
