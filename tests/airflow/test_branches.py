"""Shapes of DAGs whose commit could never move the checkpoint, and those that only look like it."""

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import HITLBranchOperator
from airflow.providers.standard.operators.latest_only import LatestOnlyOperator
from airflow.providers.standard.operators.python import BranchPythonOperator
from airflow.providers.standard.operators.weekday import BranchDayOfWeekOperator
from airflow.sdk import DAG, BaseBranchOperator, TaskGroup, task

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.errors import InputError
from tests.kit.pipelines import capturing, committed_at

MONDAY = True


def parsed(build, dag_id="shaped"):
    """Do what the DAG processor does when it has read a DAG file."""
    with DAG(dag_id, schedule=None) as dag:
        build(capturing("db.events"))
    dag.resolve_template_files()
    return dag


def committing(captured, **options):
    return IpCommitOperator(task_id="commit", capture=captured, **options)


def empty(*names, **options):
    return [EmptyOperator(task_id=name, **options) for name in names]


def branching(choose):
    return BranchPythonOperator(task_id="choose", python_callable=choose)


def choose_both():
    return ["a", "b"]


def choose_one():
    return "a" if MONDAY else "b"


def choose_nothing(): ...


def one_of_two(branch, **options):
    """The branch, two jobs, and a commit downstream of both."""

    def build(captured):
        captured >> branch() >> empty("a", "b") >> committing(captured, **options)

    return build


class ChoosesOne(BaseBranchOperator):
    def choose_branch(self, context):
        return f"{context}"


def answering(**options):
    return HITLBranchOperator(task_id="ask", subject="Which?", options=["a", "b"], **options)


def by_weekday(one, other):
    return BranchDayOfWeekOperator(
        task_id="weekday", week_day="Monday", follow_task_ids_if_true=one, follow_task_ids_if_false=other
    )


@pytest.mark.parametrize(
    "branch",
    [
        lambda: LatestOnlyOperator(task_id="latest"),
        lambda: branching(choose_both),
        lambda: branching(choose_one),
        lambda: branching(choose_nothing),
        lambda: branching(lambda: ["a", "b"]),
        lambda: branching(print),
        task.branch(choose_both),
        task.branch(choose_one),
        lambda: ChoosesOne(task_id="custom"),
        lambda: by_weekday(["a", "b"], "a"),
        lambda: by_weekday("a", "b"),
        lambda: answering(multiple=True),
        answering,
    ],
    ids=[
        *("latest only", "list", "one", "nothing", "lambda", "builtin", "decorated", "decorated one", "class"),
        *("weekday both", "weekday one", "people several", "people one"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"trigger_rule": "all_done"},
        {"trigger_rule": "all_done", "require": ["a", "b"]},
        {"trigger_rule": "all_done", "require": [("a", "b")]},
    ],
    ids=str,
)
def test_every_branch_may_answer_with_several_of_its_tasks_or_with_one(branch, options):
    """What it answers is known when it runs: a commit that needs both tasks, or one of them, is not refused."""
    parsed(one_of_two(branch, **options))


def group_or_nothing(captured, choose=lambda: "work" if MONDAY else "nothing"):
    branch, (nothing,) = branching(choose), empty("nothing")
    with TaskGroup("work") as group:
        first, second = empty("first", "second")
        (last,) = empty("last")
        first >> last
    commit = committing(captured, trigger_rule="none_failed_min_one_success", require=[first, second, last])
    captured >> branch >> [group, nothing]
    [group, nothing] >> commit


def test_a_branch_may_choose_a_task_group():
    """Airflow then runs all of its roots."""
    parsed(group_or_nothing)


def around(captured, *, choose, **options):
    """A branch before the capture, whose other answer leads to the commit too."""
    job, other = empty("job", "other")
    captured >> job >> (commit := committing(captured, **options))
    branching(choose) >> [captured, other]
    other >> commit


def capture_or_other():
    return "capture" if MONDAY else "other"


def test_a_branch_before_the_capture_may_answer_with_several_tasks_too():
    """Both the capture and the other task may run, so the commit may, too."""
    parsed(lambda captured: around(captured, choose=capture_or_other))
    parsed(lambda captured: around(captured, choose=capture_or_other, trigger_rule="all_done"))
    parsed(lambda captured: around(captured, choose=lambda: ["capture", "other"]))


def test_a_commit_whose_capture_never_runs_is_refused():
    """With this trigger rule the commit runs all the same, and fails."""

    def build(captured):
        after, (other, job) = EmptyOperator(task_id="after", trigger_rule="one_failed"), empty("other", "job")
        after >> captured >> job >> (commit := committing(captured, trigger_rule="all_done"))
        other >> commit

    with pytest.raises(InputError, match="requires the success of 'capture', skipped whenever nothing fails"):
        parsed(build)


def beside(captured, **options):
    """A task upstream of the commit, and not downstream of the capture, that runs after a failure only."""
    prep, job = empty("prep", "job")
    (alert,) = empty("alert", trigger_rule="one_failed")
    commit = committing(captured, **options)
    prep >> captured >> job >> commit
    prep >> alert >> commit


def test_a_task_beside_the_capture_that_runs_after_failures_only_skips_the_commit():
    with pytest.raises(InputError, match="'all_success', and is skipped whenever nothing fails, with 'alert'"):
        parsed(beside)

    parsed(lambda captured: beside(captured, trigger_rule="all_done"))


def test_a_task_upstream_of_the_capture_may_be_skipped_if_the_capture_runs_all_the_same():
    def build(captured):
        (prep, job), (repair,) = empty("prep", "job"), empty("repair", trigger_rule="one_failed")
        captured.trigger_rule = "none_failed"
        prep >> repair >> captured >> job >> committing(captured)

    parsed(build)


@pytest.mark.parametrize(
    "build",
    [
        one_of_two(lambda: LatestOnlyOperator(task_id="latest")),
        one_of_two(lambda: branching(choose_both)),
        group_or_nothing,
        lambda captured: around(captured, choose=lambda: ["capture", "other"]),
    ],
    ids=["latest only", "list", "group", "before"],
)
def test_what_is_accepted_commits(events, run_dag, build, request):
    """Airflow runs the commit, as the check has it."""
    dag_id = f"ways_{request.node.callspec.id.replace(' ', '_')}"

    ran = run_dag(parsed(build, dag_id))

    assert ran.states["commit"] == "success"
    assert committed_at(f"{dag_id}.capture", "db.events") == events.current_snapshot().snapshot_id
