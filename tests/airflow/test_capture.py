"""What a capture hands to the tasks behind it, run by run, on a real table and a real Airflow."""

import json
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, SourceTable
from airflow_provider_ips.core.errors import CheckpointConflictError, InputError
from tests.kit.pipelines import (
    capturing,
    checkpoint_of,
    committed_at,
    for_each,
    incremental,
    left_running,
    moves,
    waiting,
)
from tests.kit.tables import append, create, icdc_tables

DONE = {"capture": "success", "work": "success", "commit": "success"}
BOTH = ("db.events", "db.users")


def test_a_first_run_captures_the_whole_table(events, job, run_dag):
    ran = run_dag(incremental("first", "db.events", job))

    assert ran.states == DONE
    assert job.seen == [[1, 2, 3]]


def test_the_next_run_captures_only_what_came_since(events, job, run_dag):
    dag = incremental("second", "db.events", job)
    run_dag(dag)
    append(events, [4])
    append(events, [5, 6])

    run_dag(dag)

    assert job.seen == [[1, 2, 3], [4, 5, 6]]
    assert committed_at("second.capture", "db.events") == events.refresh().current_snapshot().snapshot_id


def test_nothing_new_skips_downstream(events, job, run_dag):
    dag = incremental("idle", "db.events", job)
    run_dag(dag)

    ran = run_dag(dag)

    assert ran.states == {"capture": "success", "work": "skipped", "commit": "skipped"}
    assert job.seen == [[1, 2, 3]]


def test_nothing_new_pushes_its_xcoms_before_it_skips(events, job, run_dag):
    dag = incremental("idle_xcoms", "db.events", job, capture={"range_columns": ["id"]})
    run_dag(dag)

    ran = run_dag(dag)

    pushed = {key: value for (task, key), value in ran.xcoms.items() if task == "capture"}
    assert {"db.events", "db.events.lower.id", "db.events.upper.id", "capture_id", "capture"} <= set(pushed)
    assert pushed["db.events"] is None
    # Airflow's model reads digits as a number, where a task gets the text that was pushed.
    head = events.current_snapshot().snapshot_id
    assert (int(pushed["db.events.from"]), int(pushed["db.events.to"])) == (head, head)
    assert pushed["positions"] == f"db.events.from = {head}, db.events.to = {head}"
    assert pushed["capture"]["sources"][0]["kind"] == "empty"


def test_a_second_stage_looks_for_itself_if_it_is_let(events, job, run_dag):
    """Its source may have changed while the first one's stood still."""
    with DAG("idle_first_stage", schedule=None) as dag:
        first = capturing("db.events", ignore_downstream_trigger_rules=False)
        second = capturing("db.other", task_id="second", trigger_rule="none_failed")
        first >> IpCommitOperator(task_id="commit", capture=first) >> second
        second >> IpCommitOperator(task_id="commit_second", capture=second)
    other = create(events.catalog, "db.other")
    append(other, [1])
    run_dag(dag)
    append(other, [2])

    ran = run_dag(dag)

    assert (ran.states["commit"], ran.states["second"], ran.states["commit_second"]) == (
        "skipped",
        "success",
        "success",
    )
    assert committed_at("idle_first_stage.second", "db.other") == other.current_snapshot().snapshot_id


def test_initial_latest_moves_the_checkpoint_without_a_commit(events, job, run_dag):
    """Nothing to process: capture itself moves past it, so that expiry cannot strand an idle consumer."""
    ran = run_dag(incremental("latest", "db.events", job, capture={"initial": "latest"}))

    assert ran.states["commit"] == "skipped"
    assert committed_at("latest.capture", "db.events") == events.current_snapshot().snapshot_id
    assert checkpoint_of("latest.capture").pending is None


def test_initial_snapshot_starts_behind_it(events, job, run_dag):
    first = events.current_snapshot().snapshot_id
    append(events, [4])

    run_dag(incremental("from_snapshot", "db.events", job, capture={"initial": str(first)}))

    assert job.seen == [[4]]


def test_skip_can_leave_other_trigger_rules_alone(events, job, run_dag):
    """ignore_downstream_trigger_rules=False: only what lies directly behind the capture is skipped."""
    with DAG("respectful", schedule=None) as dag:
        captured = capturing("db.events", initial="latest", ignore_downstream_trigger_rules=False)
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
        commit = IpCommitOperator(task_id="commit", capture=captured)
        report = EmptyOperator(task_id="report", trigger_rule="all_done")
        captured >> work >> commit >> report

    ran = run_dag(dag)

    assert ran.states == {"capture": "success", "work": "skipped", "commit": "skipped", "report": "success"}


