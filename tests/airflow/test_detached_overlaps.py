"""A detached run gives way to a backfill in chunks that is writing the same part of the same target."""

from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, compat, iceberg_asset, ips_params
from airflow_provider_ips.checkpoints.claim_tables import ClaimTables
from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.backfill.claims import PREFIX
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.runs.environment import open_iceberg_store
from tests.airflow.backfills import backfilling, left_queued, october
from tests.kit.pipelines import capturing, for_each, incremental, left_running, waiting
from tests.kit.tables import append, create

DONE = {"capture": "success", "work": "success", "commit": "success"}
WRITES: dict[str, Any] = {"target_assets": iceberg_asset("db.written", iceberg_conn_id="lake")}
WRITES_AGG: dict[str, Any] = {"target_assets": iceberg_asset("db.agg", iceberg_conn_id="lake")}


@pytest.fixture
def days(lake):
    """A row of each of four days, partitioned by day."""
    table = create(lake, "db.days")
    with table.update_spec() as spec:
        spec.add_identity("day")
    for number in range(1, 5):
        append(table, [number], day=october(number))
    return table


@pytest.fixture
def users(lake):
    """A row of each of two days, partitioned by day."""
    table = create(lake, "db.users")
    with table.update_spec() as spec:
        spec.add_identity("day")
    append(table, [1], day=october(1))
    append(table, [2], day=october(2))
    return table


@pytest.fixture
def pipeline(job):
    """A live DAG with the trigger form, whose job writes ``db.written``."""

    def make(dag_id, source="db.days", *, capture=None, commit=None):
        dag = incremental(dag_id, source, job, capture=capture, commit=WRITES if commit is None else commit)
        dag.params.update(ips_params())
        return dag

    return make


@pytest.fixture
def backfilled(days, job, run_dag):
    """A backfill in chunks of the days that a condition selects, run once."""

    def run(condition, *, dag_id="chunked", target="db.written", **plan):
        ran = run_dag(backfilling(dag_id, job, partitions=condition, target_tables=target, **plan))
        assert ran.states["plan"] == "success"
        return ran

    return run


def some_days(condition):
    return {"ips_run": "partitions", "ips_partitions": condition}


def claims():
    """The keys under which this Airflow keeps them."""
    kept = ServerVariables() if compat.HAS_3_3 else ClaimTables(open_iceberg_store("lake"))
    return kept.keys(prefix=PREFIX)


def test_a_detached_run_is_refused_while_a_backfill_writes_the_same_days(backfilled, pipeline, run_dag):
    """In whatever DAG it is. Other days may be written meanwhile, and so may another target."""
    first = backfilled("day <= '2026-10-02'")

    with left_running(first):
        refused = run_dag(pipeline("single"), conf=some_days("day = '2026-10-02'"))
        beside = run_dag(pipeline("beside"), conf=some_days("day >= '2026-10-03'"))
        elsewhere = run_dag(pipeline("elsewhere", commit={}), conf=some_days("day = '2026-10-02'"))
    after = run_dag(pipeline("after"), conf=some_days("day = '2026-10-02'"))

    error = refused.errors["capture"]
    assert isinstance(error, CheckpointConflictError)
    assert f"run chunked/{first.dag_run.run_id} (some partitions in full, partitions day <= '2026-10-02')" in str(error)
    assert "writes db.written@main as well" in str(error)
    assert "trigger a new run with the same request; on_active_run='wait' waits for it" in error.remedy
    assert "other values of day need not wait" in error.remedy
    assert beside.states == elsewhere.states == after.states == DONE


def test_a_detached_run_claims_nothing(days, pipeline, run_dag):
    """So two of them may write the same days at the same time, as two jobs that are started by hand may."""
    assert run_dag(pipeline("claimless"), conf=some_days("day = '2026-10-01'")).states == DONE

    assert claims() == []


@pytest.mark.parametrize(
    ("conf", "overlaps"),
    [
        (some_days("day = '2026-10-04'"), False),
        ({"ips_run": "full"}, True),
        ({"ips_run": "time", "ips_since_time": "2020-01-01T00:00:00+00:00"}, True),
        ({"ips_run": "full", "ips_dry_run": True}, False),
        ({}, False),
    ],
    ids=["another day", "everything", "a range", "a dry run", "a live run"],
)
def test_what_overlaps_some_partitions(backfilled, pipeline, run_dag, conf, overlaps):
    """A range may hold rows of any day. Live runs go on, and a dry run writes nothing."""
    first = backfilled("day = '2026-10-01'")

    with left_running(first):
        ran = run_dag(pipeline("other"), conf=conf)

    assert isinstance(ran.errors.get("capture"), CheckpointConflictError) is overlaps


