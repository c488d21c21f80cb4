"""Detached runs by themselves: a refresh, a range or some partitions are noted like a backfill in chunks."""

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, iceberg_asset, ips_params
from airflow_provider_ips.checkpoints.access import ServerVariables
from airflow_provider_ips.core.claims import PREFIX
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.operators import _claims
from airflow_provider_ips.operators.commit import Captured
from tests.airflow import people
from tests.airflow.backfills import backfilling, left_queued, october
from tests.airflow.pipelines import Job, capturing, incremental, left_running, waiting
from tests.airflow.tables import append, create

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
def job(lake):
    return Job(lake)


@pytest.fixture
def pipeline(job):
    """A live DAG with the trigger form, whose job writes ``db.written``."""

    def make(dag_id, source="db.days", *, capture=None, commit=None):
        dag = incremental(dag_id, source, job, capture=capture, commit=WRITES if commit is None else commit)
        dag.params.update(ips_params())
        return dag

    return make


def some_days(condition):
    return {"ips_run": "partitions", "ips_partitions": condition}


def notes():
    return ServerVariables().keys(prefix=PREFIX)


def failed(job, run_dag, dag, conf):
    """A run whose job has failed: what it is at work on stays noted."""
    job.fails = True
    ran = run_dag(dag, conf=conf)
    job.fails = False
    assert ran.states["work"] == "failed"
    return ran


def test_a_second_detached_run_of_the_same_days_is_refused_while_the_first_is_active(days, job, pipeline, run_dag):
    """Whatever DAG it is of. Other days may be written meanwhile, and so may another target."""
    first = failed(job, run_dag, pipeline("first"), some_days("day <= '2026-10-02'"))

    with left_running(first):
        refused = run_dag(pipeline("second"), conf=some_days("day = '2026-10-02'"))
        beside = run_dag(pipeline("beside"), conf=some_days("day >= '2026-10-03'"))
        elsewhere = run_dag(pipeline("elsewhere", commit={}), conf=some_days("day = '2026-10-02'"))
    behind = run_dag(pipeline("behind"), conf=some_days("day = '2026-10-02'"))

    error = refused.errors["capture"]
    assert isinstance(error, CheckpointConflictError)
    assert f"run first/{first.dag_run.run_id} (some partitions in full, partitions day <= '2026-10-02')" in str(error)
    assert "writes db.written@main as well" in str(error)
    assert "trigger a new run and ask it for the same; on_active_run='wait' waits for it" in error.remedy
    assert "other values of day need not wait" in error.remedy
    assert beside.states == elsewhere.states == behind.states == DONE


def test_two_runs_of_a_dag_that_names_no_target_see_each_other(days, job, pipeline, run_dag):
    dag = pipeline("nameless", commit={})
    first = failed(job, run_dag, dag, {"ips_run": "full"})

    with left_running(first):
        refused = run_dag(dag, conf={"ips_run": "full"})

    assert "writes whatever DAG nameless writes as well" in str(refused.errors["capture"])


@pytest.mark.parametrize(
    ("asked", "overlaps"),
    [
        (some_days("day = '2026-10-04'"), False),
        ({"ips_run": "full"}, True),
        ({"ips_run": "time", "ips_since_time": "2020-01-01T00:00:00+00:00"}, True),
        ({"ips_run": "full", "ips_dry_run": True}, False),
        ({}, False),
    ],
    ids=["another day", "everything", "a range", "a dry run", "a live run"],
)
def test_what_overlaps_some_partitions(days, job, pipeline, run_dag, asked, overlaps):
    """A range may hold rows of any day. Live runs go on, and a dry run writes nothing."""
    first = failed(job, run_dag, pipeline("some"), some_days("day = '2026-10-01'"))

    with left_running(first):
        ran = run_dag(pipeline("other"), conf=asked)

    assert isinstance(ran.errors.get("capture"), CheckpointConflictError) is overlaps


