"""When a commit moves the checkpoint, when it refuses to, and what becomes of ICDC tables."""

from datetime import UTC, datetime

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator, ShortCircuitOperator
from airflow.sdk import DAG, TaskGroup

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.errors import CheckpointConflictError, EvidenceError, InputError
from tests.kit.pipelines import capturing, checkpoint_of, committed_at, incremental, lose_checkpoint
from tests.kit.tables import append, create, icdc_tables


def fail():
    raise RuntimeError("the job failed, as the test wants it")


def test_the_outcome_is_pushed_and_the_run_remembered(events, job, run_dag):
    ran = run_dag(incremental("outcome", "db.events", job))

    (capture,) = checkpoint_of("outcome.capture").history
    assert ran.xcom("commit", "commit") == {
        "consumer": "outcome.capture",
        "capture_id": capture.capture_id,
        "outcome": "advanced",
        "dropped": [],
    }
    assert capture.run.run_id == ran.dag_run.run_id


def test_a_failed_task_is_no_evidence_whatever_the_trigger_rule(events, job, run_dag):
    job.fails = True

    ran = run_dag(incremental("failed", "db.events", job, commit={"trigger_rule": "all_done"}))

    assert isinstance(ran.errors["commit"], EvidenceError)
    assert "'work' is failed" in str(ran.errors["commit"])
    assert committed_at("failed.capture", "db.events") is None


def test_a_task_that_never_ran_is_no_evidence(events, run_dag):
    with DAG("upstream_failed", schedule=None) as dag:
        captured = capturing("db.events")
        first = PythonOperator(task_id="first", python_callable=fail)
        second = EmptyOperator(task_id="second")
        captured >> first >> second >> IpCommitOperator(task_id="commit", capture=captured, trigger_rule="all_done")

    ran = run_dag(dag)

    assert "'first' is failed, 'second' is upstream_failed" in str(ran.errors["commit"])
    assert committed_at("upstream_failed.capture", "db.events") is None


def test_a_skipped_task_is_no_evidence(events, run_dag):
    ran = run_dag(branched("skipped"))

    assert "'work' is skipped" in str(ran.errors["commit"])
    assert "require=" in str(ran.errors["commit"])
    assert committed_at("skipped.capture", "db.events") is None


def test_require_narrows_the_evidence(events, run_dag):
    ran = run_dag(branched("required", require=["decide"]))

    assert ran.states["commit"] == "success"
    assert committed_at("required.capture", "db.events") == events.current_snapshot().snapshot_id


def test_require_does_not_excuse_what_it_names(events, run_dag):
    ran = run_dag(branched("required_skipped", require=["decide", "work"]))

    assert "'work' is skipped" in str(ran.errors["commit"])


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ((), None),
        (("job",), None),
        (("job", "again"), "'again' is failed, 'job' is failed"),
        (("job", "recover"), "'again' is upstream_failed, 'job' is failed"),
        (("capture",), "captured nothing"),
    ],
    ids=lambda names: "+".join(names or ["nothing"]) if isinstance(names, tuple) else "",
)
def test_tasks_that_stand_for_each_other_are_evidence_by_one_of_them(events, run_dag, failing, said):
    """A job, or what repeats it after a recovery: without the success of either nothing moves."""
    dag_id = f"remedied_{'_'.join(failing)}"

    ran = run_dag(remedied(dag_id, failing))

    assert ran.states["commit"] == ("failed" if said else "success")
    assert (said or "") in str(ran.errors.get("commit", ""))
    moved = None if said else events.current_snapshot().snapshot_id
    assert committed_at(f"{dag_id}.capture", "db.events") == moved
    if not failing:  # what runs after a failure is skipped, and holds nothing up
        assert (ran.states["recover"], ran.states["again"]) == ("skipped", "skipped")


