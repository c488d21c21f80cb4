"""Two task instances of one run that share a consumer: what each of them may capture."""

from dataclasses import replace

import pytest

from airflow_provider_ips.core.checkpoint.resolution import Fresh, Replay, resolve_capture
from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.positions import RunIdentity
from tests.core.test_transitions import EVENTS, USERS, Pipeline


def instance(index, *, day=1):
    return RunIdentity(dag_id="daily", run_id=f"day {day}", map_index=index, run_after=f"2026-11-{day:02d}")


def test_an_instance_is_refused_the_source_that_another_one_of_its_run_has_committed():
    """It would find nothing, and its own target would never get those rows."""
    daily = Pipeline()
    daily.commit(daily.capture(instance(0), events=10))

    with pytest.raises(CheckpointConflictError, match=r"another task instance of run daily/day 1\[1\] has committed"):
        resolve_capture(daily.document, instance(1), "capture", [EVENTS])

    assert isinstance(resolve_capture(daily.document, instance(0), "capture", [EVENTS]), Replay)
    assert isinstance(resolve_capture(daily.document, instance(1, day=2), "capture", [EVENTS]), Fresh)


def test_an_instance_may_capture_the_sources_that_another_one_has_not():
    daily = Pipeline()
    daily.commit(daily.capture(instance(0), events=10))

    assert isinstance(resolve_capture(daily.document, instance(1), "capture", [USERS]), Fresh)


def test_another_task_is_refused_the_same_source_as_well():
    daily = Pipeline()
    captured = daily.capture(instance(-1), events=10, users=10)
    assert daily.document is not None
    daily.document = replace(daily.document, pending=replace(captured, task_id="one"))
    daily.commit(captured)

    with pytest.raises(CheckpointConflictError, match="has committed the same source"):
        resolve_capture(daily.document, instance(-1), "two", [USERS])


def test_an_instance_is_refused_though_the_other_one_had_nothing_to_process():
    """Rows that came since would reach the target of one of them only."""
    daily = Pipeline()
    daily.commit(daily.capture(instance(0), events=10))
    daily.settle(instance(0, day=2), events=20)

    with pytest.raises(CheckpointConflictError, match="has committed the same source"):
        resolve_capture(daily.document, instance(1, day=2), "capture", [EVENTS])