def test_a_range_may_reach_what_its_own_rows_are_not_of(days, job, pipeline, run_dag):
    """This one gained rows of the fourth day only; what was deleted in it, and of which day, nobody has looked at."""
    third = str(days.refresh().snapshots()[2].snapshot_id)
    first = failed(job, run_dag, pipeline("some_of_it"), some_days("day = '2026-10-01'"))

    with left_running(first):
        ran = run_dag(pipeline("ranged"), conf={"ips_run": "snapshot", "ips_since_snapshot": third})

    assert isinstance(ran.errors["capture"], CheckpointConflictError)


def test_the_commit_takes_the_note_back(days, job, pipeline, run_dag):
    """A job that failed has its note until it is cleared and has succeeded; runs that note nothing say so."""
    dag = pipeline("noted")
    ran = failed(job, run_dag, dag, some_days("day = '2026-10-01'"))
    held = notes()

    people.clear(ran, "work", "commit")
    again = people.go_on(dag, ran)

    assert again.states == DONE
    assert len(held) == 1
    assert again.xcom("capture")["requested"]["notes"] == list(held)
    assert notes() == []
    # DAGs made anew: within one process, Airflow keeps a run's conf in the DAG's params.
    for conf, states in (
        ({"ips_run": "full", "ips_dry_run": True}, {"capture": "success", "work": "skipped", "commit": "skipped"}),
        ({}, DONE),
        (some_days("day = '2026-10-01'"), DONE),
    ):
        assert run_dag(pipeline("noted"), conf=conf).states == states
        assert notes() == []


def test_who_finds_the_note_of_a_run_that_has_ended_removes_it(days, job, pipeline, run_dag):
    """Also of other days, and without a commit that takes it back: or every run would read those of all before it."""
    failed(job, run_dag, pipeline("failed_once"), some_days("day = '2026-10-01'"))
    (old,) = notes()
    with DAG("no_commit", schedule=None, params=ips_params()) as dag:
        capturing("db.days")

    run_dag(pipeline("after_it"), conf=some_days("day = '2026-10-03'"))
    assert notes() == []
    run_dag(dag, conf={"ips_run": "full"})
    (first,) = notes()
    run_dag(dag, conf={"ips_run": "full"})
    (second,) = notes()

    assert len({old, first, second}) == 3


def test_of_two_runs_that_are_cleared_one_goes_on(days, job, pipeline, run_dag):
    """Each finds what the other has noted before. Who gives way takes its own back, and the other passes."""
    one, two = pipeline("cleared_one"), pipeline("cleared_two")
    first = failed(job, run_dag, one, {"ips_run": "full"})
    second = failed(job, run_dag, two, {"ips_run": "full"})
    for ran in (first, second):
        put_back_note(ran)
    assert len(notes()) == 2

    with left_running(second):
        people.clear(first, "capture", "work", "commit")
        refused = people.go_on(one, first)
    people.clear(second, "capture", "work", "commit")
    with left_running(first):
        again = people.go_on(two, second)

    assert isinstance(refused.errors["capture"], CheckpointConflictError)
    assert again.states == DONE


def put_back_note(ran):
    """As if nobody had found it since: the record says where it was."""
    (key,) = ran.xcom("capture")["requested"]["notes"]
    ServerVariables().set(key, kept[key], description="as a capture does")


@pytest.fixture(autouse=True)
def remembered(monkeypatch):
    """Every note that was written, for tests that put one back."""
    kept.clear()
    write = _claims.Notes.set

    def remember(self, key, value, *, description):
        kept[key] = value
        write(self, key, value, description=description)

    monkeypatch.setattr(_claims.Notes, "set", remember)


kept: dict[str, str] = {}


def test_a_run_that_is_queued_asks_when_it_begins(days, job, pipeline, run_dag):
    """It was cleared. Where one run of a DAG goes at a time, waiting for it would never end."""
    dag = pipeline("single_file", capture={"on_active_run": "wait"})
    dag.max_active_runs = 1
    first = failed(job, run_dag, dag, {"ips_run": "full"})

    with left_queued(first):
        assert run_dag(dag, conf={"ips_run": "full"}).states == DONE


