"""Branches before a commit: what becomes of the commit on a day on which nothing fails.

A task that runs only after a failure is skipped on every other day, so are those that a branch does not choose, and
Airflow hands skips on. A commit that is skipped is green, and its checkpoint never moves: each run would process all
rows since the first one again.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.operators._answers import may_choose_several

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from airflow.sdk import DAG, TaskGroup
    from airflow.sdk.types import Operator

    from airflow_provider_ips.operators.commit import IpCommitOperator

_AFTER_FAILURE: Final = ("one_failed", "all_failed")
_AFTER_ANY_SKIP: Final = ("all_success", "none_skipped", "all_done_min_one_success")
"""Skipped as soon as one task before is."""

_AFTER_ALL_SKIPPED: Final = ("one_success", "one_done", "none_failed_min_one_success")
"""Skipped when all tasks before are."""

_HASTY: Final = ("one_success", "one_done", "always")
"""Run without waiting for all tasks before."""


class GoodDays:
    """What is skipped on the days on which nothing fails: told once of a DAG, for all of its commits."""

    def __init__(self, dag: DAG) -> None:
        self.dag = dag
        before = {task.task_id: task.upstream_task_ids for task in dag.tasks}
        # Of all tasks, not only of those behind a capture: if one beside it is skipped, the commit may be.
        self._before = [(task_id, before[task_id]) for task_id in TopologicalSorter(before).static_order()]
        self._rules = {task_id: _rule(dag, task_id) for task_id in before}
        self._by_branch = {task.task_id: list[set[str]]() for task in dag.tasks if _is_branch(task)}
        self.plain = self._skipped(())

    def by_branch(self, task_ids: Collection[str]) -> Iterator[tuple[str, list[set[str]]]]:
        """For each branch among the tasks, one day for each answer that it may give."""
        for branch, told in self._by_branch.items():
            if branch in task_ids:
                if not told:
                    told.extend(self._skipped(left_out) for left_out in _ways(self.dag, branch))
                yield branch, told

    def _skipped(self, left_out: Collection[str]) -> set[str]:
        """Follow Airflow's trigger rules from task to task, all of which succeed if they run."""
        skipped: set[str] = set()
        for task_id, names in self._before:
            if task_id in left_out or _is_skipped(self._rules[task_id], [name in skipped for name in names]):
                skipped.add(task_id)
        return skipped


def check_branches(days: GoodDays, commit: IpCommitOperator, between: Collection[str]) -> None:
    """Refuse a commit that could not move the checkpoint on a good day."""
    rule = _rule(days.dag, commit.task_id)
    if between and rule in _HASTY:
        raise InputError(
            f"commit {commit.task_id!r} has trigger_rule={rule!r}, which does not wait for the work",
            consequence="It would run as soon as the capture has, find the work unfinished, and fail",
            remedy="use trigger_rule='all_done': what succeeded is looked at in any case",
        )
    before = commit.get_flat_relative_ids(upstream=True)
    _refuse_if_never(commit, between, [days.plain & {*before, commit.task_id}], when="whenever nothing fails")
    for branch, ways in days.by_branch(before):
        told = [skipped & {*before, commit.task_id} for skipped in ways]
        _refuse_if_never(commit, between, told, when=f"whichever way {branch!r} goes")


def _refuse_if_never(commit: IpCommitOperator, between: Collection[str], days: list[set[str]], *, when: str) -> None:
    """``days`` says of each day that there can be which tasks before the commit are skipped on it, or it itself."""
    if all(commit.task_id in skipped for skipped in days):
        skipped = set().union(*days) - {commit.task_id}
        raise InputError(
            f"commit {commit.task_id!r} has trigger_rule={_rule(commit.dag, commit.task_id)!r}, and is skipped {when}, "
            f"with {_named(skipped)}",
            consequence="Runs would be green and the checkpoint would stand still: each would process all rows again",
            remedy=_ways_around(commit.upstream_task_ids & skipped - {*between, commit.capture_task_id}),
        )
    # Without its capture there is nothing to commit, whatever else has succeeded.
    demands = ((commit.capture_task_id,), *(commit.required or tuple((task_id,) for task_id in between)))
    lacking = [next((group for group in demands if skipped.issuperset(group)), ()) for skipped in days]
    if all(lacking):
        raise InputError(
            f"commit {commit.task_id!r} demands the success of {_named(lacking[0])}, skipped {when}",
            consequence="It would fail on every good day, and the checkpoint would never move",
            remedy="name what must have succeeded by require=[…]; tasks of which one is enough by a tuple, such as "
            "require=[('job', 'job_again')]",
        )


def _ways_around(beside: Collection[str]) -> str:
    """``beside`` are the tasks directly before the commit that do not lie behind its capture."""
    return (
        f"remove the arrow to it from {_named(beside)}, which did not see the captured rows; else " if beside else ""
    ) + (
        "set trigger_rule='all_done' on it, and name what must have succeeded by require=[…]; tasks of "
        "which one is enough by a tuple, such as require=[('job', 'job_again')]"
    )


def _is_branch(task: Operator) -> bool:
    """Told by name: importing Airflow's branch costs time in every DAG file."""
    return any(base.__name__ == "BranchMixIn" for base in getattr(task, "operator_class", type(task)).__mro__)


def _ways(dag: DAG, branch: str) -> list[set[str]]:
    """For each answer of a branch the tasks that it leaves out: not what lies behind a chosen one."""
    choices = dag.task_dict[branch].downstream_task_ids
    answers = [{task_id} for task_id in sorted(choices)]
    # Airflow takes the name of a task group for all of its first tasks.
    groups = {str(group.group_id): group for task_id in choices for group in _groups_around(dag.task_dict[task_id])}
    roots = [{task.task_id for task in group.roots} for group in groups.values()]
    answers += [chosen for chosen in roots if not chosen.isdisjoint(choices)]
    if len(choices) > 1 and may_choose_several(dag.task_dict[branch]):
        answers.append(choices)
    return [choices.difference(*(_with_all_behind(dag, task_id) for task_id in chosen)) for chosen in answers]


def _groups_around(task: Operator) -> Iterator[TaskGroup]:
    group = task.task_group
    while group is not None and group.group_id is not None:
        yield group
        group = group.parent_group


def _with_all_behind(dag: DAG, task_id: str) -> set[str]:
    return {task_id, *dag.task_dict[task_id].get_flat_relative_ids(upstream=False)}


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