def test_a_range_may_reach_other_days_than_those_of_its_own_rows(days, backfilled, pipeline, run_dag):
    """This one gained rows of the fourth day only; the days of rows that were deleted in it are not known."""
    third = str(days.refresh().snapshots()[2].snapshot_id)
    first = backfilled("day = '2026-10-01'")

    with left_running(first):
        ran = run_dag(pipeline("ranged"), conf={"ips_run": "snapshot", "ips_since_snapshot": third})

    assert isinstance(ran.errors["capture"], CheckpointConflictError)


def test_a_refresh_may_reach_days_that_the_source_has_lost(days, backfilled, pipeline, run_dag):
    """Its job may overwrite the whole target."""
    first = backfilled("day = '2026-10-01'")
    days.delete("day = '2026-10-01'")

    with left_running(first):
        ran = run_dag(pipeline("refreshing"), conf={"ips_run": "full"})

    assert isinstance(ran.errors["capture"], CheckpointConflictError)


def waiting_dag(dag_id, job, operator, **options):
    with DAG(dag_id, schedule=None, params=ips_params()) as dag:
        capture = operator(task_id="capture", source_tables="db.days", iceberg_conn_id="lake", **options)
        work = PythonOperator(task_id="work", python_callable=job, op_args=[capture.output["db.days"]])
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture, **WRITES)
    return dag


def test_a_detached_run_can_wait(backfilled, job, run_dag):
    first = backfilled("day = '2026-10-01'")
    waits: list[datetime] = []
    other, started = ExitStack(), datetime.now(tz=UTC)
    other.enter_context(left_running(first))

    dag = waiting_dag("patient", job, waiting(IpCaptureOperator, other, waits), on_active_run="wait")
    ran = run_dag(dag, conf=some_days("day = '2026-10-01'"))

    assert ran.states == DONE
    assert [wait > started for wait in waits] == [True]


def test_runs_of_airflows_own_backfill_wait_where_they_overlap(backfilled, job, run_dag):
    """They are many, and are not looked after one by one, so none is refused. Those of other days go on."""
    first = backfilled("day = '2026-10-02'")
    job.seen.clear()
    waits: list[datetime] = []
    other = ExitStack()
    other.enter_context(left_running(first))
    which = "day = '2026-10-0{{ dag_run.conf['number'] }}'"
    operator = waiting(IpCaptureOperator, other, waits)
    dag = waiting_dag("by_day", job, operator, backfill_partitions=which)

    with as_airflows_backfill():
        beside = run_dag(dag, conf={"number": 3})
        assert waits == []
        ran = run_dag(dag, conf={"number": 2})

    assert beside.states == ran.states == DONE
    assert len(waits) == 1
    assert job.seen == [[3], [2]]


@pytest.mark.parametrize(
    ("conf", "effect"),
    [
        ({"ips_dry_run": True}, ["skipped", 1]),
        ({"ips_max_files": 1}, "ips_max_files"),
        ({"ips_move_checkpoint": True}, "ips_move_checkpoint"),
    ],
    ids=["dry run", "limit", "checkpoint"],
)
def test_what_a_backfill_says_in_its_conf_has_its_effect_or_is_refused(days, job, run_dag, conf, effect):
    """A dry run is one of the partitions; a limit would leave out rows that no other run takes."""
    dag = waiting_dag("told_more", job, IpCaptureOperator, backfill_partitions="day = '2026-10-02'")

    with as_airflows_backfill():
        ran = run_dag(dag, conf=conf)

    if isinstance(effect, str):
        assert effect in str(ran.errors["capture"])
    else:
        captured = ran.xcom("capture")["sources"][0]
        assert [ran.states["work"], captured["files"]] == effect
    assert job.seen == []