def test_without_skipping_the_job_gets_a_table_without_rows(events, job, run_dag):
    dag = incremental("unskipped", "db.events", job, capture={"initial": "latest", "skip_if_empty": False})

    ran = run_dag(dag)

    assert ran.states == DONE
    assert job.seen == [[]]
    assert committed_at("unskipped.capture", "db.events") == events.current_snapshot().snapshot_id


def test_several_tables_are_committed_together(lake, events, job, run_dag):
    users = create(lake, "db.users")
    append(users, [10])
    dag = incremental("joined", ["db.events", "db.users"], job)
    run_dag(dag)
    append(events, [4])
    append(users, [11])
    job.fails = True

    run_dag(dag)
    before = [committed_at("joined.capture", name) for name in ("db.events", "db.users")]
    job.fails = False
    run_dag(dag)

    assert before == [t.refresh().snapshots()[0].snapshot_id for t in (events, users)]
    assert job.seen == [[[1, 2, 3], [10]], [[4], [11]]]
    assert committed_at("joined.capture", "db.users") == users.refresh().current_snapshot().snapshot_id


def test_a_source_that_gained_nothing_beside_one_that_did_is_a_table_without_rows(lake, events, job, run_dag):
    """A join names both its sides; an XCom of None would fail the task that pulls it."""
    append(create(lake, "db.users"), [10])
    dag = incremental("half", ["db.events", "db.users"], job)
    run_dag(dag)
    append(events, [4])

    run_dag(dag)

    assert job.seen[-1] == [[4], []]


def test_a_retry_after_a_crash_takes_the_same_range_and_the_same_table(lake, events, job, run_dag):
    """The ICDC table is registered, the process dies before its task has succeeded, and rows arrive meanwhile."""
    names = []

    class Dying(IpCaptureOperator):
        def execute(self, context):
            super().execute(context)
            names.append(context["ti"].xcom_pull(task_ids="capture", key="db.events"))
            if len(names) == 1:
                append(events, [4])
                raise RuntimeError("the worker dies, as the test wants it")

    with DAG("crash", schedule=None) as dag:
        captured = Dying(
            task_id="capture", source_tables="db.events", iceberg_conn_id="lake", retries=1, retry_delay=timedelta(0)
        )
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert ran.states == DONE
    assert names[0] == names[1]
    assert icdc_tables(lake) == [names[0]]
    assert job.seen == [[1, 2, 3]]


def test_a_retry_of_a_first_run_from_a_snapshot_takes_the_same_range(events, job, run_dag):
    """Such a run has no committed position to start from again."""
    first = events.current_snapshot().snapshot_id
    append(events, [4])
    dag = incremental("crash_initial", "db.events", job, capture={"initial": str(first)})
    at = datetime.now(tz=UTC)
    job.fails = True
    run_dag(dag, at=at)
    append(events, [5])
    job.fails = False

    run_dag(dag, at=at)

    assert job.seen == [[4]]


def test_a_failed_run_is_covered_by_the_next(lake, events, job, run_dag):
    dag = incremental("superseded", "db.events", job)
    job.fails = True
    failed = run_dag(dag)
    append(events, [4])
    job.fails = False

    ran = run_dag(dag)

    assert failed.states == {"capture": "success", "work": "failed", "commit": "upstream_failed"}
    assert job.seen == [[1, 2, 3, 4]]
    assert failed.xcom("db.events") != ran.xcom("db.events")


def test_clearing_the_newest_run_replays_its_range_and_moves_nothing(events, job, run_dag):
    dag = incremental("replayed", "db.events", job)
    run_dag(dag)
    append(events, [4])
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    append(events, [5])
    before = moves("replayed.capture")

    ran = run_dag(dag, at=at)

    assert job.seen == [[1, 2, 3], [4], [4]]
    assert ran.xcom("commit", "commit")["outcome"] == "replayed"
    assert moves("replayed.capture") == before


def test_clearing_an_older_run_is_refused(events, job, run_dag):
    """It would write old rows over newer ones."""
    dag = incremental("older", "db.events", job)
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    append(events, [4])
    run_dag(dag)

    ran = run_dag(dag, at=at)

    assert isinstance(ran.errors["capture"], CheckpointConflictError)
    assert job.seen == [[1, 2, 3], [4]]


