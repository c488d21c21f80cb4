"""The proof that a commit asks for: that every task between capture and commit succeeded.

A trigger rule is no proof. ``all_done`` runs a commit after failures, ``none_failed`` after skipped work, and each of
them would move the checkpoint past rows nobody processed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from airflow.sdk import DAG
    from airflow.sdk.types import Operator, RuntimeTaskInstanceProtocol

SUCCESS = "success"
SKIPPED = "skipped"
REMOVED = "removed"

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
