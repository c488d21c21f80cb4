"""Branches between capture and commit: what becomes of the commit on a day on which nothing fails.

A task that runs only after a failure is skipped on every other day, so are those that a branch does not choose, and
Airflow hands skips on. A commit that is skipped is green, and its checkpoint never moves: each run would process all
rows since the first one again.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow.sdk import DAG
    from airflow.sdk.types import Operator

    from airflow_provider_ips.operators.commit import IpCommitOperator

_AFTER_FAILURE: Final = ("one_failed", "all_failed")
_AFTER_ANY_SKIP: Final = ("all_success", "none_skipped", "all_done_min_one_success")
"""Skipped as soon as one task before is."""

_AFTER_ALL_SKIPPED: Final = ("one_success", "one_done", "none_failed_min_one_success")
"""Skipped when all tasks before are."""

_HASTY: Final = ("one_success", "one_done", "always")
"""Run without waiting for all tasks before."""


def check_branches(dag: DAG, commit: IpCommitOperator, between: Collection[str]) -> None:
    """Refuse a commit that could not move the checkpoint on a good day."""
    rule = _rule(dag, commit.task_id)
    if between and rule in _HASTY:
        raise InputError(
            f"commit {commit.task_id!r} has trigger_rule={rule!r}, which does not wait for the work",
            consequence="It would run as soon as the capture has, find the work unfinished, and fail",
            remedy="use trigger_rule='all_done': what succeeded is looked at in any case",
        )
    behind = {*between, commit.capture_task_id, commit.task_id}
    _refuse_if_never(dag, commit, between, [_skipped_on_a_good_day(dag, behind)], when="whenever nothing fails")
    for branch in (task_id for task_id in between if _is_branch(dag.task_dict[task_id])):
        ways = [_skipped_on_a_good_day(dag, behind, left_out) for left_out in _ways(dag, branch)]
        if ways:
            _refuse_if_never(dag, commit, between, ways, when=f"whichever way {branch!r} goes")


def _refuse_if_never(
    dag: DAG, commit: IpCommitOperator, between: Collection[str], days: list[set[str]], *, when: str
) -> None:
    """``days`` says of each day that there can be which tasks are skipped on it."""
    if all(commit.task_id in skipped for skipped in days):
        raise InputError(
            f"commit {commit.task_id!r} has trigger_rule={_rule(dag, commit.task_id)!r}, and is skipped {when}, with "
            + _named(set().union(*days) - {commit.task_id}),
            consequence="Runs would be green and the checkpoint would stand still: each would process all rows again",
            remedy="set trigger_rule='all_done' on it, and name what must have succeeded by require=[…]; tasks of "
            "which one is enough by a tuple, such as require=[('job', 'job_again')]",
        )
    demands = commit.required or tuple((task_id,) for task_id in between)
    lacking = [next((group for group in demands if skipped.issuperset(group)), ()) for skipped in days]
    if all(lacking):
        raise InputError(
            f"commit {commit.task_id!r} demands the success of {_named(lacking[0])}, skipped {when}",
            consequence="It would fail on every good day, and the checkpoint would never move",
            remedy="name what must have succeeded by require=[…]; tasks of which one is enough by a tuple, such as "
            "require=[('job', 'job_again')]",
        )


def _is_branch(task: Operator) -> bool:
    """Told by name: importing Airflow's branch costs time in every DAG file."""
    return any(base.__name__ == "BranchMixIn" for base in getattr(task, "operator_class", type(task)).__mro__)


def _ways(dag: DAG, branch: str) -> list[set[str]]:
    """For each task that a branch may choose, those that it leaves out: not what lies behind the chosen one."""
    choices = dag.task_dict[branch].downstream_task_ids
    return [
        choices - {chosen} - dag.task_dict[chosen].get_flat_relative_ids(upstream=False) for chosen in sorted(choices)
    ]


def _skipped_on_a_good_day(dag: DAG, task_ids: Collection[str], left_out: Collection[str] = ()) -> set[str]:
    """Follow Airflow's trigger rules from task to task, all of which succeed if they run."""
    before = {task_id: dag.task_dict[task_id].upstream_task_ids.intersection(task_ids) for task_id in task_ids}
    skipped: dict[str, bool] = {}
    for task_id in TopologicalSorter(before).static_order():
        told = [skipped.get(name, False) for name in dag.task_dict[task_id].upstream_task_ids]
        skipped[task_id] = task_id in left_out or _is_skipped(_rule(dag, task_id), told)
    return {task_id for task_id, is_skipped in skipped.items() if is_skipped}


def _is_skipped(rule: str, before: Collection[bool]) -> bool:
    """``before`` says of each task before whether it was skipped; the others succeeded."""
    if rule in _AFTER_FAILURE:
        return True
    if rule == "all_skipped":
        return not all(before)
    if rule in _AFTER_ANY_SKIP:
        return any(before)
    return rule in _AFTER_ALL_SKIPPED and bool(before) and all(before)


def _rule(dag: DAG, task_id: str) -> str:
    return str(getattr(dag.task_dict[task_id].trigger_rule, "value", dag.task_dict[task_id].trigger_rule))


def _named(task_ids: Collection[str]) -> str:
    return ", ".join(map(repr, sorted(task_ids)))