def test_a_note_that_cannot_be_taken_back_keeps_no_commit_from_succeeding(days, pipeline, run_dag, monkeypatch):
    """The work is done. The note is in nobody's way once the run has ended."""

    def fail(self, key):
        raise ConnectionError("the API server is away")

    monkeypatch.setattr(_claims.Notes, "delete", fail)
    ran = run_dag(pipeline("kept"), conf={"ips_run": "full"})

    assert ran.states == DONE
    assert len(notes()) == 1
    assert run_dag(pipeline("next"), conf={"ips_run": "full"}).states == DONE


def test_a_detached_run_and_a_backfill_in_chunks_see_each_other(days, job, pipeline, run_dag):
    """The plan is cut by the same column as the filter of the single run is told by."""
    asked = {"partitions": "day <= '2026-10-02'", "target_tables": "db.written"}
    chunked = run_dag(backfilling("chunked", job, **asked))
    with left_running(chunked):
        refused = run_dag(pipeline("single"), conf=some_days("day = '2026-10-02'"))
        beside = run_dag(pipeline("single_beside"), conf=some_days("day = '2026-10-03'"))
    assert "run chunked/" in str(refused.errors["capture"])
    assert beside.states == DONE

    single = failed(job, run_dag, pipeline("one"), some_days("day = '2026-10-02'"))
    with left_running(single):
        plan = run_dag(backfilling("planned", job, **asked))
        other = run_dag(backfilling("planned_beside", job, **{**asked, "partitions": "day = '2026-10-01'"}))
    assert "run one/" in str(plan.errors["plan"])
    assert other.states["plan"] == "success"


def waiting_dag(dag_id, job, operator, **options):
    with DAG(dag_id, schedule=None, params=ips_params()) as dag:
        capture = operator(task_id="capture", source_tables="db.days", iceberg_conn_id="lake", **options)
        work = PythonOperator(task_id="work", python_callable=job, op_args=[capture.output["db.days"]])
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture, **WRITES)
    return dag


def test_a_detached_run_can_wait(days, job, pipeline, run_dag):
    first = failed(job, run_dag, pipeline("ahead"), {"ips_run": "full"})
    waits: list[datetime] = []
    other, started = ExitStack(), datetime.now(tz=UTC)
    other.enter_context(left_running(first))

    dag = waiting_dag("patient", job, waiting(IpCaptureOperator, other, waits), on_active_run="wait")
    ran = run_dag(dag, conf=some_days("day = '2026-10-01'"))

    assert ran.states == DONE
    assert [wait > started for wait in waits] == [True]


def test_runs_of_airflows_own_backfill_wait_for_each_other_where_they_overlap(days, job, pipeline, run_dag):
    """Nobody looks after each of them, so none is refused. Those of different days go side by side."""
    first = failed(job, run_dag, pipeline("in_front"), some_days("day = '2026-10-02'"))
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


def test_captures_of_one_run_are_in_the_dags_own_order(lake, days, job, run_dag):
    """Two instances of a mapped capture, both asked for everything, whose rows one job writes to one target."""
    append(create(lake, "db.users"), [1])
    with DAG("mapped", schedule=None, params=ips_params()) as dag:
        capture = IpCaptureOperator.partial(task_id="capture", iceberg_conn_id="lake").expand(
            source_tables=["db.days", "db.users"]
        )
        work = PythonOperator(task_id="work", python_callable=print)
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture, **WRITES)

    ran = run_dag(dag, conf={"ips_run": "full"})

    assert ran.dag_run.state == "success"
    assert len({note for n in range(2) for note in ran.xcom("capture", map_index=n)["requested"]["notes"]}) == 2
    assert notes() == []


def test_several_sources_are_compared_if_one_column_tells_of_all(lake, days, job, pipeline, run_dag):
    """Rows of a day may come of any of them, also of one that the first has none of."""
    other = create(lake, "db.users")
    with other.update_spec() as spec:
        spec.add_identity("day")
    append(other, [2], day=october(2))
    append(other, [5], day=october(5))
    both = ["db.days", "db.users"]
    first = failed(job, run_dag, pipeline("joined", both), some_days("day in ('2026-10-01', '2026-10-05')"))

    with left_running(first):
        beside = run_dag(pipeline("joined_beside", both), conf=some_days("day = '2026-10-02'"))
        refused = run_dag(pipeline("joined_too", both), conf=some_days("day = '2026-10-05'"))
        alone = run_dag(pipeline("alone"), conf=some_days("day = '2026-10-02'"))

    assert beside.states == DONE
    assert isinstance(refused.errors["capture"], CheckpointConflictError)
    assert isinstance(alone.errors["capture"], CheckpointConflictError)


