"""Runs that people clear, mark and delete in the middle: no row is lost, none is taken by two commits."""

import pytest
from airflow.providers.standard.operators.python import BranchPythonOperator, PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.errors import CheckpointConflictError, EvidenceError
from tests.kit.people import clear, go_on, mark, remove
from tests.kit.pipelines import capturing, checkpoint_of, committed_at, moves
from tests.kit.tables import append, icdc_tables


class Gate:
    """A task between the job and the commit that can be shut."""

    def __init__(self):
        self.is_shut = False

    def __call__(self):
        if self.is_shut:
            raise RuntimeError("the gate is shut, as the test wants it")


@pytest.fixture
def gate():
    return Gate()


def gated(dag_id, job, gate, *, require=None, **options):
    """Capture, job, gate, commit."""
    with DAG(dag_id, schedule=None) as dag:
        captured = capturing("db.events", **options)
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
        behind = PythonOperator(task_id="gate", python_callable=gate)  # noqa: AIR001 - the gate itself is the callable
        captured >> work >> behind >> IpCommitOperator(task_id="commit", capture=captured, require=require)
    return dag


def head(table):
    return table.refresh().current_snapshot().snapshot_id


def stopped_before_commit(dag_id, job, gate, run_dag, **options):
    """A run whose job is done and whose commit never ran."""
    dag = gated(dag_id, job, gate, **options)
    gate.is_shut = True
    ran = run_dag(dag)
    gate.is_shut = False
    assert ran.states == {"capture": "success", "work": "success", "gate": "failed", "commit": "upstream_failed"}
    return dag, ran


@pytest.mark.parametrize("require", [None, ["gate"]], ids=["all", "gate"])
def test_work_on_an_earlier_range_is_no_evidence_for_a_wider_one(events, job, gate, run_dag, require):
    """The first run is cleared without its job, after a second one took its range over: the job has not seen row 4.

    Nor has it where the commit requires the gate alone, which goes by the job.
    """
    name = f"stale_work_{'_'.join(require or ['all'])}"
    dag, first = stopped_before_commit(name, job, gate, run_dag, require=require)
    append(events, [4])
    job.fails = True
    run_dag(dag)
    job.fails = False
    before = checkpoint_of(f"{name}.capture")
    clear(first, "capture", "gate", "commit")

    again = go_on(dag, first)

    assert isinstance(again.errors["capture"], EvidenceError)
    assert "'work' is success" in str(again.errors["capture"])
    assert checkpoint_of(f"{name}.capture") == before
    clear(first, "capture", "work", "gate", "commit")
    assert go_on(dag, first).states["commit"] == "success"
    assert job.seen == [[1, 2, 3], [1, 2, 3, 4]]
    assert committed_at(f"{name}.capture", "db.events") == head(events)


def test_work_that_does_not_wait_for_the_capture_is_no_evidence(events, run_dag, gate):
    """Its trigger rule let it run first: whatever it has done, it has not read what is captured after it."""
    with DAG("hasty", schedule=None) as dag:
        captured = capturing("db.events")
        first, second = (PythonOperator(task_id=name, python_callable=gate) for name in ("first", "second"))
        hasty = PythonOperator(task_id="hasty", python_callable=gate, trigger_rule="one_success")
        first >> [second, hasty]
        second >> captured >> hasty >> IpCommitOperator(task_id="commit", capture=captured)

    ran = run_dag(dag)

    assert ran.states["hasty"] == "success"
    assert "trigger rule" in str(ran.errors["capture"])
    assert checkpoint_of("hasty.capture") is None


@pytest.mark.parametrize("cleared", [["capture"], ["work"], ["capture", "work"], ["gate", "commit"]], ids="+".join)
def test_clearing_before_the_commit_takes_the_same_range(lake, events, job, gate, run_dag, cleared):
    """However much has come since, and whatever is cleared: one range, one table, one commit."""
    name = f"cleared_before_{'_'.join(cleared)}"
    dag, ran = stopped_before_commit(name, job, gate, run_dag)
    (table,), at = icdc_tables(lake), head(events)
    append(events, [4])
    clear(ran, *{*cleared, "gate", "commit"})

    again = go_on(dag, ran)

    assert set(again.states.values()) == {"success"}
    assert icdc_tables(lake) == [table]
    assert job.seen == [[1, 2, 3]] * (1 + ("work" in cleared))
    assert committed_at(f"{name}.capture", "db.events") == at
    assert run_dag(dag).states["commit"] == "success"
    assert job.seen[-1] == [4]


