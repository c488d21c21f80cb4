"""Whether the commit of a DAG runs, and has its evidence, in a run in which nothing fails.

A commit that is skipped is green and moves no checkpoint: each run would process all rows since the first one again.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final

from airflow_provider_ips import dag_graph
from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow.sdk import DAG, Context
    from airflow.sdk.types import Operator

    from airflow_provider_ips.dag_graph import Pair


_SKIPPED_WITHOUT_FAILURE: Final = ("one_failed", "all_failed")
_SKIPPED_AFTER_ONE_SKIP: Final = ("all_success", "none_skipped", "all_done_min_one_success")
_SKIPPED_AFTER_ONLY_SKIPS: Final = ("one_success", "one_done", "none_failed_min_one_success")
_DO_NOT_WAIT: Final = ("one_success", "one_done", "always")
"""Tasks with these run before all of their upstream tasks have ended."""


def check_trigger_rules(dag: DAG) -> None:
    """Refuse a commit that would not wait for the job, or could never move the checkpoint."""
    skipped = skipped_if_nothing_fails(dag)
    for pair in dag_graph.pairs(dag):
        _refuse_commit_that_does_not_wait(pair)
        upstream = skipped & pair.commit.get_flat_relative_ids(upstream=True)
        if pair.commit.task_id in skipped:
            raise _skipped_commit(pair, upstream)
        _refuse_skipped_evidence(pair, upstream)


def refuse_to_skip_in_part(context: Context) -> None:
    """Refuse a dry run of a mapped instance if something downstream would run although it is skipped.

    Airflow lets a task skip all that is downstream, whatever its trigger rule, only if it has a single instance.
    """
    ti, dag = context["ti"], context["dag"]
    if ti.map_index is None or ti.map_index < 0:
        return
    capture = dag.task_dict[context["task"].task_id]
    after = {task.task_id for task in capture.get_flat_relatives(upstream=False) if not task.is_teardown}
    running = after - skipped_if_nothing_fails(dag, without=capture.task_id)
    if running:
        raise InputError(
            f"{_listed(running)} would run in this dry run, by a trigger rule that a skipped {capture.task_id!r} meets",
            consequence="A job would run without a table to read; what would be captured is in the log",
            remedy="to have dry runs of mapped captures, set trigger_rule='all_success' on them",
        )


def skipped_if_nothing_fails(dag: DAG, *, without: str | None = None) -> set[str]:
    """
    Follow Airflow's trigger rules from task to task, where each task that runs succeeds.

        capture >> job >> recover (one_failed) >> again >> commit
        recover is skipped: nothing has failed
        again and commit are skipped: recover was, and their rule is all_success

    A branch may answer with all of its tasks at once, so it is not a reason to count any of them as skipped.

    :param without: a task that is skipped in any case
    """
    upstream = {task.task_id: task.upstream_task_ids for task in dag.tasks}
    skipped: set[str] = set()
    # All tasks of the DAG: one that is beside the capture, and upstream of the commit, can have the commit skipped.
    for task_id in TopologicalSorter(upstream).static_order():
        are_skipped = [name in skipped for name in upstream[task_id]]
        if task_id == without or _is_skipped(_trigger_rule(dag.task_dict[task_id]), are_skipped):
            skipped.add(task_id)
    return skipped


def _is_skipped(rule: str, upstream: Collection[bool]) -> bool:
    """``upstream`` says of each task directly upstream whether it is skipped; the others succeed."""
    if rule in _SKIPPED_WITHOUT_FAILURE:
        return True
    if rule == "all_skipped":
        return not all(upstream)
    if rule in _SKIPPED_AFTER_ONE_SKIP:
        return any(upstream)
    return rule in _SKIPPED_AFTER_ONLY_SKIPS and bool(upstream) and all(upstream)


def _refuse_commit_that_does_not_wait(pair: Pair) -> None:
    rule = _trigger_rule(pair.commit)
    if pair.between and rule in _DO_NOT_WAIT:
        raise InputError(
            f"commit {pair.commit.task_id!r} has trigger_rule={rule!r}, which does not wait for the job",
            consequence="It would run right after the capture, find the job unfinished, and fail",
            remedy="use trigger_rule='all_done': the commit looks at what succeeded in any case",
        )


def _skipped_commit(pair: Pair, skipped: set[str]) -> InputError:
    commit = pair.commit
    not_downstream = commit.upstream_task_ids & skipped - {*pair.between, pair.capture.task_id}
    return InputError(
        f"commit {commit.task_id!r} has trigger_rule={_trigger_rule(commit)!r}, and is skipped whenever nothing fails, "
        f"with {_listed(skipped)}",
        consequence="Runs would be green and the checkpoint would not move: each would process all rows again",
        remedy=(
            f"remove the arrow to it from {_listed(not_downstream)}, which did not see the captured rows; else "
            if not_downstream
            else ""
        )
        + "set trigger_rule='all_done' on it, and name what must have succeeded by require=[…]; tasks of which one is "
        "enough by a tuple, such as require=[('job', 'job_again')]",
    )


def _refuse_skipped_evidence(pair: Pair, skipped: set[str]) -> None:
    """The capture must succeed in any case: without it there is nothing to commit."""
    required = pair.commit.required or tuple((task_id,) for task_id in pair.between)
    for group in ((pair.capture.task_id,), *required):
        if skipped.issuperset(group):
            raise InputError(
                f"commit {pair.commit.task_id!r} requires the success of {_listed(group)}, skipped whenever nothing "
                "fails",
                consequence="It would fail in every run without a failure, and the checkpoint would never move",
                remedy="name what must have succeeded by require=[…]; tasks of which one is enough by a tuple, such as "
                "require=[('job', 'job_again')]",
            )


def _trigger_rule(task: Operator) -> str:
    return str(getattr(task.trigger_rule, "value", task.trigger_rule))


def _listed(task_ids: Collection[str]) -> str:
    return ", ".join(map(repr, sorted(task_ids)))
