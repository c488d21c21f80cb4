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
from tests.airflow.pipelines import capturing, committed_at
from tests.airflow.tables import append, create

MONDAY = True
BOTH = ["a", "b"]


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
    if MONDAY:
        return "a"
    return "b"


def choose_in_group():
    return "stage.a" if MONDAY else "stage.b"


def choose_nothing(): ...


def choose_annotated() -> str:
    return BOTH[0]


def choose_by_task():
    a, b = empty("a", "b")
    return a.task_id if MONDAY else b.task_id


def choose_somehow():
    return BOTH


def choose_one_by_one():
    yield "a"
    yield "b"


def choosing_by_lambda():
    return BranchPythonOperator(
        task_id="choose",
        python_callable=lambda: "a" if MONDAY else "b",
    )


def choosing_both_by_lambda():
    return branching(lambda: ["a", "b"])


def one_of_two(branch, **options):
    """The branch, two jobs, and a commit behind both."""

    def build(captured):
        captured >> branch() >> empty("a", "b") >> committing(captured, **options)

    return build


class ChoosesBoth(BaseBranchOperator):
    def choose_branch(self, context):
        return [*BOTH]


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
        lambda: branching(choose_somehow),
        lambda: branching(choose_one_by_one),
        choosing_both_by_lambda,
        lambda: branching(print),
        task.branch(choose_both),
        lambda: ChoosesBoth(task_id="custom"),
        lambda: by_weekday(["a", "b"], "a"),
        lambda: answering(multiple=True),
    ],
    ids=[
        *("latest only", "list", "variable", "generator", "lambda", "builtin", "decorated", "class", "weekday"),
        "people",
    ],
)
@pytest.mark.parametrize(
    "options", [{}, {"trigger_rule": "all_done"}, {"trigger_rule": "all_done", "require": ["a", "b"]}], ids=str
)
def test_a_branch_that_may_choose_all_of_its_ways_is_accepted(branch, options):
    parsed(one_of_two(branch, **options))


@pytest.mark.parametrize(
    "branch",
    [
        lambda: branching(choose_one),
        lambda: branching(choose_nothing),
        lambda: branching(choose_annotated),
        lambda: branching(choose_by_task),
        choosing_by_lambda,
        task.branch(choose_one),
        lambda: ChoosesOne(task_id="custom"),
        lambda: by_weekday("a", "b"),
        answering,
    ],
    ids=["function", "nothing", "annotated", "by task", "lambda", "decorated", "class", "weekday", "people"],
)
def test_a_branch_that_chooses_one_way_is_refused_where_both_are_needed(branch):
    with pytest.raises(InputError, match=r"is skipped whichever way '.*' goes, with 'a', 'b'"):
        parsed(one_of_two(branch))

    with pytest.raises(InputError, match="demands the success of 'b', skipped whichever way"):
        parsed(one_of_two(branch, trigger_rule="all_done"))

    parsed(one_of_two(branch, trigger_rule="all_done", require=[("a", "b")]))


def test_a_task_group_around_a_branch_is_no_way_of_it():
    """Its first task is the branch itself."""

    def build(captured):
        with TaskGroup("stage") as group:
            branching(choose_in_group) >> empty("a", "b")
        captured >> group >> committing(captured)

    with pytest.raises(InputError, match=r"is skipped whichever way 'stage.choose' goes"):
        parsed(build)


def test_a_branch_between_ways_of_one_another_is_refused_where_both_are_needed():
    """The first chooses x or the second branch, so x and y never succeed together."""

    def build(captured):
        x, y, z = empty("x", "y", "z")
        second = BranchPythonOperator(task_id="second", python_callable=lambda: "y" if MONDAY else "z")
        commit = committing(captured, trigger_rule="all_done", require=[x, y])
        captured >> branching(lambda: "x" if MONDAY else "second") >> [x, second]
        second >> [y, z]
        [x, y, z] >> commit

    with pytest.raises(InputError, match=r"demands the success of '.', skipped whichever way 'choose' goes"):
        parsed(build)


def group_or_nothing(captured, choose=lambda: "work" if MONDAY else "nothing"):
    branch, (nothing,) = branching(choose), empty("nothing")
    with TaskGroup("work") as group:
        first, second = empty("first", "second")
        (behind,) = empty("behind")
        first >> behind
    commit = committing(captured, trigger_rule="none_failed_min_one_success", require=[first, second, behind])
    captured >> branch >> [group, nothing]
    [group, nothing] >> commit


def test_a_branch_may_choose_a_task_group():
    """Airflow then runs all of its roots."""
    parsed(group_or_nothing)


def around(captured, *, choose, **options):
    """A branch before the capture, whose other way leads to the commit too."""
    job, other = empty("job", "other")
    captured >> job >> (commit := committing(captured, **options))
    branching(choose) >> [captured, other]
    other >> commit


def capture_or_other():
    return "capture" if MONDAY else "other"


def test_a_branch_before_the_capture_is_followed_too():
    with pytest.raises(
        InputError, match="is skipped whichever way 'choose' goes, with 'capture', 'job', 'other'"
    ) as caught:
        parsed(lambda captured: around(captured, choose=capture_or_other))
    assert "remove the arrow to it from 'other'" in str(caught.value)

    parsed(lambda captured: around(captured, choose=capture_or_other, trigger_rule="all_done"))
    parsed(lambda captured: around(captured, choose=lambda: ["capture", "other"]))


def test_a_commit_whose_capture_never_runs_is_refused():
    """With this trigger rule the commit runs all the same, and fails."""

    def build(captured):
        after, (other, job) = EmptyOperator(task_id="after", trigger_rule="one_failed"), empty("other", "job")
        after >> captured >> job >> (commit := committing(captured, trigger_rule="all_done"))
        other >> commit

    with pytest.raises(InputError, match="demands the success of 'capture', skipped whenever nothing fails"):
        parsed(build)


def beside(captured, **options):
    """A task before the commit, and not behind the capture, that runs after a failure only."""
    prep, job = empty("prep", "job")
    (alert,) = empty("alert", trigger_rule="one_failed")
    commit = committing(captured, **options)
    prep >> captured >> job >> commit
    prep >> alert >> commit


def test_a_task_beside_the_capture_that_runs_after_failures_only_skips_the_commit():
    with pytest.raises(InputError, match="'all_success', and is skipped whenever nothing fails, with 'alert'"):
        parsed(beside)

    parsed(lambda captured: beside(captured, trigger_rule="all_done"))


def test_what_lies_before_the_capture_and_never_runs_is_no_harm_where_the_capture_does():
    def build(captured):
        (prep, job), (repair,) = empty("prep", "job"), empty("repair", trigger_rule="one_failed")
        captured.trigger_rule = "none_failed"
        prep >> repair >> captured >> job >> committing(captured)

    parsed(build)


@pytest.fixture
def events(lake):
    table = create(lake, "db.events")
    append(table, [1, 2, 3])
    return table


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
    """Airflow itself goes the way that the check has found."""
    dag_id = f"ways_{request.node.callspec.id.replace(' ', '_')}"

    ran = run_dag(parsed(build, dag_id))

    assert ran.states["commit"] == "success"
    assert committed_at(f"{dag_id}.capture", "db.events") == events.current_snapshot().snapshot_id