def test_a_run_under_the_same_name_is_another_run(events, job, run_dag):
    """Its deleted namesake was committed; this one must not take that for its own range."""
    dag = incremental("namesake", "db.events", job)
    at = datetime.now(tz=UTC)
    run_dag(dag, at=at)
    append(events, [4])

    run_dag(dag, at=at, run_after=at + timedelta(hours=1))

    assert job.seen == [[1, 2, 3], [4]]


def test_another_active_run_is_not_superseded(events, job, run_dag):
    dag = incremental("active", "db.events", job)
    job.fails = True
    first = run_dag(dag)
    job.fails = False

    with left_running(first):
        ran = run_dag(dag)
    after = run_dag(dag)

    assert f"run active/{first.dag_run.run_id} has captured" in str(ran.errors["capture"])
    assert after.states == DONE
    assert job.seen == [[1, 2, 3]]


def test_another_active_run_can_be_waited_for(events, job, run_dag):
    """The task gives up its slot and comes back, as a rescheduled sensor does; by then the other run has ended."""
    waits: list[datetime] = []
    other = ExitStack()
    patient = waiting(IpCaptureOperator, other, waits)
    with DAG("waiting", schedule=None) as dag:
        captured = patient(task_id="capture", source_tables="db.events", iceberg_conn_id="lake", on_active_run="wait")
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    job.fails = True
    first = run_dag(dag)
    job.fails = False
    other.enter_context(left_running(first))
    started = datetime.now(tz=UTC)

    ran = run_dag(dag)

    assert ran.states == DONE
    assert [wait > started for wait in waits] == [True]


def test_a_renamed_task_is_asked_about_before_it_takes_the_whole_table_again(events, job, run_dag):
    run_dag(incremental("renamed", "db.events", job))

    ran = run_dag(incremental("renamed", "db.events", job, capture={"task_id": "take"}))
    told = run_dag(incremental("renamed", "db.events", job, capture={"task_id": "take", "consumer": "anew"}))

    assert "consumer 'renamed.capture' has one for its tables" in str(ran.errors["take"])
    assert "set consumer='renamed.capture' to go on" in str(ran.errors["take"])
    assert told.states["commit"] == "success"


def test_a_renamed_task_of_a_group_is_asked_about(events, job, run_dag):
    """The document says that runs of this DAG captured, though its name could be that of a task of another DAG."""
    run_dag(incremental("grouped", "db.events", job, capture={"task_id": "one", "consumer": "grouped.first.one"}))

    ran = run_dag(incremental("grouped", "db.events", job, capture={"task_id": "two"}))

    assert "consumer 'grouped.first.one' has one for its tables" in str(ran.errors["two"])


def test_the_task_of_another_dag_is_not_taken_for_a_former_one(events, job, run_dag):
    """`shared.one` is a DAG, not a task group of the DAG `shared`."""
    run_dag(incremental("shared.one", "db.events", job))

    ran = run_dag(incremental("shared", "db.events", job))

    assert ran.states["commit"] == "success", ran.errors


def test_two_captures_of_one_dag_over_one_table_are_no_renaming(events, job, run_dag):
    """Both tasks are there: the second consumer is new indeed."""
    with DAG("two_consumers", schedule=None) as dag:
        for name in ("one", "two"):
            captured = capturing("db.events", task_id=name)
            captured >> IpCommitOperator(task_id=f"commit_{name}", capture=captured)

    ran = run_dag(dag)

    assert set(ran.states.values()) == {"success"}


def test_names_are_given_as_the_engine_knows_them(events, job, run_dag):
    with DAG("engine", schedule=None) as dag:
        captured = capturing("db.events", engine_catalog="spark_lake", icdc_namespace="scratch")
        captured >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert ran.xcom("db.events").startswith("spark_lake.scratch.db_events_")


def test_the_record_is_plain_json_with_snapshot_ids_as_strings(events, job, run_dag):
    ran = run_dag(incremental("record", "db.events", job))

    record = json.loads(json.dumps(ran.xcom("capture")))
    (source,) = record["sources"]
    assert record["consumer"] == "record.capture"
    assert record["capture_id"] == ran.xcom("capture_id")
    assert source["to"]["snapshot_id"] == str(events.current_snapshot().snapshot_id)
    assert (source["files"], source["records"], source["source"]) == (1, 3, "db.events")


