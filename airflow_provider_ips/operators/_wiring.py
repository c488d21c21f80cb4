"""How capture and commit lie in their DAG: what can be told from the graph alone, before anything runs.

Airflow calls ``resolve_template_files`` on every task when a DAG file was read completely, which is the only moment at
which the whole graph is known and an error still becomes an import error. ``dag.test()`` does not, so ``execute`` asks
again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow.sdk import XComArg

from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPTURE_MARK = "_ips_capture"
"""A class attribute of capture operators: commit recognises them, mapped or not, without importing them."""

COMMIT_MARK = "_ips_commit"

_PULL = re.compile(r"xcom_pull\s*\(\s*(?:task_ids\s*=\s*)?(\[[^\]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\")")
_PULL_NAMED = re.compile(r"xcom_pull\s*\([^)]*?task_ids\s*=\s*(\[[^\]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\")")
_QUOTED = re.compile(r"['\"]([^'\"]+)['\"]")


def has_mark(task: Any, mark: str) -> bool:
    """Tell a capture or commit, whether it is mapped or not."""
    return bool(getattr(getattr(task, "operator_class", type(task)), mark, False))


def check_dag(dag: Any) -> None:
    """Refuse every capture and commit of a DAG that could not be right."""
    committed: dict[str, str] = {}
    for commit in [task for task in dag.tasks if has_mark(task, COMMIT_MARK)]:
        _refuse_expanded(commit)
        capture = capture_of(commit, dag)
        if (other := committed.setdefault(capture.task_id, commit.task_id)) != commit.task_id:
            raise InputError(
                f"tasks {other!r} and {commit.task_id!r} both commit the capture {capture.task_id!r}",
                consequence="The first would move the checkpoint without waiting for the work before the second",
                remedy="keep one commit, behind all tasks that use the capture",
            )
        _check_pair(dag, capture, commit)
    _refuse_shared_consumers(dag)


def capture_of(commit: Any, dag: Any) -> Any:
    """Find the capture task of a commit."""
    task_id = commit.capture_task_id
    task = dag.task_dict.get(task_id)
    if task is None:
        captures = sorted(t.task_id for t in dag.tasks if has_mark(t, CAPTURE_MARK))
        raise InputError(
            f"commit {commit.task_id!r} names the capture task {task_id!r}, which does not exist in DAG {dag.dag_id!r}",
            consequence="There is nothing it could commit, and the checkpoint would never move",
            remedy=f"set capture= to one of {captures}"
            if captures
            else "add an IpCaptureOperator and pass it as capture=",
        )
    if not has_mark(task, CAPTURE_MARK):
        raise InputError(
            f"commit {commit.task_id!r} names {task_id!r} as its capture, which is no IpCaptureOperator",
            consequence="It captures nothing that could be committed",
            remedy="pass the IpCaptureOperator, or its task_id, as capture=",
        )
    return task


def tasks_between(capture: Any, commit: Any) -> list[str]:
    """List the ids of the tasks that lie on a way from capture to commit."""
    ids = capture.get_flat_relative_ids(upstream=False) & commit.get_flat_relative_ids(upstream=True)
    return sorted(ids - {capture.task_id, commit.task_id})


def uses_of(capture: Any, dag: Any) -> list[str]:
    """List the ids of the tasks that pull an XCom of the capture, as far as the DAG file tells."""
    return sorted(
        task.task_id
        for task in dag.tasks
        if task is not capture and not has_mark(task, COMMIT_MARK) and capture.task_id in set(_pulled_from(task))
    )


def _check_pair(dag: Any, capture: Any, commit: Any) -> None:
    upstream = commit.get_flat_relative_ids(upstream=True)
    if capture.task_id not in upstream:
        raise InputError(
            f"capture {capture.task_id!r} does not lie before its commit {commit.task_id!r}",
            consequence="The commit could run first, and move the checkpoint past rows nobody processed",
            remedy=f"add {capture.task_id} >> … >> {commit.task_id}",
        )
    for task in (capture, commit):
        _refuse_teardown(task, f"{task.task_id!r} is a teardown")
    for task_id in uses_of(capture, dag):
        if task_id not in upstream:
            raise InputError(
                f"task {task_id!r} uses the capture {capture.task_id!r} but does not lie before the commit "
                f"{commit.task_id!r}",
                consequence="The checkpoint would move while it runs, or after it failed, and its rows would be lost",
                remedy=f"add {task_id} >> {commit.task_id}",
            )
    for task_id in tasks_between(capture, commit):
        _refuse_teardown(dag.task_dict[task_id], f"teardown {task_id!r} lies between capture and commit")
    for task_id in commit.required_task_ids:
        if task_id not in upstream:
            raise InputError(
                f"require={task_id!r} of commit {commit.task_id!r} is no task before it",
                consequence="Its success could not be known when the checkpoint moves",
                remedy=f"name tasks of DAG {dag.dag_id!r} that lie before the commit",
            )


def _refuse_expanded(commit: Any) -> None:
    if commit.is_mapped:
        raise InputError(
            f"commit {commit.task_id!r} is expanded",
            consequence="Its instances could not be told which capture each of them commits",
            remedy="use one plain commit, which commits every instance of a mapped capture, or put capture, work and "
            "commit into a mapped task group",
        )


def _refuse_teardown(task: Any, what: str) -> None:
    if task.is_teardown:
        raise InputError(
            what,
            consequence="A teardown runs whatever happened before it, so it proves nothing about the work",
            remedy="make it an ordinary task, or move it behind the commit",
        )


def _refuse_shared_consumers(dag: Any) -> None:
    """Two captures of one run under one consumer would take each other's pending capture for their own retry."""
    owners: dict[str, str] = {}
    for task in dag.tasks:
        consumer = getattr(task, "partial_kwargs", {}).get("consumer") or getattr(task, "consumer", None)
        if not has_mark(task, CAPTURE_MARK) or not isinstance(consumer, str) or "{{" in consumer:
            continue
        if (owner := owners.setdefault(consumer, task.task_id)) != task.task_id:
            raise InputError(
                f"captures {owner!r} and {task.task_id!r} of DAG {dag.dag_id!r} share consumer {consumer!r}",
                consequence="In one run each would take the other's range for its own",
                remedy="give each its own consumer, or capture all tables in one task: source_tables=[…]",
            )


def _pulled_from(task: Any) -> Iterator[str]:
    for value in _template_values(task):
        for operator, _ in XComArg.iter_xcom_references(value):
            yield operator.task_id
        yield from _pulled_by_template(value)


def _template_values(task: Any) -> Iterator[Any]:
    if hasattr(task, "partial_kwargs"):
        yield from (v for k, v in task.partial_kwargs.items() if k in task.template_fields)
        yield from (task.partial_kwargs.get("op_args"), task.partial_kwargs.get("op_kwargs"))
        yield getattr(task.expand_input, "value", None)
        return
    yield from (getattr(task, name, None) for name in task.template_fields)


def _pulled_by_template(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        for pattern in (_PULL, _PULL_NAMED):
            for found in pattern.findall(value):
                yield from _QUOTED.findall(found)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _pulled_by_template(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _pulled_by_template(item)


def sibling_id(task_id: str, task: Any) -> str:
    """Read an id as people write it inside a task group: without the group's own prefix."""
    if task_id in task.dag.task_dict or task.task_group is None:
        return task_id
    prefixed = task.task_group.child_id(task_id)
    return prefixed if prefixed in task.dag.task_dict else task_id