def test_mapped_tasks_stand_in_with_all_of_their_instances(events, run_dag):
    """One instance that failed is no evidence, whatever the other did."""
    with DAG("remedied_mapped", schedule=None) as dag:
        captured = capturing("db.events")
        job = PythonOperator(task_id="job", python_callable=fail)
        again = PythonOperator.partial(
            task_id="again", python_callable=lambda n: n == 1 or fail(), trigger_rule="all_done"
        ).expand(op_args=[[1], [2]])
        commit = IpCommitOperator(task_id="commit", capture=captured, trigger_rule="all_done", require=[(job, again)])
        captured >> job >> again >> commit

    ran = run_dag(dag)

    assert "'again[1]' is failed, 'job' is failed" in str(ran.errors["commit"])


@pytest.mark.parametrize(
    ("failing", "said"),
    [((), None), (("a",), None), (("a", "c"), "'a' is failed, 'c' is failed"), (("b", "c"), None)],
    ids=lambda names: "+".join(names or ["nothing"]) if isinstance(names, tuple) else "",
)
def test_a_task_may_be_replaced_by_different_ones(events, run_dag, failing, said):
    """Two entries have one task in common, and each wants a success of its own."""
    dag_id = f"overlapping_{'_'.join(failing)}"
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events")
        tasks = [
            PythonOperator(task_id=name, python_callable=lambda name=name: name in failing and fail()) for name in "abc"
        ]
        demands = [("a", "b"), ("a", "c")]
        commit = IpCommitOperator(task_id="commit", capture=captured, require=demands, trigger_rule="all_done")
        captured >> tasks >> commit

    ran = run_dag(dag)

    assert ran.states["commit"] == ("failed" if said else "success")
    assert (said or "") in str(ran.errors.get("commit", ""))
    moved = None if said else events.current_snapshot().snapshot_id
    assert committed_at(f"{dag_id}.capture", "db.events") == moved


def remedied(dag_id, failing):
    """A job whose failure leads to a recovery and to the same job again."""

    def told(name):
        return PythonOperator(
            task_id=name,
            python_callable=lambda: name in failing and fail(),
            trigger_rule="one_failed" if name == "recover" else "all_success",
        )

    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.gone" if "capture" in failing else "db.events")
        job, recover, again = (told(name) for name in ("job", "recover", "again"))
        commit = IpCommitOperator(task_id="commit", capture=captured, require=[(job, again)], trigger_rule="all_done")
        captured >> job >> recover >> again >> commit
        job >> commit
    return dag


def branched(dag_id, **options):
    """A job that a short circuit skips, and a commit that runs after skips."""
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events")
        decide = ShortCircuitOperator(
            task_id="decide", python_callable=lambda: False, ignore_downstream_trigger_rules=False
        )
        work = EmptyOperator(task_id="work")
        commit = IpCommitOperator(task_id="commit", capture=captured, trigger_rule="none_failed", **options)
        captured >> decide >> work >> commit
    return dag


def test_all_instances_of_a_mapped_task_are_evidence(events, run_dag):
    """Airflow tells of the second one as work_1, which is the name of another task here."""

    def fail_for_two(number):
        if number == 2:
            fail()

    with DAG("mapped_work", schedule=None) as dag:
        captured = capturing("db.events")
        work = PythonOperator.partial(task_id="work", python_callable=fail_for_two).expand(op_args=[[1], [2], [3]])
        work_1 = EmptyOperator(task_id="work_1")
        commit = IpCommitOperator(task_id="commit", capture=captured, trigger_rule="all_done")
        captured >> [work, work_1] >> commit

    ran = run_dag(dag)

    assert "'work[1]' is failed" in str(ran.errors["commit"])
    assert committed_at("mapped_work.capture", "db.events") is None


def test_tasks_of_a_group_are_evidence(events, job, run_dag):
    with DAG("group", schedule=None) as dag:
        with TaskGroup("stage"):
            captured = capturing("db.events")
            work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
            commit = IpCommitOperator(task_id="commit", capture="capture")
            work >> commit
        commit >> EmptyOperator(task_id="after")

    ran = run_dag(dag)

    assert set(ran.states.values()) == {"success"}
    assert job.seen == [[1, 2, 3]]
    assert committed_at("group.stage.capture", "db.events") == events.current_snapshot().snapshot_id