def test_bounds_of_range_columns_and_partitions_are_pushed(lake, job, run_dag):
    from pyiceberg.transforms import IdentityTransform

    table = create(lake, "db.days")
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform())
    append(table, [5, 9], day=date(2026, 10, 2))
    append(table, [7], day=date(2026, 10, 4))

    ran = run_dag(incremental("ranges", "db.days", job, capture={"range_columns": ["id"]}))

    assert (ran.xcom("db.days.lower.id"), ran.xcom("db.days.upper.id")) == (5, 9)
    assert (ran.xcom("db.days.lower.day"), ran.xcom("db.days.upper.day")) == ("2026-10-02", "2026-10-04")


def test_a_range_that_some_files_do_not_tell_is_refused_before_anything_is_written(lake, job, run_dag):
    table = create(lake, "db.blind", properties={"write.metadata.metrics.column.id": "none"})
    append(table, [1])

    ran = run_dag(incremental("blind", "db.blind", job, capture={"range_columns": ["id"]}))

    assert "1 of 1 captured files have no bounds" in str(ran.errors["capture"])
    assert checkpoint_of("blind.capture") is None
    assert icdc_tables(lake) == []


@pytest.mark.parametrize(
    ("dag_id", "source", "options", "problem"),
    [
        ("no_table", "db.nowhere", {}, "table db.nowhere does not exist in catalog 'lake'"),
        (
            "no_column",
            "db.events",
            {"range_columns": ["nowhere"]},
            "range column 'nowhere' is not a column of db.events",
        ),
        ("no_branch", SourceTable("db.events", branch="nowhere"), {}, "db.events has no branch 'nowhere'"),
        ("no_connection", "db.events", {"iceberg_conn_id": "nowhere"}, "connection 'nowhere' does not exist"),
        ("under_source", "db.events", {"icdc_location": "{{ params.inside }}"}, "outside the source's"),
        ("bad_initial", "db.events", {"initial": "{{ params.when }}"}, "initial='yesterday' is none of the four forms"),
        ("bad_name", "{{ params.table }}", {}, "malformed table identifier 'events'"),
        ("bad_namespace", "db.events", {"icdc_namespace": "{{ params.spaced }}"}, "icdc_namespace 'my icdc'"),
    ],
)
def test_what_only_the_table_tells_is_refused_before_anything_is_written(
    lake, events, run_dag, dag_id, source, options, problem
):
    params = {"inside": f"{events.location()}/icdc", "when": "yesterday", "table": "events", "spaced": "my icdc"}
    with DAG(dag_id, schedule=None, params=params) as dag:
        captured = capturing(source, **options)
        captured >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert problem in str(ran.errors["capture"])
    assert isinstance(ran.errors["capture"], InputError)
    assert checkpoint_of(f"{dag_id}.capture") is None
    assert icdc_tables(lake) == []


def test_a_consumer_of_its_own_name_survives_a_renamed_dag(events, job, run_dag):
    run_dag(incremental("old_name", "db.events", job, capture={"consumer": "daily playback"}))
    append(events, [4])

    run_dag(incremental("new_name", "db.events", job, capture={"consumer": "daily playback"}))

    assert job.seen == [[1, 2, 3], [4]]


def test_parameters_are_templates(events, job, run_dag):
    """The table, the consumer and the ways of starting can come from the run's configuration."""
    with DAG("templated", schedule=None, params={"table": "db.nowhere", "initial": "full"}) as dag:
        captured = capturing(
            "{{ params.table }}",
            consumer="by {{ params.table }}",
            initial="{{ params.initial }}",
            engine_catalog="{{ ds }}",
        )
        captured >> IpCommitOperator(task_id="commit", capture=captured)

    run_dag(dag, conf={"table": "db.events", "initial": "latest"})

    assert committed_at("by db.events", "db.events") == events.current_snapshot().snapshot_id


def test_a_mapped_capture_has_a_consumer_per_source(lake, events, job, run_dag):
    append(create(lake, "db.users"), [10])

    ran = run_dag(for_each("mapped", BOTH, job))

    assert sorted(job.seen) == [[1, 2, 3], [10]]
    assert set(ran.states.values()) == {"success"}
    assert committed_at("mapped.one.capture.db.events", "db.events") == events.current_snapshot().snapshot_id
    assert committed_at("mapped.one.capture.db.users", "db.users") is not None
    assert [ran.xcom("commit", "one.commit", index)["outcome"] for index in (0, 1)] == ["advanced", "advanced"]


