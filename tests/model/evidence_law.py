"""The law of commit evidence: a source's checkpoint moves only if every task between did its part for that source.

The part of a task in the commit's own mapped group is the instance of the same index. The part of every other task is
all that Airflow ever made of it in this run.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup, task_group

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, dag_graph
from airflow_provider_ips.core.errors import EvidenceError
from airflow_provider_ips.runs.evidence import demand_evidence
from tests.model.evidence_run import EvidenceRun, commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REQUIRE: tuple[Any, ...] = (None, None, ["work"], [("work", "work_1")], ["work", ("work_1", "more")])


def _mapped(name: str) -> Any:
    return EmptyOperator.partial(task_id=name).expand(doc=["…"])


def _grouped(name: str) -> Any:
    @task_group(group_id=f"{name}_group", prefix_group_id=False)
    def inner(_: str) -> None:
        with TaskGroup(f"{name}_inner", prefix_group_id=False):
            EmptyOperator(task_id=name)

    return inner.expand(_=["…"])


def _plain(name: str) -> Any:
    return EmptyOperator(task_id=name)


KINDS = (_plain, _mapped, _grouped)


@cache
def shapes() -> tuple[DAG, ...]:
    """All DAGs: a plain capture and three tasks of each kind in a row, and a mapped group with a task outside of it."""
    chains = [
        _plain_capture(f"chain{number}", require, *(KINDS[number // 3**place % 3] for place in range(3)))
        for number in range(27)
        for require in REQUIRE[number % 2 :: 2]
    ]
    return (*chains, *(_mapped_capture(f"group{number}", KINDS[number]) for number in range(3)))


def _plain_capture(dag_id: str, require: Any, *kinds: Callable[[str], Any]) -> DAG:
    with DAG(dag_id, schedule=None) as dag:
        capture = IpCaptureOperator(task_id="capture", source_tables="db.t")
        first, second, third = (kind(name) for kind, name in zip(kinds, ("work", "work_1", "more"), strict=True))
        commit = IpCommitOperator(task_id="commit", capture=capture, require=require, trigger_rule="all_done")
        capture >> first >> second >> third >> commit
    return dag


def _mapped_capture(dag_id: str, outside: Callable[[str], Any]) -> DAG:
    with DAG(dag_id, schedule=None) as dag:
        beside = outside("beside")

        @task_group
        def one(table: str) -> None:
            capture = IpCaptureOperator(task_id="capture", source_tables=table)
            with TaskGroup("inner"):
                work = EmptyOperator(task_id="work")
            commit = IpCommitOperator(task_id="commit", capture=capture, trigger_rule="all_done")
            capture >> work >> commit
            capture >> beside >> commit

        one.expand(table=["…"])
    return dag


def runs(seed: int, count: int) -> Iterator[EvidenceRun]:
    """Random runs that were scheduled in part, cleared in part, with lists that got shorter and longer."""
    for number in range(count):
        random = Random(seed * 1_000_003 + number)  # noqa: S311 - histories, not secrets
        dag = random.choice(shapes())
        run = EvidenceRun(dag, {}, random)
        names = {name for task_id in run.states if (name := run.expansion(task_id))}
        run.lists = {name: random.randint(0, 3) for name in sorted(names)}
        run.schedule(random.choice((3, 9, 9, 9)))
        for _ in range(random.randint(0, 3)):
            _clear_something(run)
            run.schedule(random.choice((3, 9, 9, 9)))
        yield run


def _clear_something(run: EvidenceRun) -> None:
    """A list changes only where what is expanded over it is cleared: its producer is, with all downstream tasks."""
    task_id = run.random.choice(list(run.states))
    name = run.expansion(task_id)
    if run.random.random() < 0.5:
        run.clear(task_id, run.random.choice(list(run.states[task_id])), downstream=run.random.random() < 0.5)
    else:
        run.clear("capture" if "capture" in run.states else "one.capture", None, downstream=True)
        if name is not None:
            run.lists[name] = run.random.randint(0, 3)


def broken(run: EvidenceRun) -> str | None:
    """Say how a run breaks the law; None if it does not. Each of its commits is tried, whatever its trigger rule."""
    for commit, index in commits(run):
        missing = [f"{name}[{at}]" for name, at in _part(run, commit, index) if (name, at) not in run.done]
        try:
            demand_evidence(run.context(commit, index), commit, None)  # type: ignore[arg-type]
        except EvidenceError as refusal:
            if all(run.states[name][at] == "success" for name, at in _part(run, commit, index)):
                return f"{commit.task_id}[{index}] is refused, though everything succeeded: {refusal}"
        else:
            if missing and not _is_replaced(run, commit, missing):
                return f"{commit.task_id}[{index}] moves the checkpoint without {missing}: {run.states}"
    return None


def _part(run: EvidenceRun, commit: Any, index: int) -> list[tuple[str, int]]:
    """The instances that had a part in what one commit commits."""
    capture = run.dag.task_dict[commit.capture_task_id]
    between = commit.required_task_ids or dag_graph.tasks_between(capture, commit)
    found = []
    for name in (capture.task_id, *between):
        same = run.share_index(name, commit.task_id)
        found += [(name, index)] if same else [(name, at) for at in run.states[name]]
    return [(name, at) for name, at in found if at in run.states[name]]


def _is_replaced(run: EvidenceRun, commit: Any, missing: list[str]) -> bool:
    """Whether another task of its group did the work of each that is missing, in all of its instances."""

    def did_all(name: str) -> bool:
        return all((name, at) in run.done for at in run.states[name])

    is_captured = not any(name.startswith(f"{commit.capture_task_id}[") for name in missing)
    return is_captured and bool(commit.required) and all(any(map(did_all, group)) for group in commit.required)
