"""Whether the captures of one DAG file fit what is upstream of them: another stage, or the plan of a backfill.

    stage 1 captures changes of raw, and merges them into staged
    stage 2 captures appends of staged      refused: it would fail on the first merge

    plan >> chunk group: capture(chunk=chunk) >> job >> commit      right
    plan >> chunk group: capture() >> job >> commit                 refused: each instance takes the usual range, and
                                                                    the first to commit moves the live checkpoint

Stages in different files are compared by ``airflow ips doctor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_ips import dag_graph
from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow.sdk import DAG
    from airflow.sdk.types import Operator

    from airflow_provider_ips.core.identifiers import Source
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable


_CAPTURES_CHANGES: Final = "captures changes, which it can only write there by changing rows"
_SAYS_SO: Final = "says that its job changes rows there"
_BACKFILLS: Final = "backfills it, which rewrites rows that are there"
_SAME_ROWS: Final = ("data_operations", "on_other_operation", "on_superset", "equality_deletes")
"""The settings that decide which rows a range has, and so what its chunks are."""


def check_stages(dags: Sequence[DAG]) -> None:
    """Refuse a capture of appends from a table that another stage of these DAGs declares as changed."""
    changed = {table: (stage, reason) for dag in dags for table, stage, reason in _changed_tables(dag)}
    for name, source, settings in _captured_sources(dags):
        stage, reason = changed.get(source.source, (None, ""))
        if stage is None or stage == name or settings.captures_changes or settings.on_other_operation == "skip":
            continue
        raise InputError(
            f"{name} captures the appends of {source.table!r} only, and {stage} before it {reason}",
            consequence="Its captures would fail on the first merge, and rows that were corrected would never reach it",
            remedy='set data_operations=("append", "overwrite", "delete") there; if the stage before it only appends, '
            'say so by on_other_operation="skip"',
        )


def _changed_tables(dag: DAG) -> Iterator[tuple[Source, str, str]]:
    """The tables in which stages change rows, with the stage, and how that is known."""
    for plan in dag_graph.backfill_plans(dag):
        for table in dag_graph.backfill_targets(plan):
            yield table, f"{dag.dag_id}.{plan.task_id}", _BACKFILLS
    for pair in dag_graph.pairs(dag):
        captures_changes = any(settings.captures_changes for _, settings in dag_graph.checked_sources(pair.capture))
        if pair.commit.target_changes or captures_changes:
            for table in dag_graph.commit_targets(pair.commit):
                reason = _SAYS_SO if pair.commit.target_changes else _CAPTURES_CHANGES
                yield table, f"{dag.dag_id}.{pair.capture.task_id}", reason


def _captured_sources(dags: Iterable[DAG]) -> Iterator[tuple[str, SourceTable, CaptureSettings]]:
    """What captures take on their own. Chunks are captured by a plan, which knows what changed."""
    for dag in dags:
        for task in dag.tasks:
            if dag_graph.is_capture(task) and not dag_graph.may_take_chunk(task):
                for source, settings in dag_graph.checked_sources(task):
                    yield f"{dag.dag_id}.{task.task_id}", source, settings


def check_backfill_groups(dag: DAG) -> None:
    """Refuse captures downstream of a plan that would do something else than was planned."""
    for plan in dag_graph.backfill_plans(dag):
        downstream = plan.get_flat_relatives(upstream=False)
        for capture in sorted(filter(dag_graph.is_capture, downstream), key=lambda task: task.task_id):
            if dag_graph.may_take_chunk(capture):
                _check_settings(plan, capture)
            elif _is_expanded_over(capture, plan) or not _is_next_stage(dag, capture, plan):
                raise _without_chunk(plan, capture)


def refuse_no_chunk(capture: Operator) -> None:
    """Refuse a ``chunk=`` that is None when the capture runs: it would take the usual range."""
    if dag_graph.is_given_chunk(capture):
        raise InputError(
            f"chunk= of capture {capture.task_id!r} is None in this run",
            consequence="It would take its usual range, and a commit would move the live checkpoint",
            remedy="expand the task group over the output of an IpBackfillOperator, and pass that argument on: "
            "chunk=chunk",
        )


def _is_expanded_over(capture: Operator, plan: Operator) -> bool:
    group = capture.get_closest_mapped_task_group()
    return group is not None and any(task.task_id == plan.task_id for task in group.iter_mapped_dependencies())


def _is_next_stage(dag: DAG, capture: Operator, plan: Operator) -> bool:
    """Whether chunks of the plan are committed before the capture, which then captures what they wrote."""
    downstream = plan.get_flat_relative_ids(upstream=False)
    upstream = capture.get_flat_relative_ids(upstream=True)
    return any(
        pair.commit.task_id in upstream
        and pair.capture.task_id in downstream
        and dag_graph.may_take_chunk(pair.capture)
        for pair in dag_graph.pairs(dag)
    )


def _without_chunk(plan: Operator, capture: Operator) -> InputError:
    return InputError(
        f"capture {capture.task_id!r} is downstream of the plan {plan.task_id!r} of a backfill, and takes no chunk of "
        "it",
        consequence="It would take its usual range in place of what was planned, and its commit would move the live "
        "checkpoint",
        remedy="pass it the argument that the task group is expanded over: chunk=chunk; a capture of a next stage goes "
        "downstream of the group that commits the chunks",
    )


def _check_settings(plan: Operator, capture: Operator) -> None:
    planned = next(iter(dag_graph.checked_sources(plan)), None)
    if planned is None:
        return
    table, planned_settings = planned
    for source, settings in dag_graph.checked_sources(capture):
        if source.source != table.source:
            continue
        for name in _SAME_ROWS:
            expected, given = getattr(planned_settings, name), getattr(settings, name)
            if given != expected:
                raise InputError(
                    f"capture {capture.task_id!r} takes chunks of {source.table!r} with {name}={given!r}, and "
                    f"{plan.task_id!r} plans them with {name}={expected!r}",
                    consequence="What was planned would not be what is captured, or could not be planned",
                    remedy=f'give both the same: SourceTable("{source.table}", {name}={given!r}) as source_table and '
                    "as source_tables",
                )
