"""One DAG run as Airflow keeps it: instances with states, lists that change, and what was really done.

What is modelled of Airflow, each read in its source:

    expansion        one instance (index -1) becomes one for each element; none for an empty list, which is skipped
    a shorter list   instances beyond its end become `removed` when the task is scheduled again
    a mapped task downstream of removed instances: its own with an index of at least the number of
                     successes upstream become `removed`, whether or not its list still has them
    answers          get_task_states names instances `<task_id>_<index>`, which may be the name of another task
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_provider_ips import dag_graph

if TYPE_CHECKING:
    from random import Random

    from airflow.sdk import DAG

State = str | None
FAILED = ("failed", "upstream_failed")


@dataclass
class EvidenceRun:
    """A run of a DAG. ``lists`` has the length of what each task, or its mapped group, is expanded over."""

    dag: DAG
    lists: dict[str, int]
    random: Random
    states: dict[str, dict[int, State]] = field(default_factory=dict)
    done: set[tuple[str, int]] = field(default_factory=set)
    """The instances that did their work since they were made, whatever Airflow did to them afterwards."""

    def __post_init__(self) -> None:
        self.states = {task.task_id: {-1: None} for task in self.dag.topological_sort()}

    def expansion(self, task_id: str) -> str | None:
        """What a task is expanded over: itself, its mapped group, or nothing."""
        task = self.dag.task_dict[task_id]
        group = task.get_closest_mapped_task_group()
        if group is not None:
            return f"group {group.group_id}"
        return task_id if task.is_mapped else None

    def share_index(self, task_id: str, other: str) -> bool:
        """Whether instances of the same index belong together."""
        name = self.expansion(task_id)
        return name is not None and name == self.expansion(other)

    def schedule(self, until: int) -> None:
        """Run what can run, up to some number of tasks: then somebody looks, or clears something."""
        for task_id in list(self.states)[:until]:
            name = self.expansion(task_id)
            if name is not None and any(state is None for state in self.states[task_id].values()):
                self._expand(task_id, self.lists[name])
            for index, state in list(self.states[task_id].items()):
                if state is None:
                    self.states[task_id][index] = self._outcome(task_id, index)

    def _expand(self, task_id: str, length: int) -> None:
        instances = self.states[task_id]
        if instances.pop(-1, "expanded") != "expanded" and length == 0:
            instances[-1] = "skipped"
        for index in instances:
            if index >= length:
                instances[index] = "removed" if index >= 0 else "skipped"
        for index in range(length):
            instances.setdefault(index, None)

    def _outcome(self, task_id: str, index: int) -> State:
        upstream = self._upstream_states(task_id, index)
        if any(state in FAILED for state in upstream):
            return "upstream_failed"
        if "skipped" in upstream:
            return "skipped"
        if "removed" in upstream and index >= upstream.count("success") > 0:
            return "removed"
        if any(state not in ("success", "removed") for state in upstream):
            return None
        state = self.random.choices(("success", "failed", "skipped", "running"), (12, 3, 1, 1))[0]
        if state == "success":
            self.done.add((task_id, index))
        return state

    def _upstream_states(self, task_id: str, index: int) -> list[State]:
        found: list[State] = []
        for name in self.dag.task_dict[task_id].upstream_task_ids:
            same = self.share_index(name, task_id)
            found += [state for at, state in self.states[name].items() if not same or at == index]
        return found

    def clear(self, task_id: str, index: int | None, *, downstream: bool) -> None:
        """Clear a task or one of its instances, and what is downstream of it if that is requested too."""
        names = self.dag.task_dict[task_id].get_flat_relative_ids(upstream=False) if downstream else ()
        for name in (task_id, *names):
            for at in self.states[name]:
                if name != task_id or index is None or at == index:
                    self.states[name][at] = None
                    self.done.discard((name, at))

    def context(self, commit: Any, index: int) -> dict[str, Any]:
        """What a commit is executed with."""
        run = SimpleNamespace(dag_id=self.dag.dag_id, run_id="run", run_after=datetime(2026, 11, 1, tzinfo=UTC))
        return {"ti": _Instance(self, index), "dag": self.dag, "dag_run": run, "run_id": "run", "task": commit}


@dataclass
class _Instance:
    """A task instance that answers as Airflow's API does."""

    run: EvidenceRun
    map_index: int

    def get_task_states(
        self, *, dag_id: str, run_ids: list[str], task_ids: list[str], map_index: int | None
    ) -> dict[str, dict[str, State]]:
        answer = {
            name if at < 0 else f"{name}_{at}": state
            for name in task_ids
            for at, state in self.run.states[name].items()
            if map_index is None or at == map_index
        }
        return {run_ids[0]: answer} if answer else {}


def commits(run: EvidenceRun) -> list[tuple[Any, int]]:
    """Each commit of a run, with the indexes at which there is one."""
    return [(commit, index) for commit in dag_graph.commits(run.dag) for index in run.states[commit.task_id]]