def test_a_task_beside_the_way_is_no_evidence(events, job, run_dag):
    """It neither uses the capture nor lies before the commit."""
    with DAG("beside", schedule=None) as dag:
        captured = capturing("db.events")
        captured >> PythonOperator(task_id="other", python_callable=fail)
        captured >> EmptyOperator(task_id="work") >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert (ran.states["other"], ran.states["commit"]) == ("failed", "success")


def test_a_commit_without_a_capture_in_its_run_is_refused(lake, run_dag):
    """The capture failed, and the commit's trigger rule let it run all the same."""
    with DAG("captureless", schedule=None) as dag:
        captured = capturing("db.nowhere")
        captured >> IpCommitOperator(task_id="commit", capture=captured, trigger_rule="all_done")

    ran = run_dag(dag)

    assert "'capture' has captured nothing" in str(ran.errors["commit"])


def test_a_capture_abandoned_meanwhile_is_not_committed(events, run_dag):
    """Someone took the checkpoint back while the job ran."""
    with DAG("abandoned", schedule=None) as dag:
        captured = capturing("db.events")
        work = PythonOperator(task_id="work", python_callable=lambda: lose_checkpoint("abandoned.capture"))
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert isinstance(ran.errors["commit"], CheckpointConflictError)


def test_icdc_tables_stay_until_the_next_commit(lake, events, job, run_dag):
    """So that the job alone can be cleared and run again."""
    dag = incremental("next_commit", "db.events", job)
    first = run_dag(dag)
    kept = icdc_tables(lake)
    append(events, [4])

    second = run_dag(dag)

    assert kept == [first.xcom("db.events")]
    assert icdc_tables(lake) == [second.xcom("db.events")]
    assert second.xcom("commit", "commit")["dropped"] == kept


def test_the_table_of_a_failed_run_goes_with_the_next_commit(lake, events, job, run_dag):
    dag = incremental("next_commit_failed", "db.events", job)
    job.fails = True
    run_dag(dag)
    append(events, [4])
    job.fails = False

    ran = run_dag(dag)

    assert icdc_tables(lake) == [ran.xcom("db.events")]


