"""How capture and commit lie in their DAG: what can be told from the graph alone, before anything runs.

Airflow calls ``resolve_template_files`` on every task when a DAG file was read completely, which is the only moment at
which the whole graph is known and an error still becomes an import error. ``dag.test()`` does not, so ``execute`` asks
again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeGuard

from airflow.sdk import XComArg
from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from airflow.sdk import DAG, BaseOperator
    from airflow.sdk.types import Operator

    from airflow_provider_ips.operators.commit import IpCommitOperator

CAPTURE_MARK = "_ips_capture"
"""A class attribute of capture operators: commit recognises them, mapped or not, without importing them."""

COMMIT_MARK = "_ips_commit"
BACKFILL_MARK = "_ips_backfill"

_PULL = re.compile(r"xcom_pull\s*\(\s*(?:task_ids\s*=\s*)?(\[[^\]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\")")
_PULL_NAMED = re.compile(r"xcom_pull\s*\([^)]*?task_ids\s*=\s*(\[[^\]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\")")
_QUOTED = re.compile(r"['\"]([^'\"]+)['\"]")


def is_capture(task: object) -> TypeGuard[Operator]:
    """Tell a capture, whether it is mapped or not."""
    return _has_mark(task, CAPTURE_MARK)


def is_commit(task: object) -> TypeGuard[Operator]:
    """Tell a commit, whether it is mapped or not."""
    return _has_mark(task, COMMIT_MARK)


def is_backfill(task: object) -> TypeGuard[Operator]:
    """Tell a plan of a backfill, whether it is mapped or not."""
    return _has_mark(task, BACKFILL_MARK)


def _has_mark(task: object, mark: str) -> bool:
    return bool(getattr(getattr(task, "operator_class", type(task)), mark, False))


def complete_dag(dag: DAG, asking: Operator) -> None:
    """Draw the arrows of commits that stand before their capture in the file, then check.

    Airflow has every task ask; the first answers for all, or a DAG of a hundred captures would be read a hundred times.
    """
    from airflow_provider_ips.operators._stages import refuse_appends_behind_changes

    first = next(task for task in dag.tasks if (is_capture(task) or is_commit(task)) and not task.is_mapped)
    if asking is not first:
        return
    for commit in commits(dag):
        commit.depend_on_capture()
    check_dag(dag)
    refuse_appends_behind_changes(dag)


def check_dag(dag: DAG) -> None:
    """Refuse every capture and commit of a DAG that could not be right."""
    from airflow_provider_ips.operators._backfill_wiring import check_backfills
    from airflow_provider_ips.operators._branches import GoodDays, check_branches

    committed: dict[str, str] = {}
    days = GoodDays(dag)
    pulled = {task.task_id: set(_pulled_from(task)) for task in dag.tasks if not is_commit(task)}
    for commit in commits(dag):
        capture = capture_of(commit, dag)
        if (other := committed.setdefault(capture.task_id, commit.task_id)) != commit.task_id:
            raise InputError(
                f"tasks {other!r} and {commit.task_id!r} both commit the capture {capture.task_id!r}",
                consequence="The first would move the checkpoint without waiting for the work before the second",
                remedy="keep one commit, behind all tasks that use the capture",
            )
        _check_pair(dag, capture, commit)
        check_branches(days, commit, tasks_between(capture, commit))
        _check_uses(sorted(name for name, sources in pulled.items() if capture.task_id in sources), capture, commit)
        _have_jobs_told_apart(dag, tasks_between(capture, commit))
    _refuse_shared_consumers(dag)
    check_backfills(dag)
    _have_failures_explained(dag, pulled)


def _have_failures_explained(dag: DAG, pulled: Mapping[str, Collection[str]]) -> None:
    """Let a job that fails over captured tables say which of their files are gone. Mapped tasks fail by themselves."""
    from airflow_provider_ips.operators.lost_files import name_lost_files

    captures = {task.task_id for task in dag.tasks if is_capture(task)}
    for name, sources in pulled.items():
        task = dag.task_dict[name]
        if captures.isdisjoint(sources) or is_capture(task) or isinstance(task, MappedOperator):
            continue
        if name_lost_files not in task.on_failure_callback:
            task.on_failure_callback = [*task.on_failure_callback, name_lost_files]


def _have_jobs_told_apart(dag: DAG, task_ids: Collection[str]) -> None:
    """Let a task that resumes its job know for which capture the job was. Told by its method: importing costs time."""
    from airflow_provider_ips.operators._resumed import forgetting

    for task in (dag.task_dict[task_id] for task_id in task_ids):
        if not hasattr(getattr(task, "operator_class", type(task)), "execute_resumable"):
            continue
        if isinstance(task, MappedOperator):
            task.partial_kwargs["pre_execute"] = forgetting(task.partial_kwargs.get("pre_execute"))
        else:
            task._pre_execute_hook = forgetting(task._pre_execute_hook)  # noqa: SLF001 - as the argument pre_execute= does


def capture_of(commit: IpCommitOperator, dag: DAG) -> Operator:
    """Find the capture task of a commit."""
    task_id = commit.capture_task_id
    task = dag.task_dict.get(task_id)
    if task is None:
        captures = sorted(t.task_id for t in dag.tasks if is_capture(t))
        raise InputError(
            f"commit {commit.task_id!r} names the capture task {task_id!r}, which does not exist in DAG {dag.dag_id!r}",
            consequence="There is nothing it could commit, and the checkpoint would never move",
            remedy=f"set capture= to one of {captures}"
            if captures
            else "add an IpCaptureOperator and pass it as capture=",
        )
    if not is_capture(task):
        raise InputError(
            f"commit {commit.task_id!r} names {task_id!r} as its capture, which is no IpCaptureOperator",
            consequence="It captures nothing that could be committed",
            remedy="pass the IpCaptureOperator, or its task_id, as capture=",
        )
    return task


def is_committed(capture_task_id: str, dag: DAG) -> bool:
    """Tell whether any commit stands behind a capture."""
    return any(commit.capture_task_id == capture_task_id for commit in commits(dag))


def tasks_between(capture: Operator, commit: IpCommitOperator) -> list[str]:
    """List the ids of the tasks that lie on a way from capture to commit."""
    ids = capture.get_flat_relative_ids(upstream=False) & commit.get_flat_relative_ids(upstream=True)
    return sorted(ids - {capture.task_id, commit.task_id})


def _check_pair(dag: DAG, capture: Operator, commit: IpCommitOperator) -> None:
    from airflow_provider_ips.operators._demands import refuse_idle_evidence

    upstream = commit.get_flat_relative_ids(upstream=True)
    if capture.task_id not in upstream:
        raise InputError(
            f"capture {capture.task_id!r} does not lie before its commit {commit.task_id!r}",
            consequence="The commit could run first, and move the checkpoint past rows nobody processed",
            remedy=f"add {capture.task_id} >> … >> {commit.task_id}",
        )
    group = commit.get_closest_mapped_task_group()
    if group is not None and group is not capture.get_closest_mapped_task_group():
        raise InputError(
            f"commit {commit.task_id!r} lies in a mapped task group, and its capture {capture.task_id!r} does not",
            consequence="The first instance of the commit would stand for the work of all",
            remedy="move the commit behind the group, or the capture into it",
        )
    for task in (capture, commit):
        _refuse_teardown(task, f"{task.task_id!r} is a teardown")
    for task_id in tasks_between(capture, commit):
        _refuse_teardown(dag.task_dict[task_id], f"teardown {task_id!r} lies between capture and commit")
    for task_id in commit.required_task_ids:
        if task_id not in upstream:
            raise InputError(
                f"require={task_id!r} of commit {commit.task_id!r} is no task before it",
                consequence="Its success could not be known when the checkpoint moves",
                remedy=f"name tasks of DAG {dag.dag_id!r} that lie before the commit",
            )
        refuse_idle_evidence(dag, task_id, capture, commit)


def _check_uses(users: list[str], capture: Operator, commit: IpCommitOperator) -> None:
    """Refuse tasks that pull an XCom of the capture, as far as the DAG file tells, and do not lie in between."""
    before, behind = commit.get_flat_relative_ids(upstream=True), capture.get_flat_relative_ids(upstream=False)
    for task_id in users:
        if task_id not in before:
            raise InputError(
                f"task {task_id!r} uses the capture {capture.task_id!r} but does not lie before the commit "
                f"{commit.task_id!r}",
                consequence="The checkpoint would move while it runs, or after it failed, and its rows would be lost",
                remedy=f"add {task_id} >> {commit.task_id}",
            )
        if task_id not in behind:
            raise InputError(
                f"task {task_id!r} uses the capture {capture.task_id!r} but does not lie behind it",
                consequence="It could run first, and find nothing or what an earlier attempt left",
                remedy=f"add {capture.task_id} >> {task_id}",
            )


def commits(dag: DAG) -> Iterator[IpCommitOperator]:
    """All commits of a DAG, none of which may be mapped."""
    for task in dag.tasks:
        if not is_commit(task):
            continue
        if isinstance(task, MappedOperator):
            raise InputError(
                f"commit {task.task_id!r} is expanded",
                consequence="Its instances could not be told which capture each of them commits",
                remedy="use one plain commit, which commits every instance of a mapped capture, or put capture, work "
                "and commit into a mapped task group",
            )
        yield task  # type: ignore[misc]  # the mark says what it is


def _refuse_teardown(task: Operator, what: str) -> None:
    if task.is_teardown:
        raise InputError(
            what,
            consequence="A teardown runs whatever happened before it, so it proves nothing about the work",
            remedy="make it an ordinary task, or move it behind the commit",
        )


def _refuse_shared_consumers(dag: DAG) -> None:
    """Two captures of one run under one consumer would take each other's pending capture for their own retry."""
    owners: dict[str, str] = {}
    for task in dag.tasks:
        consumer = argument(task, "consumer") if is_capture(task) else None
        if not isinstance(consumer, str) or "{{" in consumer:
            continue
        if (owner := owners.setdefault(consumer, task.task_id)) != task.task_id:
            raise InputError(
                f"captures {owner!r} and {task.task_id!r} of DAG {dag.dag_id!r} share consumer {consumer!r}",
                consequence="In one run each would take the other's range for its own",
                remedy="give each its own consumer, or capture all tables in one task: source_tables=[…]",
            )


