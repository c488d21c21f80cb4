"""The proof that a commit asks for: that every task between capture and commit succeeded.

A trigger rule is no proof. ``all_done`` runs a commit after failures, ``none_failed`` after skipped work, and each of
them would move the checkpoint past rows nobody processed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import EvidenceError
from airflow_provider_ips.operators import _wiring

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from airflow.sdk import DAG
    from airflow.sdk.types import Operator, RuntimeTaskInstanceProtocol

SUCCESS = "success"
SKIPPED = "skipped"
REMOVED = "removed"
BEGUN = (SUCCESS, "running", "deferred", "up_for_reschedule", "awaiting_input")
"""What a task is in that has started, or has ended well, and will not start anew by itself."""

OVER = (SUCCESS, "failed", SKIPPED, "upstream_failed", REMOVED)
"""What a task is in that will not run by itself any more."""

_NEXT_STEP = {
    "skipped": "if its work is not needed for this commit, name the tasks that are by require=[…]; else clear it",
    "upstream_failed": "repair and clear the task before it that failed",
    "failed": "repair and clear it; the commit runs after it",
    None: "clear the run from the capture on: this task is not part of it yet",
}


def demand_success(states: Mapping[str, str | None], *, run_id: str, commit: str) -> None:
    """Raise for the first task that has not succeeded, and name them all."""
    lacking = {task: state for task, state in sorted(states.items()) if state != SUCCESS}
    if not lacking:
        return
    task, state = next(iter(lacking.items()))
    listed = ", ".join(f"{name!r} is {state or 'missing'}" for name, state in lacking.items())
    raise EvidenceError(
        f"{commit!r} commits nothing in run {run_id}: {listed}",
        consequence="Moving the checkpoint now would lose the rows that were to be processed there",
        remedy=f"{task!r}: " + _NEXT_STEP.get(state, "let it end; the commit must run after it"),
    )


def with_stand_ins(states: Mapping[str, str | None], groups: Iterable[Collection[str]]) -> dict[str, str | None]:
    """Leave out what did not succeed where a task that stands for it did, and it will not write any more.

    Each group is judged by itself, and what any of them demands is demanded: a success that stands for a task in one
    group would otherwise excuse it in another, which nothing has satisfied.
    """
    found = [{task: [name for name in states if _is_instance(name, task)] for task in group} for group in groups]
    named = {name for instances in found for names in instances.values() for name in names}
    told = {name: state for name, state in states.items() if name not in named}
    for instances in found:
        satisfied = any(names and all(states[name] == SUCCESS for name in names) for names in instances.values())
        for name in (name for names in instances.values() for name in names):
            if not (satisfied and states[name] in OVER):
                told[name] = states[name]
    return told


def _is_instance(name: str, task_id: str) -> bool:
    return name == task_id or (name.startswith(f"{task_id}[") and name.endswith("]"))


def refuse_earlier_work(ti: RuntimeTaskInstanceProtocol, dag: DAG, capture: Operator, *, run_id: str) -> None:
    """Refuse a new range in a run whose work has begun: its success would pass for the work on rows it never saw.

    That is so where somebody cleared the capture and not what lies behind it, and its former range is no longer the one
    to take; and where a trigger rule lets the work start without waiting for the capture.
    """
    commit = next((c for c in _wiring.commits(dag) if c.capture_task_id == capture.task_id), None)
    if commit is None:
        return
    # All of them, whatever the commit requires: a task that it requires may go by the success of one that it does not.
    wanted = _wiring.tasks_between(capture, commit)
    grouped = capture.get_closest_mapped_task_group() is not None
    states = states_of(ti, dag, wanted, run_id=run_id, map_index=ti.map_index if grouped else None)
    begun = {task: state for task, state in states.items() if state in BEGUN}
    if not begun:
        return
    listed = ", ".join(f"{name!r} is {state}" for name, state in sorted(begun.items()))
    raise EvidenceError(
        f"{capture.task_id!r} has a new range to capture in run {run_id}, whose work has begun before: {listed}",
        consequence="Its success would be taken for work on rows that it has not seen, and they would be lost",
        remedy=f"clear {capture.task_id!r} together with its downstream tasks; if none was cleared, let them wait for "
        "the capture by their trigger rule",
    )


def states_of(
    ti: RuntimeTaskInstanceProtocol,
    dag: DAG,
    task_ids: Iterable[str],
    *,
    run_id: str,
    map_index: int | None = None,
    excused: Collection[int] = (),
) -> dict[str, str | None]:
    """
    Ask for the states of tasks, one entry for each instance of a mapped one.

    :param map_index: ask only about the instances of this index, in the mapped task group of the commit.
    :param excused: indexes of a mapped capture that had nothing to process, whose skipped instances lack nothing.
    """
    found: dict[str, str | None] = {}
    plain: list[str] = []
    for task_id in task_ids:
        # Airflow answers with `<task_id>_<map_index>` for mapped instances, which another task may be called.
        if is_expanded(dag.task_dict[task_id]):
            answer = _ask(ti, dag, [task_id], run_id=run_id, map_index=map_index)
            found.update(_instances(answer, task_id, excused))
        else:
            plain.append(task_id)
    if plain:
        answer = _ask(ti, dag, plain, run_id=run_id)
        found.update({task_id: answer.get(task_id) for task_id in plain})
    return found


def is_expanded(task: Operator) -> bool:
    """Tell a task with several instances in one run."""
    return bool(task.is_mapped) or task.get_closest_mapped_task_group() is not None


def _instances(answer: Mapping[str, str | None], task_id: str, excused: Collection[int]) -> dict[str, str | None]:
    """Name instances as the UI does, ``<task_id>[<map_index>]``, lest one overwrites a task that is called like it."""
    idle = {f"{task_id}[{index}]" for index in excused}
    named = {
        f"{task_id}[{name.removeprefix(task_id)[1:]}]" if name != task_id else name: answer[name] for name in answer
    }
    live = {name: state for name, state in named.items() if state != REMOVED}
    wanted = {name: state for name, state in live.items() if not (name in idle and state == SKIPPED)}
    return wanted if live else {task_id: None}


def _ask(
    ti: RuntimeTaskInstanceProtocol, dag: DAG, task_ids: list[str], *, run_id: str, map_index: int | None = None
) -> Mapping[str, str | None]:
    answer = ti.get_task_states(dag_id=dag.dag_id, run_ids=[run_id], task_ids=task_ids, map_index=map_index)
    states: Mapping[str, str | None] = answer.get(run_id, {})
    return states
