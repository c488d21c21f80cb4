"""The law of commit evidence over random runs; without a repair, the model finds a run that breaks it."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest

from airflow_provider_ips import dag_graph
from airflow_provider_ips.runs import evidence
from tests.model.evidence_law import broken, runs, shapes

SEED = 16
RUNS = 2_000
ask = evidence._ask


def test_a_checkpoint_moves_only_if_every_task_did_its_part() -> None:
    """`make test-model` plays 20,000."""
    assert [why for run in runs(SEED, RUNS) if (why := broken(run))] == []


def test_all_states_that_airflow_can_leave_occur() -> None:
    seen = {state for run in runs(SEED, RUNS) for states in run.states.values() for state in states.values()}
    assert seen == {None, "success", "failed", "skipped", "upstream_failed", "removed", "running"}
    assert {len(run.states["work"]) for run in runs(SEED, RUNS) if "work" in run.states} == {1, 2, 3}
    assert len({run.dag.dag_id for run in runs(SEED, RUNS)}) == len({dag.dag_id for dag in shapes()})


def without_removed(ti: Any, run: Any, task_ids: list[str], **asked: Any) -> Mapping[str, str | None]:
    """D12: a removed instance was taken for one that was never needed."""
    return {name: state for name, state in ask(ti, run, task_ids, **asked).items() if state != "removed"}


def by_index(task: Any, other: Any) -> bool:
    """D13: in a mapped group, the instance with the same index of a task that is expanded over something else."""
    return other.get_closest_mapped_task_group() is not None


def skipped_is_success(ti: Any, run: Any, task_ids: list[str], **asked: Any) -> Mapping[str, str | None]:
    """What `none_failed` takes for success."""
    answer = ask(ti, run, task_ids, **asked)
    return {name: "success" if state == "skipped" else state for name, state in answer.items()}


def by_object(task: Any, other: Any) -> bool:
    """A mapped group may be known to a task in a group within it by a proxy, which is never the same object."""
    group = task.get_closest_mapped_task_group()
    return group is not None and group is other.get_closest_mapped_task_group()


@pytest.mark.parametrize(
    ("home", "name", "planted", "said"),
    [
        (evidence, "_ask", without_removed, "moves the checkpoint without"),
        (dag_graph, "shares_index", by_index, "moves the checkpoint without"),
        (evidence, "_ask", skipped_is_success, "moves the checkpoint without"),
        (dag_graph, "shares_index", by_object, "is refused, though everything succeeded"),
    ],
    ids=["D12", "D13", "skipped", "groups in groups"],
)
def test_the_model_finds_what_was_wrong(home: Any, name: str, planted: Any, said: str) -> None:
    with patch.object(home, name, planted):
        assert any(said in why for run in runs(SEED, RUNS) if (why := broken(run)))