def test_instances_of_a_mapped_capture_cannot_share_a_consumer(lake, events, job, run_dag):
    """In one run each would take the other's pending range for that of an earlier run."""
    append(create(lake, "db.users"), [10])
    job.fails = True  # or the one that is first might have committed already

    ran = run_dag(for_each("shared", BOTH, job, capture={"consumer": "shared by all", "on_active_run": "wait"}))

    assert "another task instance of run" in str(ran.errors["one.capture"])
    # Airflow does not say which instance runs first: one of them captures, the other is told.
    assert sorted(ran.states[f"one.capture[{index}]"] for index in (0, 1)) == ["failed", "success"]
    assert {ran.states[f"one.commit[{index}]"] for index in (0, 1)} == {"upstream_failed"}


def test_a_range_that_was_rolled_back_leaves_its_failed_run_pending(events, job, run_dag):
    """Its job may have written rows of it, so the checkpoint is not moved past it as if nothing had been."""
    dag = incremental("rolled_back", "db.events", job)
    run_dag(dag)
    first = events.refresh().current_snapshot().snapshot_id
    append(events, [4])
    job.fails = True
    run_dag(dag)
    events.refresh().manage_snapshots().rollback_to_snapshot(first).commit()
    job.fails = False

    ran = run_dag(dag)
    pending = checkpoint_of("rolled_back.capture").pending
    append(events, [5])
    run_dag(dag)

    assert ran.states == {"capture": "success", "work": "skipped", "commit": "skipped"}
    assert len(pending.supersedes) == 1
    assert job.seen == [[1, 2, 3], [5]]
    assert "stay in the target: remove them" in str(ran.xcom("capture")["sources"][0]["warnings"])


def test_a_mapped_task_group_captures_and_commits_each_source_by_itself(lake, events, job, run_dag):
    users = create(lake, "db.users")
    append(users, [10])
    dag = for_each("group_each", BOTH, job)
    run_dag(dag)
    append(users, [11])

    ran = run_dag(dag)

    assert job.seen[2:] == [[11]]
    assert {name: state for name, state in ran.states.items() if name.endswith("[0]")} == {
        "one.capture[0]": "skipped",
        "one.work[0]": "skipped",
        "one.commit[0]": "skipped",
    }
    assert ran.states["one.commit[1]"] == "success"
    assert committed_at("group_each.one.capture.db.users", "db.users") == users.refresh().current_snapshot().snapshot_id


def test_one_source_of_a_mapped_task_group_fails_alone(lake, events, job, run_dag):
    append(create(lake, "db.users"), [10])

    def fail_for_users(name):
        if "users" in name:
            raise RuntimeError("the job failed, as the test wants it")

    ran = run_dag(for_each("group_fails", BOTH, fail_for_users, commit={"trigger_rule": "all_done"}))

    assert (ran.states["one.commit[0]"], ran.states["one.commit[1]"]) == ("success", "failed")
    assert committed_at("group_fails.one.capture.db.events", "db.events") == events.current_snapshot().snapshot_id
    assert committed_at("group_fails.one.capture.db.users", "db.users") is None


@pytest.mark.parametrize("consumer", ["daily.***", "***"])
def test_a_consumer_may_have_stars_in_its_name(events, job, run_dag, consumer):
    """They are Airflow's mask only where a value was."""
    dag = incremental(f"stars_{len(consumer)}", "db.events", job, capture={"consumer": consumer})
    run_dag(dag)
    append(events, [4])

    assert run_dag(dag).states["commit"] == "success"
    assert job.seen == [[1, 2, 3], [4]]


@pytest.mark.parametrize("length", ["0", "-5"])
def test_a_history_without_the_newest_capture_is_refused(lake, events, job, run_dag, monkeypatch, length):
    """By the capture, and not by the commit, when the job has written."""
    monkeypatch.setenv("AIRFLOW__IPS__HISTORY_LENGTH", length)
    ran = run_dag(incremental(f"no_history_{length}", "db.events", job))
    assert f"history_length={length} is below 1" in str(ran.errors["capture"])
    assert (job.seen, checkpoint_of(f"no_history_{length}.capture")) == ([], None)
