"""How a plan and the captures behind it lie in their DAG: each that is to take a chunk has to be given one.

A capture that is given none takes its usual range, and moves a live checkpoint, once for each instance of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.operators import _wiring

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import DAG
    from airflow.sdk.types import Operator

    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable

_SHARED: Final = ("data_operations", "on_other_operation", "on_superset", "equality_deletes")
"""What decides which rows a range has, and so what its chunks are."""


def check_backfills(dag: DAG) -> None:
    """Refuse captures behind a plan that would do something else than was planned."""
    for plan in plans(dag):
        behind = plan.get_flat_relatives(upstream=False)
        for capture in sorted(filter(_wiring.is_capture, behind), key=lambda each: each.task_id):
            if takes_chunk(capture):
                _check_settings(plan, capture)
            elif _is_expanded_over(capture, plan) or not _follows_chunks(dag, capture, plan):
                raise _without_chunk(plan, capture)


def plans(dag: DAG) -> Iterator[Operator]:
    """All tasks that plan a backfill."""
    return (task for task in dag.tasks if _wiring.is_backfill(task))


def takes_chunk(capture: Operator) -> bool:
    """Tell whether a capture is given a chunk. Arguments that are known at run time only may have one."""
    return _is_given_chunk(capture) or (isinstance(capture, MappedOperator) and _expanded(capture) is None)


def refuse_no_chunk(capture: Operator) -> None:
    """Refuse a chunk that came out as nothing: what would be captured then is the usual range."""
    if _is_given_chunk(capture):
        raise InputError(
            f"chunk= of capture {capture.task_id!r} is None in this run",
            consequence="It would take its usual range, and a commit would move the live checkpoint",
            remedy="expand the task group over the output of an IpBackfillOperator, and pass that argument on: "
            "chunk=chunk",
        )


def _is_given_chunk(capture: Operator) -> bool:
    if isinstance(capture, MappedOperator):
        return capture.partial_kwargs.get("chunk") is not None or "chunk" in (_expanded(capture) or {})
    return bool(getattr(capture, "_takes_chunk", False))


def _expanded(capture: MappedOperator) -> Mapping[str, Any] | None:
    """The arguments that it is expanded over; None where they are known at run time only."""
    value: Any = getattr(capture.expand_input, "value", None)
    return value if isinstance(value, Mapping) else None


def _is_expanded_over(capture: Operator, plan: Operator) -> bool:
    group = capture.get_closest_mapped_task_group()
    return group is not None and any(each.task_id == plan.task_id for each in group.iter_mapped_dependencies())


def _follows_chunks(dag: DAG, capture: Operator, plan: Operator) -> bool:
    """Whether chunks of the plan are committed before it: then it is a next stage, and captures what they wrote."""
    planned = plan.get_flat_relative_ids(upstream=False)
    before = capture.get_flat_relative_ids(upstream=True)
    return any(
        commit.task_id in before and commit.capture_task_id in planned and takes_chunk(_wiring.capture_of(commit, dag))
        for commit in _wiring.commits(dag)
    )


def _without_chunk(plan: Operator, capture: Operator) -> InputError:
    return InputError(
        f"capture {capture.task_id!r} lies behind the plan {plan.task_id!r} of a backfill, and takes no chunk of it",
        consequence="It would take its usual range in place of what was planned, and its commit would move the live "
        "checkpoint",
        remedy="pass it the argument that the task group is expanded over: chunk=chunk; a capture of a next stage goes "
        "behind the group that commits the chunks",
    )


def _check_settings(plan: Operator, capture: Operator) -> None:
    planned = next(_sources_of(plan), None)
    if planned is None:
        return
    table, wanted = planned
    for source, settings in _sources_of(capture):
        if (source.table, source.branch) != (table.table, table.branch):
            continue
        for name in _SHARED:
            mine, other = getattr(wanted, name), getattr(settings, name)
            if mine != other:
                raise InputError(
                    f"capture {capture.task_id!r} takes chunks of {source.table!r} with {name}={other!r}, and "
                    f"{plan.task_id!r} plans them with {name}={mine!r}",
                    consequence="What was planned would not be what is captured, or could not be planned",
                    remedy=f'give both the same: SourceTable("{source.table}", {name}={other!r}) as source_table and '
                    "as source_tables",
                )


def _sources_of(task: Operator) -> Iterator[tuple[SourceTable, CaptureSettings]]:
    """What a task says of its sources, where that is known when the file is read."""
    known: Any = getattr(task, "checked_sources", None) or getattr(task, "_checked_sources", None)
    yield from () if known is None else known()