@pytest.mark.parametrize(
    "cleared", [["capture"], ["work"], ["commit"], ["capture", "work", "gate", "commit"]], ids="+".join
)
def test_clearing_after_the_commit_moves_nothing(events, job, gate, run_dag, cleared):
    """The newest run's range again, or its job over the same table, or a commit that is done."""
    name = f"cleared_after_{'_'.join(cleared)}"
    dag = gated(name, job, gate)
    ran = run_dag(dag)
    before = moves(f"{name}.capture")
    append(events, [4])
    clear(ran, *cleared)

    again = go_on(dag, ran)

    assert set(again.states.values()) == {"success"}
    assert job.seen == [[1, 2, 3]] * (1 + ("work" in cleared))
    assert moves(f"{name}.capture") == before
    run_dag(dag)
    assert job.seen[-1] == [4]


def test_a_late_commit_does_not_cover_what_a_replay_wrote_over_it(events, job, gate, run_dag):
    """A run wrote and stopped before its commit; the committed one before it is cleared, and writes its rows again.

    The commit alone of the stopped run would leave those older rows; cleared with its capture, it writes its own again.
    """
    dag = gated("late_commit", job, gate)
    first = run_dag(dag)
    append(events, [4])
    gate.is_shut = True
    stopped = run_dag(dag)
    gate.is_shut = False
    clear(first, "capture", "work", "gate", "commit")
    replayed = go_on(dag, first)
    before = committed_at("late_commit.capture", "db.events")
    clear(stopped, "gate", "commit")

    late = go_on(dag, stopped)
    position = committed_at("late_commit.capture", "db.events")
    clear(stopped, "capture", "work", "gate", "commit")
    again = go_on(dag, stopped)

    assert replayed.xcom("commit", task="commit")["outcome"] == "replayed"
    assert isinstance(late.errors["commit"], CheckpointConflictError)
    assert "wrote its older rows again" in str(late.errors["commit"])
    assert position == before
    assert again.xcom("commit", task="commit")["outcome"] == "advanced"
    assert job.seen == [[1, 2, 3], [4], [1, 2, 3], [4]]
    assert committed_at("late_commit.capture", "db.events") == head(events)


def test_a_capture_that_is_cleared_alone_replays_nothing_beside_a_branch(events, job, run_dag):
    """No job follows, so nothing would end a replay: the next run captures, although a task of the other branch is
    skipped."""
    with DAG("cleared_branch", schedule=None) as dag:
        captured = capturing("db.events")
        choice = BranchPythonOperator(task_id="choice", python_callable=lambda: "work")
        name = captured.output["db.events"]
        either = [PythonOperator(task_id=task, python_callable=job, op_args=[name]) for task in ("work", "other")]
        commit = IpCommitOperator(
            task_id="commit", capture=captured, trigger_rule="all_done", require=[("work", "other")]
        )
        captured >> choice >> either >> commit
    ran = run_dag(dag)
    clear(ran, "capture")
    assert go_on(dag, ran).states["capture"] == "success"
    append(events, [4])

    assert run_dag(dag).states["commit"] == "success"
    assert job.seen == [[1, 2, 3], [4]]


def test_a_job_of_an_older_run_that_is_cleared_finds_no_table(events, job, gate, run_dag):
    """A later commit has dropped it: its rows are not written over newer ones, and nothing moves."""
    dag = gated("cleared_old_job", job, gate)
    first = run_dag(dag)
    append(events, [4])
    run_dag(dag)
    before = checkpoint_of("cleared_old_job.capture")
    clear(first, "work", "gate", "commit")

    again = go_on(dag, first)

    assert again.states["work"] == "failed"
    assert checkpoint_of("cleared_old_job.capture") == before


def test_a_commit_of_an_older_run_that_is_cleared_is_done(events, job, gate, run_dag):
    """It moves nothing back."""
    dag = gated("cleared_old_commit", job, gate)
    first = run_dag(dag)
    append(events, [4])
    run_dag(dag)
    before = checkpoint_of("cleared_old_commit.capture")
    clear(first, "commit")

    again = go_on(dag, first)

    assert again.xcom("commit", "commit")["outcome"] == "already_done"
    assert checkpoint_of("cleared_old_commit.capture") == before


def test_a_job_that_is_marked_successful_is_taken_at_its_word(events, job, gate, run_dag):
    """Whoever marks it says that the rows are processed."""
    dag = gated("marked_job", job, gate)
    job.fails = True
    ran = run_dag(dag)
    mark(ran, "success", "work")
    clear(ran, "gate", "commit")

    assert go_on(dag, ran).states["commit"] == "success"
    assert committed_at("marked_job.capture", "db.events") == head(events)


