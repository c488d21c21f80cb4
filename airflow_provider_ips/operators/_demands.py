"""The arguments by which a commit names tasks: itself, by their ids, or by what they put out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from airflow.sdk import TaskGroup, XComArg

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.operators import _wiring

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from airflow.sdk.types import Operator

    from airflow_provider_ips.operators.commit import IpCommitOperator


def parse_task_id(value: object, *, what: str) -> str:
    """Read the capture of a commit, or a task that it requires."""
    if isinstance(value, XComArg):
        value = next(operator for operator, _ in value.iter_references())
    if isinstance(value, str) and value:
        return value
    task_id = getattr(value, "task_id", None)
    if isinstance(task_id, str) and (what != "capture" or _wiring.is_capture(value)):
        return task_id
    raise InputError(
        f"{what}={value!r} is no {'IpCaptureOperator' if what == 'capture' else 'task'}",
        consequence="The commit could not tell what it has to wait for",
        remedy=f"pass the {'IpCaptureOperator' if what == 'capture' else 'task'} or its task id",
    )


def parse_required(value: Iterable[object] | str | None) -> tuple[tuple[str, ...], ...]:
    """One group for each demand: the tasks of a group stand for each other."""
    if value is None:
        return ()
    entries = _entries(value)
    _refuse_groups_as_tuples(entries)
    groups = tuple(tuple(parse_task_id(task, what="require") for task in _entries(entry)) for entry in entries)
    if not groups or () in groups:
        raise InputError(
            "require=[] demands no evidence at all" if not groups else "require names an empty group of tasks",
            consequence="The checkpoint would move whatever happened",
            remedy="leave require out to demand all tasks between capture and commit, or name some",
        )
    groups = tuple(dict.fromkeys(groups))
    _refuse_idle_stand_ins(groups)
    return groups


def _refuse_groups_as_tuples(entries: Iterable[object]) -> None:
    """A task group can be iterated like a tuple, whose tasks stand for each other."""
    for group in (entry for entry in entries if isinstance(entry, TaskGroup)):
        raise InputError(
            f"require names the task group {group.group_id!r} as one entry",
            consequence="One of its tasks would be enough, and rows that the others left undone would be lost",
            remedy="name its tasks, of which each must succeed: require=[*group]",
        )


def _refuse_idle_stand_ins(groups: Collection[tuple[str, ...]]) -> None:
    """Refuse tuples in which a task could not stand for the other: they are not what was meant."""
    alone = {group[0] for group in groups if len(group) == 1}
    for group in (group for group in groups if len(group) > 1):
        for task_id in group:
            if group.count(task_id) == 1 and task_id not in alone:
                continue
            where = f"twice in the tuple {group}" if group.count(task_id) > 1 else f"by itself and in the tuple {group}"
            raise InputError(
                f"require names {task_id!r} {where}",
                consequence="No other task could stand for it, and the commit would fail where one was meant to",
                remedy=f"name {task_id!r} alone if it must succeed in any case, or once in the tuple with those that "
                "may stand for it",
            )


def _entries(value: object) -> list[object]:
    if isinstance(value, str | XComArg) or hasattr(value, "task_id") or not isinstance(value, Iterable):
        return [value]
    return list(value)


def refuse_idle_evidence(dag: DAG, task_id: str, capture: Operator, commit: IpCommitOperator) -> None:
    """Refuse a task that succeeds whether or not the captured rows were processed."""
    between = _wiring.tasks_between(capture, commit)
    if task_id == capture.task_id:
        what = "is its capture"
    elif _wiring.is_capture(dag.task_dict[task_id]):
        what = "is another capture"
    elif _wiring.is_commit(dag.task_dict[task_id]):
        what = "is another commit"
    elif task_id not in between:
        what = f"does not lie behind the capture {capture.task_id!r}"
    else:
        return
    jobs = [
        name
        for name in between
        if not (_wiring.is_capture(dag.task_dict[name]) or _wiring.is_commit(dag.task_dict[name]))
    ]
    raise InputError(
        f"require={task_id!r} of commit {commit.task_id!r} {what}",
        consequence="Its success says nothing of the rows that were captured, and they would be lost",
        remedy=f"name tasks that process them, and lie between the two: {jobs}"
        if jobs
        else f"put the tasks that process them between the two: {capture.task_id} >> … >> {commit.task_id}",
    )