def as_airflows_backfill():
    """Have runs that begin meanwhile be of the type that `airflow backfill create` makes."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import event

    def make_it_one(mapper, connection, run):
        run.run_type = "backfill"

    stack = ExitStack()
    event.listen(DagRun, "before_insert", make_it_one)
    stack.callback(event.remove, DagRun, "before_insert", make_it_one)
    return stack


def test_several_sources_overlap_every_backfill_of_their_target(users, backfilled, pipeline, run_dag):
    """A backfill has one source, and a joined row of another day may come from any of several."""
    first = backfilled("day = '2026-10-01'")

    with left_running(first):
        joined = run_dag(pipeline("joined", ["db.days", "db.users"]), conf=some_days("day = '2026-10-02'"))

    error = joined.errors["capture"]
    assert isinstance(error, CheckpointConflictError)
    assert "need not wait" not in error.remedy


def two_stages(job, *, following=None):
    """A backfill in chunks, and a next stage, which follows the trigger form as well."""
    dag = backfilling("two_stages", job, commit=WRITES)
    with dag:
        capture = capturing("db.users", task_id="next", **(following or {}))
        last = IpCommitOperator(task_id="last", capture=capture, **WRITES_AGG)
        dag.get_task("chunk.commit") >> capture >> last
    return dag


def test_a_next_stage_downstream_of_a_backfill_is_stopped_by_no_plan_of_its_dag(days, users, job, run_dag):
    """A plan claims what all commits downstream name, and the next stage follows the form as well.

    In its own run it is in the DAG's order; of two runs the plans have been compared already.
    """
    first = run_dag(two_stages(job), conf=some_days("day = '2026-10-01'"))
    with left_running(first):
        beside = run_dag(two_stages(job), conf=some_days("day = '2026-10-02'"))

    for ran in (first, beside):
        assert ran.states["next"] == ran.states["last"] == "success", ran.errors


@pytest.mark.timeout(60)
def test_a_run_whose_plan_others_may_wait_for_does_not_wait(days, users, job, backfilled, run_dag):
    """If the next stage waited for a backfill that waits for the plan of its own run, neither would end."""
    other = backfilled("day = '2026-10-02'", dag_id="other", target="db.agg")

    with left_running(other):
        ran = run_dag(two_stages(job, following={"on_active_run": "wait"}), conf=some_days("day = '2026-10-01'"))

    assert set(ran.errors) == {"next"}
    assert isinstance(ran.errors["next"], CheckpointConflictError)


def test_a_queued_backfill_is_not_waited_for_where_runs_of_the_dag_go_one_by_one(days, job, run_dag):
    """It was cleared, and begins when the run that would wait for it has ended."""

    def with_capture():
        dag = backfilling("single_file", job, target_tables="db.written", dag={"max_active_runs": 1})
        with dag:
            capture = capturing("db.days", task_id="beside", on_active_run="wait")
            capture >> IpCommitOperator(task_id="commit_beside", capture=capture, **WRITES)
        return dag

    first = run_dag(with_capture(), conf=some_days("day = '2026-10-01'"))

    with left_queued(first):
        ran = run_dag(with_capture(), conf=some_days("day = '2026-10-01'"))

    assert "is queued after this run: the DAG has max_active_runs=1" in str(ran.errors["beside"])


def test_a_target_that_only_the_job_will_name_is_not_known_yet(days, pipeline, run_dag):
    """Its template cannot be rendered when the capture runs, or comes out as None; that is no reason to fail."""
    for number, template in enumerate(["{{ ti.xcom_pull('work')['table'] }}", "{{ ti.xcom_pull('work') }}"]):
        ran = run_dag(pipeline(f"named_late_{number}", commit={"verify_target": template}), conf={"ips_run": "full"})

        assert ran.states["capture"] == ran.states["work"] == "success"


def test_a_target_that_is_a_template_is_known_by_then(backfilled, pipeline, run_dag):
    """A run that writes another table is not stopped."""
    write = {"verify_target": "db.of_{{ dag_run.conf['table'] }}"}
    first = backfilled("day <= '2026-10-02'", target="db.of_a")

    with left_running(first):
        beside = run_dag(pipeline("templated", commit=write), conf={"ips_run": "full", "table": "b"})
        refused = run_dag(pipeline("templated", commit=write), conf={"ips_run": "full", "table": "a"})

    assert beside.states["work"] == "success"
    assert "writes db.of_a@main as well" in str(refused.errors["capture"])


def test_only_the_captures_own_commit_says_what_it_writes(backfilled, job, run_dag):
    """A next stage in the same DAG has its own commit."""
    with DAG("own_commit", schedule=None, params=ips_params()) as dag:
        one = capturing("db.days")
        work = PythonOperator(task_id="work", python_callable=job, op_args=[one.output["db.days"]])
        committed = IpCommitOperator(task_id="commit", capture=one, **WRITES)
        two = capturing("db.days", task_id="capture_2")
        last = IpCommitOperator(task_id="commit_2", capture=two, verify_target="db.last")
        one >> work >> committed >> two >> last
    first = backfilled("day = '2026-10-01'", target="db.last")

    with left_running(first):
        ran = run_dag(dag, conf={"ips_run": "full"})

    assert ran.states["commit"] == "success"
    assert set(ran.errors) == {"capture_2"}


def test_each_instance_of_a_mapped_capture_is_compared(users, backfilled, job, run_dag):
    """By its own source: of another table, any row may be written to the target."""
    first = backfilled("day = '2026-10-01'")
    dag = for_each("mapped", ["db.days", "db.users"], job, commit=WRITES)
    dag.params.update(ips_params())

    with left_running(first):
        ran = run_dag(dag, conf=some_days("day = '2026-10-02'"))

    assert isinstance(ran.errors["one.capture"], CheckpointConflictError)
    assert job.seen[-1] == [2]