def test_a_capture_that_is_marked_successful_has_captured_nothing(events, job, gate, run_dag):
    """There is no range to commit, whatever its tasks say."""
    dag = gated("marked_capture", job, gate, initial="1")
    ran = run_dag(dag)
    assert ran.states["capture"] == "failed"
    mark(ran, "success", "capture", "work", "gate")
    clear(ran, "commit")

    again = go_on(dag, ran)

    assert "'capture' has captured nothing" in str(again.errors["commit"])
    assert checkpoint_of("marked_capture.capture") is None


def test_a_commit_that_is_marked_successful_has_committed_nothing(events, job, gate, run_dag):
    """The next run takes the range again, as a superset of it."""
    dag, ran = stopped_before_commit("marked_commit", job, gate, run_dag)
    mark(ran, "success", "gate", "commit")
    append(events, [4])

    run_dag(dag)

    assert job.seen == [[1, 2, 3], [1, 2, 3, 4]]
    assert len(checkpoint_of("marked_commit.capture").history) == 1


@pytest.mark.parametrize("marked", ["capture", "work", "gate", "commit"])
def test_a_task_that_is_marked_failed_after_the_commit_moves_nothing(events, job, gate, run_dag, marked):
    """What is committed is committed; the next run goes on from there."""
    dag = gated(f"failed_{marked}", job, gate)
    ran = run_dag(dag)
    mark(ran, "failed", marked)
    append(events, [4])

    run_dag(dag)

    assert job.seen == [[1, 2, 3], [4]]


def test_a_task_that_is_marked_failed_before_the_commit_holds_it_back(events, job, gate, run_dag):
    dag, ran = stopped_before_commit("failed_before", job, gate, run_dag)
    mark(ran, "failed", "work")
    mark(ran, "success", "gate")
    clear(ran, "commit")
    dag.task_dict["commit"].trigger_rule = "all_done"

    again = go_on(dag, ran)

    assert "'work' is failed" in str(again.errors["commit"])
    assert committed_at("failed_before.capture", "db.events") is None


def test_a_deleted_run_is_superseded(events, job, gate, run_dag):
    """Nobody waits for it: its pending capture is covered by the next run."""
    dag, ran = stopped_before_commit("deleted", job, gate, run_dag)
    remove(ran)
    append(events, [4])

    again = run_dag(dag)

    assert again.states["commit"] == "success"
    assert job.seen[-1] == [1, 2, 3, 4]
    (committed,) = checkpoint_of("deleted.capture").history
    assert committed.supersedes


def test_two_dags_share_a_consumer(events, job, gate, run_dag):
    """Given by name: each goes on where the other has stopped, a failed run of one is covered by the other."""
    here, there = (gated(name, job, gate, consumer="shared by two") for name in ("here", "there"))
    run_dag(here)
    append(events, [4])
    run_dag(there)
    append(events, [5])
    job.fails = True
    run_dag(here)
    job.fails = False
    append(events, [6])

    assert run_dag(there).states["commit"] == "success"
    assert job.seen == [[1, 2, 3], [4], [5, 6]]


def test_a_range_another_dag_has_taken_over_is_committed_once(events, job, gate, run_dag):
    """The late commit of the run that was given up moves nothing, before and after the other one's."""
    here, late = stopped_before_commit("giver", job, gate, run_dag)
    del here
    with DAG("taker", schedule=None) as there:
        captured = capturing("db.events", consumer="giver.capture")
        work = PythonOperator(task_id="work", python_callable=job, op_args=[captured.output["db.events"]])
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)
    append(events, [4])
    run_dag(there)
    clear(late, "gate", "commit")

    again = go_on(gated("giver", job, gate), late)

    assert again.xcom("commit", "commit")["outcome"] == "superseded"
    assert [c.run.dag_id for c in checkpoint_of("giver.capture").history] == ["taker"]


def test_a_second_run_is_refused_while_the_first_is_active_and_covers_it_after(events, job, gate, run_dag):
    """A backfill's run is a run like any other here: only its state counts."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    from tests.kit.pipelines import left_running

    dag, ran = stopped_before_commit("beside_backfill", job, gate, run_dag)
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.id == ran.dag_run.id).values(run_type="backfill"))
    with left_running(ran):
        assert isinstance(run_dag(dag).errors["capture"], CheckpointConflictError)
    assert run_dag(dag).states["commit"] == "success"
    assert job.seen == [[1, 2, 3], [1, 2, 3]]


def test_a_run_waits_for_the_one_before_where_the_past_counts(events, job, gate, run_dag):
    """With depends_on_past on every task, a failed run holds the next back; cleared, it commits its own range first."""
    dag, first = stopped_before_commit("past", job, gate, run_dag)
    for task in dag.tasks:
        task.depends_on_past = True
    append(events, [4])
    clear(first, "gate", "commit")
    assert go_on(dag, first).states["commit"] == "success"

    assert run_dag(dag).states["commit"] == "success"
    assert job.seen == [[1, 2, 3], [4]]