def test_icdc_tables_can_go_at_once(lake, events, job, run_dag, tmp_path):
    run_dag(incremental("dropped", "db.events", job, commit={"icdc_retention": "drop"}))

    assert icdc_tables(lake) == []
    assert not [path for path in (tmp_path / "warehouse" / "icdc").rglob("*") if path.is_file()]
    assert job.seen == [[1, 2, 3]]
    assert sorted(events.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_icdc_tables_can_stay_for_good(lake, events, job, run_dag):
    dag = incremental("kept", "db.events", job, commit={"icdc_retention": "keep"})
    first = run_dag(dag)
    append(events, [4])

    second = run_dag(dag)

    assert icdc_tables(lake) == sorted([first.xcom("db.events"), second.xcom("db.events")])


def test_a_table_that_cannot_be_dropped_fails_no_commit(lake, events, job, run_dag):
    """The checkpoint has moved by then. Here somebody put a table of their own under the name."""
    dag = incremental("undroppable", "db.events", job)
    first = run_dag(dag)
    lake.drop_table(first.xcom("db.events"))
    create(lake, first.xcom("db.events"))
    append(events, [4])

    ran = run_dag(dag)

    assert ran.states["commit"] == "success"
    assert first.xcom("db.events") in icdc_tables(lake)


def test_a_table_that_is_gone_fails_no_commit(lake, events, job, run_dag):
    dag = incremental("gone", "db.events", job)
    first = run_dag(dag)
    lake.drop_table(first.xcom("db.events"))
    append(events, [4])

    ran = run_dag(dag)

    assert ran.xcom("commit", "commit")["dropped"] == []
    assert ran.states["commit"] == "success"


def test_a_commit_that_runs_twice_moves_once(events, job, run_dag):
    """It died after it had moved the checkpoint, and is tried again."""

    class Dying(IpCommitOperator):
        def execute(self, context):
            super().execute(context)
            if context["ti"].xcom_pull(task_ids="commit", key="commit")["outcome"] == "advanced":
                raise RuntimeError("the worker dies, as the test wants it")

    with DAG("twice", schedule=None) as dag:
        captured = capturing("db.events")
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
        captured >> work >> Dying(task_id="commit", capture=captured, retries=1, retry_delay=0)

    ran = run_dag(dag, at=datetime.now(tz=UTC))

    assert ran.xcom("commit", "commit")["outcome"] == "already_done"
    assert len(checkpoint_of("twice.capture").history) == 1


def stamping(dag_id, target, *, stamp, writes=True, **options):
    """A job that appends to a target, with the capture's id as the snapshot's property or without."""

    def write(capture_id):
        if writes:
            append(target, [7], properties={"ips-capture-id": capture_id} if stamp else {})

    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events")
        work = PythonOperator(task_id="work", python_callable=write, op_args=[captured.output["capture_id"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured, verify_target="db.target", **options)
    return dag


def test_a_target_with_the_stamp_is_evidence(events, lake, run_dag):
    target = create(lake, "db.target")

    ran = run_dag(stamping("stamped", target, stamp=True))

    assert ran.states["commit"] == "success"
    assert committed_at("stamped.capture", "db.events") is not None


def test_a_target_without_the_stamp_is_none_though_every_task_succeeded(events, lake, run_dag):
    target = create(lake, "db.target")

    ran = run_dag(stamping("unstamped", target, stamp=False))

    assert ran.states["work"] == "success"
    assert "no snapshot of db.target has the stamp" in str(ran.errors["commit"])
    assert committed_at("unstamped.capture", "db.events") is None


def test_a_target_whose_template_renders_to_nothing_is_no_evidence(events, run_dag):
    """Without the table there would be no check at all, though one was meant."""
    with DAG("unnamed", schedule=None, render_template_as_native_obj=True) as dag:
        captured = capturing("db.events")
        named = PythonOperator(task_id="named", python_callable=lambda: None)
        target = "{{ ti.xcom_pull('named') }}"
        captured >> named >> IpCommitOperator(task_id="commit", capture=captured, verify_target=target)

    ran = run_dag(dag)

    assert "verify_target of 'commit' renders to None" in str(ran.errors["commit"])
    assert committed_at("unnamed.capture", "db.events") is None


def test_a_moved_head_is_evidence_where_it_is_asked_for(events, lake, run_dag):
    """The job cannot stamp. What was written before the capture is no evidence, what came since is."""
    target = create(lake, "db.target")
    append(target, [1])

    idle = run_dag(stamping("moving", target, stamp=False, writes=False, target_evidence="moved_head"))

    assert idle.states["work"] == "success"
    assert "nothing was written to db.target since capture" in str(idle.errors["commit"])
    assert committed_at("moving.capture", "db.events") is None

    ran = run_dag(stamping("moving", target, stamp=False, target_evidence="moved_head"))

    assert ran.states["commit"] == "success"
    assert committed_at("moving.capture", "db.events") is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"verify_target": "db.t", "target_evidence": "hope"}, "'hope'"),
        ({"target_evidence": "moved_head"}, "no target"),
    ],
)
def test_evidence_that_cannot_be_had_is_refused_at_parse(options, told):
    with DAG("evidence", schedule=None), pytest.raises(InputError, match=told):
        IpCommitOperator(task_id="commit", capture="capture", **options)


def test_a_malformed_target_is_refused_at_parse():
    with DAG("malformed_target", schedule=None), pytest.raises(InputError, match="'target'"):
        IpCommitOperator(task_id="commit", capture="capture", verify_target="target")
