"""What a commit requires by ``require=``: each of its entries is judged by itself."""

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup

from airflow_provider_ips import IpCommitOperator
from airflow_provider_ips.core.errors import EvidenceError, InputError
from airflow_provider_ips.dag_checks.arguments import parse_require
from airflow_provider_ips.runs.evidence import demand_success, without_alternatives


@pytest.mark.parametrize(
    ("require", "states", "lacking"),
    [
        ([("a", "b")], {"a": "failed", "b": "success"}, None),
        ([("a", "b")], {"a": "failed", "b": "failed"}, "'a' is failed, 'b' is failed"),
        ([("a", "b")], {"a": "success", "b": "running"}, "'b' is running"),
        (["a", "a"], {"a": "success"}, None),
        (["a", "a"], {"a": "failed"}, "'a' is failed"),
        ([("a", "b"), ("a", "b")], {"a": "failed", "b": "success"}, None),
        ([("a", "b"), ("b", "a")], {"a": "failed", "b": "success"}, None),
        ([("a", "b"), ("a", "c")], {"a": "success", "b": "skipped", "c": "skipped"}, None),
        ([("a", "b"), ("a", "c")], {"a": "failed", "b": "success", "c": "success"}, None),
        ([("a", "b"), ("a", "c")], {"a": "failed", "b": "success", "c": "failed"}, "'a' is failed, 'c' is failed"),
        ([("a", "b"), ("a", "c")], {"a": "success", "b": "running", "c": "skipped"}, "'b' is running"),
        ([("a", "b"), ("a", "c"), ("b", "c")], {"a": "success", "b": "success", "c": "failed"}, None),
        (
            [("a", "b"), ("a", "c"), ("b", "c")],
            {"a": "success", "b": "failed", "c": "failed"},
            "'b' is failed, 'c' is failed",
        ),
        ([("a", "b"), ("a", "b", "c")], {"a": "failed", "b": "success", "c": "skipped"}, None),
        (["a", ("b", "c")], {"a": "success", "b": "failed", "c": "success"}, None),
        (["a", ("b", "c")], {"a": "failed", "b": "success", "c": "success"}, "'a' is failed"),
    ],
    ids=str,
)
def test_each_entry_is_judged_by_itself(require, states, lacking):
    """Even where entries share tasks: a task that replaces another in one entry does not replace it in the next."""
    left = without_alternatives({"capture": "success", **states}, parse_require(require))

    if lacking is None:
        demand_success(left, run_id="r", commit="commit")
        return
    with pytest.raises(EvidenceError) as caught:
        demand_success(left, run_id="r", commit="commit")
    assert f"commits nothing in run r: {lacking}." in str(caught.value)


@pytest.mark.parametrize(
    ("groups", "states", "lacking"),
    [
        ((("a",), ("a", "b")), {"a": "failed", "b": "success"}, {"a": "failed"}),
        ((("a",), ("a", "b")), {"a": "success", "b": "skipped"}, {}),
        ((("a", "b"), ("a",)), {"a": "failed", "b": "success"}, {"a": "failed"}),
        ((("a", "b"),), {"a[0]": "success", "a[1]": "failed", "b": "success"}, {}),
        ((("a", "b"), ("a",)), {"a[0]": "success", "a[1]": "failed", "b": "success"}, {"a[1]": "failed"}),
        ((("a", "b"),), {"a[0]": "success", "a[1]": "failed", "b": "running"}, {"a[1]": "failed", "b": "running"}),
    ],
    ids=str,
)
def test_what_is_demanded_by_itself_has_no_stand_in(groups, states, lacking):
    """Even where the argument was not checked before, and where the task is mapped."""
    left = without_alternatives({"capture": "success", **states}, groups)

    assert {name: state for name, state in left.items() if state != "success"} == lacking


def test_the_capture_is_demanded_beside_what_is_required():
    left = without_alternatives({"capture": "failed", "a": "success"}, (("a",),))

    assert left == {"capture": "failed"}


@pytest.mark.parametrize(
    ("require", "problem"),
    [
        (["a", ("a", "b")], "require names 'a' by itself and in the tuple ('a', 'b')"),
        ([("b", "a"), "a"], "require names 'a' by itself and in the tuple ('b', 'a')"),
        ([("a", "a")], "require names 'a' twice in the tuple ('a', 'a')"),
        ([("a", "b", "a"), "c"], "require names 'a' twice in the tuple ('a', 'b', 'a')"),
    ],
)
def test_a_stand_in_that_could_never_stand_in_is_refused(require, problem):
    with pytest.raises(InputError) as caught:
        IpCommitOperator(task_id="commit", capture="capture", require=require)

    assert problem in str(caught.value)
    assert "What to do: " in str(caught.value)


def test_a_task_group_is_no_tuple_of_tasks_that_stand_for_each_other():
    """It can be iterated, so the success of one of its tasks would be enough: all of them are meant."""
    with DAG("grouped", schedule=None):
        with TaskGroup("work") as group:
            EmptyOperator(task_id="a")
            EmptyOperator(task_id="b")
        with pytest.raises(InputError, match="require names the task group 'work'"):
            IpCommitOperator(task_id="commit", capture="capture", require=[group])
        by_tasks = IpCommitOperator(task_id="by_tasks", capture="capture", require=[*group])
        by_group = IpCommitOperator(task_id="by_group", capture="capture", require=group)

    assert by_tasks.required == by_group.required == (("work.a",), ("work.b",))