def _pulled_from(task: Operator) -> Iterator[str]:
    for value in _template_values(task):
        for operator, _ in XComArg.iter_xcom_references(value):
            yield operator.task_id
        yield from _pulled_by_template(value)


def _template_values(task: Operator) -> Iterator[object]:
    if isinstance(task, MappedOperator):
        yield from (v for k, v in task.partial_kwargs.items() if k in task.template_fields)
        yield from (task.partial_kwargs.get("op_args"), task.partial_kwargs.get("op_kwargs"))
        yield getattr(task.expand_input, "value", None)
        return
    yield from (getattr(task, name, None) for name in task.template_fields)


def _pulled_by_template(value: object) -> Iterator[str]:
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


def sibling_id(task_id: str, task: BaseOperator) -> str:
    """Read an id as people write it inside a task group: without the group's own prefix."""
    if task_id in task.dag.task_dict or task.task_group is None:
        return task_id
    prefixed = str(task.task_group.child_id(task_id))  # type: ignore[no-untyped-call]
    return prefixed if prefixed in task.dag.task_dict else task_id


def argument(task: Operator, name: str) -> object:
    """Read an operator's argument, mapped or not."""
    return task.partial_kwargs.get(name) if isinstance(task, MappedOperator) else getattr(task, name, None)