@pytest.fixture
def users(lake):
    """A row of each of two days, partitioned by day."""
    table = create(lake, "db.users")
    with table.update_spec() as spec:
        spec.add_identity("day")
    append(table, [1], day=october(1))
    append(table, [2], day=october(2))
    return table


def test_a_next_stage_behind_a_backfill_is_stopped_by_no_plan_of_its_dag(days, users, job, run_dag):
    """A plan claims what all commits behind it name, and the next stage follows the form as well.

    In its own run it is the DAG's order; of two runs the plans have been compared already.
    """

    def with_next():
        dag = backfilling("with_next", job, commit=WRITES)
        with dag:
            following = capturing("db.users", task_id="next")
            last = IpCommitOperator(task_id="last", capture=following, **WRITES_AGG)
            dag.get_task("chunk.commit") >> following >> last
        return dag

    first = run_dag(with_next(), conf=some_days("day = '2026-10-01'"))
    with left_running(first):
        beside = run_dag(with_next(), conf=some_days("day = '2026-10-02'"))

    for ran in (first, beside):
        assert ran.states["next"] == ran.states["last"] == "success", ran.errors


def two_captures(job, *, on_active_run="fail"):
    """Of two tables, one after the other, for one job that writes one target."""
    with DAG("two_captures", schedule=None, params=ips_params()) as dag:
        one, two = (
            capturing(source, task_id=name, on_active_run=on_active_run)
            for name, source in (("one", "db.days"), ("two", "db.users"))
        )
        work = PythonOperator(task_id="work", python_callable=job, op_args=[one.output["db.days"]])
        one >> two >> work
        work >> [IpCommitOperator(task_id=f"commit_{each.task_id}", capture=each, **WRITES) for each in (one, two)]
    return dag


def test_two_runs_of_different_days_do_not_wait_for_each_others_second_capture(days, users, job, run_dag):
    """A run that has passed the first must not be stopped by the other run's first, nor the other by its second."""
    first = failed(job, run_dag, two_captures(job), some_days("day = '2026-10-01'"))
    with left_running(first):
        beside = run_dag(two_captures(job), conf=some_days("day = '2026-10-02'"))
        refused = run_dag(two_captures(job), conf=some_days("day = '2026-10-01'"))

    assert beside.dag_run.state == "success"
    assert set(refused.errors) == {"one"}


@pytest.mark.timeout(60)
def test_what_somebody_may_be_waiting_for_does_not_wait(days, users, job, run_dag):
    """The run's first capture has noted something. If the second waited for who waits for that, none would end."""
    from airflow.models.variable import Variable as StoredVariable

    first = failed(job, run_dag, two_captures(job, on_active_run="wait"), some_days("day = '2026-10-01'"))
    (note,) = first.xcom("capture", task="one")["requested"]["notes"]
    assert len(notes()) == 2
    StoredVariable.delete(note)

    with left_running(first):
        ran = run_dag(two_captures(job, on_active_run="wait"), conf=some_days("day = '2026-10-01'"))

    assert set(ran.errors) == {"two"}
    assert isinstance(ran.errors["two"], CheckpointConflictError)


def test_a_source_that_is_a_template_is_no_reason_to_write_one_target_twice(days, users, job, run_dag):
    """Two runs of a DAG for different tables, whose jobs write the same one."""

    def of_any_table():
        with DAG("any_table", schedule=None, params={"table": "db.days", **ips_params()}) as dag:
            capture = capturing("{{ params.table }}")
            work = PythonOperator(task_id="work", python_callable=job, op_args=["db.days"])
            capture >> work >> IpCommitOperator(task_id="commit", capture=capture, **WRITES)
        return dag

    first = failed(job, run_dag, of_any_table(), {"ips_run": "full", "table": "db.days"})
    with left_running(first):
        ran = run_dag(of_any_table(), conf={"ips_run": "full", "table": "db.users"})

    assert isinstance(ran.errors["capture"], CheckpointConflictError)


def test_a_target_that_only_the_job_will_tell_is_not_known_yet(days, job, pipeline, run_dag):
    """Its template cannot be rendered when the capture runs, or comes out as None; that is no reason to fail."""
    for number, template in enumerate(["{{ ti.xcom_pull('work')['table'] }}", "{{ ti.xcom_pull('work') }}"]):
        ran = run_dag(pipeline(f"told_late_{number}", commit={"verify_target": template}), conf={"ips_run": "full"})
        (note,) = ran.xcom("capture")["requested"]["notes"]
        assert json.loads(kept[note])["target"] == f"whatever DAG told_late_{number} writes"


def test_columns_of_one_name_and_several_types_are_not_compared(lake, days, job, pipeline, run_dag):
    texts = lake.create_table("db.texts", schema=pa.schema([("id", pa.int64()), ("day", pa.string())]))
    with texts.update_spec() as spec:
        spec.add_identity("day")
    texts.append(pa.table({"id": [1], "day": ["2026-10-01"]}))

    ran = run_dag(pipeline("two_types", ["db.days", "db.texts"]), conf=some_days("day = '2026-10-01'"))

    assert ran.states == DONE


def test_a_target_that_is_a_template_is_known_by_then(days, job, pipeline, run_dag):
    """Of two runs that write different tables none stops the other."""
    write = {"verify_target": "db.of_{{ dag_run.conf['table'] }}"}
    first = run_dag(pipeline("templated", commit=write), conf={"ips_run": "full", "table": "a"})
    assert first.states["commit"] == "failed"  # there is no such table

    with left_running(first):
        beside = run_dag(pipeline("templated", commit=write), conf={"ips_run": "full", "table": "b"})
        refused = run_dag(pipeline("templated", commit=write), conf={"ips_run": "full", "table": "a"})

    assert beside.states["work"] == "success"
    assert "writes db.of_a@main as well" in str(refused.errors["capture"])


def test_a_refresh_claims_everything_and_opens_no_manifest_for_it(days, job, pipeline, run_dag):
    """Its job may overwrite the target: also what came since, and days that the source has lost."""
    first = failed(job, run_dag, pipeline("refreshing"), {"ips_run": "full"})
    (note,) = first.xcom("capture")["requested"]["notes"]
    append(days, [5], day=october(5))

    with left_running(first):
        ran = run_dag(pipeline("newest"), conf=some_days("day = '2026-10-05'"))

    assert json.loads(kept[note])["extent"]["spans"] is None
    assert isinstance(ran.errors["capture"], CheckpointConflictError)


def test_only_the_captures_own_commit_says_what_it_writes(lake, days, job, run_dag):
    """A next stage in the same DAG has a commit of its own."""
    with DAG("two_stages", schedule=None, params=ips_params()) as dag:
        one = capturing("db.days", follow_params=True)
        work = PythonOperator(task_id="work", python_callable=job, op_args=[one.output["db.days"]])
        committed = IpCommitOperator(task_id="commit", capture=one, **WRITES)
        two = capturing("db.days", task_id="capture_2")
        last = IpCommitOperator(task_id="commit_2", capture=two, verify_target="db.last")
        one >> work >> committed >> two >> last

    ran = failed(job, run_dag, dag, {"ips_run": "full"})

    (note,) = ran.xcom("capture")["requested"]["notes"]
    assert json.loads(ServerVariables().get(note) or "")["target"] == "db.written@main"


def test_records_of_captures_before_notes_can_be_committed():
    """Their XComs have no such key."""
    record = {"capture_id": "c", "consumer": "d.capture", "sources": [], "mode": "ICDC"}
    run = {"dag_id": "d", "run_id": "r", "map_index": -1, "run_after": "2026-10-01T00:00:00+00:00"}
    requested = {"run": run, "iceberg_conn_id": "lake", "settled": False, "replayed": False, "asked": {"run": "full"}}

    assert Captured.from_record({**record, "requested": requested}).notes == ()
