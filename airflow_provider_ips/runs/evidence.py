"""The evidence that a commit demands: every task between capture and commit succeeded, and the target was written.

A trigger rule is not evidence. ``all_done`` runs a commit after failures, ``none_failed`` after skipped tasks, and each
of them would move the checkpoint past rows that were not processed.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from airflow_provider_ips import dag_graph
from airflow_provider_ips.core.errors import EvidenceError, IpsError
from airflow_provider_ips.core.identifiers import Source, TableIdentifier
from airflow_provider_ips.runs import environment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from airflow.sdk import DAG, Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint.document import Checkpoint
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.core.results.capture_record import CaptureRecord, TargetHead
    from airflow_provider_ips.dag_graph import CommitTask


log = logging.getLogger(__name__)

STAMP: Final = "stamp"
MOVED_HEAD: Final = "moved_head"
TARGET_EVIDENCE: Final = (STAMP, MOVED_HEAD)
"""A stamp names the capture. A head moves with every writer; it is for jobs that cannot stamp their snapshots."""

SUCCESS: Final = "success"
REMOVED: Final = "removed"
BEGUN: Final = (SUCCESS, "running", "deferred", "up_for_reschedule", "awaiting_input")
"""States of a task that has started, or has ended well, and does not start again on its own."""

ENDED: Final = (SUCCESS, "failed", "skipped", "upstream_failed", REMOVED)
"""States of a task that does not run again on its own."""

_NEXT_STEP: Final = {
    "skipped": "if its work is not needed for this commit, name the tasks that are by require=[…]; else clear it",
    "upstream_failed": "repair and clear the task before it that failed",
    "failed": "repair and clear it; the commit runs after it",
    REMOVED: "clear the run from the capture on; if Airflow removes it again, because a list that tasks are expanded "
    "over is shorter now, start a new run: it captures the same rows",
    None: "clear the run from the capture on: this task is not part of it yet",
}


def demand_evidence(context: Context, commit: CommitTask, record: CaptureRecord) -> None:
    """Raise unless the captured rows were processed, as far as Airflow and the target show."""
    dag, run_id = context["dag"], context["run_id"]
    capture = dag.task_dict[commit.capture_task_id]
    tasks = commit.required_task_ids or dag_graph.tasks_between(capture, commit)
    if not tasks:
        log.warning(
            "No task lies between %s and this commit: nothing shows that the rows were processed.", capture.task_id
        )
    states = task_states(context, [capture.task_id, *tasks])
    demand_success(without_alternatives(states, commit.required), run_id=run_id, commit=commit.task_id)
    if commit.verify_target:
        _demand_written(commit.verify_target, record, evidence=commit.target_evidence)
    elif dag_graph.argument(dag.task_dict[commit.task_id], "verify_target") is not None:
        raise EvidenceError(
            f"verify_target of {commit.task_id!r} renders to {commit.verify_target!r}",
            consequence="It is not known which table has to show that the captured rows were written",
            remedy="let the template name the job's target in every run, or leave verify_target out",
        )


def demand_success(states: Mapping[str, str | None], *, run_id: str, commit: str) -> None:
    """Raise if any task has not succeeded, with what to do about the first."""
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


def without_alternatives(states: Mapping[str, str | None], groups: Iterable[Collection[str]]) -> dict[str, str | None]:
    """Leave out tasks that have ended without success where another task of their group succeeded.

    Each group is judged on its own, and what one of them requires is required:

        require=[("a", "b"), ("b", "c")]   a succeeded, b and c failed: the second group requires b and c
    """
    instances = [{task: [name for name in states if _is_instance(name, task)] for task in group} for group in groups]
    grouped = {name for group in instances for names in group.values() for name in names}
    demanded = {name: state for name, state in states.items() if name not in grouped}
    for group in instances:
        is_satisfied = any(names and all(states[name] == SUCCESS for name in names) for names in group.values())
        for name in (name for names in group.values() for name in names):
            if not (is_satisfied and states[name] in ENDED):
                demanded[name] = states[name]
    return demanded


def _is_instance(name: str, task_id: str) -> bool:
    return name == task_id or (name.startswith(f"{task_id}[") and name.endswith("]"))


def task_states(context: Context, task_ids: Iterable[str]) -> dict[str, str | None]:
    """Ask Airflow for the states of tasks. Instances are named as the UI does: ``<task_id>[<map_index>]``."""
    run, own = environment.run_identity(context), context["task"].task_id
    found = instance_states(context["ti"], context["dag"], run, own, task_ids)
    return {task_id if index < 0 else f"{task_id}[{index}]": state for (task_id, index), state in found.items()}


def instance_states(
    ti: RuntimeTaskInstanceProtocol, dag: DAG, run: RunIdentity, own: str, task_ids: Iterable[str]
) -> dict[tuple[str, int], str | None]:
    """Ask Airflow for the states of all instances of tasks in a run, by task id and index, removed ones included.

    An index is not an identity: the index of the run says which instance did its part only in the mapped task group of
    the task ``own``. Of a task that is expanded over anything else, every instance is part of the answer.
    """
    found: dict[tuple[str, int], str | None] = {}
    plain: list[str] = []
    for task_id in task_ids:
        task = dag.task_dict[task_id]
        # Airflow answers with `<task_id>_<map_index>` for instances, which may be the id of another task.
        if dag_graph.is_expanded(task):
            map_index = run.map_index if dag_graph.shares_index(task, dag.task_dict[own]) else None
            answer = _ask(ti, run, [task_id], map_index=map_index) or {task_id: None}
            found.update({(task_id, int(name.removeprefix(task_id)[1:] or -1)): answer[name] for name in answer})
        else:
            plain.append(task_id)
    if plain:
        answer = _ask(ti, run, plain)
        found.update({(task_id, -1): answer.get(task_id) for task_id in plain})
    return found


def _ask(
    ti: RuntimeTaskInstanceProtocol, run: RunIdentity, task_ids: list[str], *, map_index: int | None = None
) -> Mapping[str, str | None]:
    answer = ti.get_task_states(dag_id=run.dag_id, run_ids=[run.run_id], task_ids=task_ids, map_index=map_index)
    states: Mapping[str, str | None] = answer.get(run.run_id, {})
    return states


def target_to_move(context: Context) -> str | None:
    """Return the target whose head has to have moved before the commit of this capture; None if there is none."""
    commit = dag_graph.commit_of(context["task"].task_id, context["dag"])
    if commit is None or not commit.verify_target or commit.target_evidence != MOVED_HEAD:
        return None
    table: str = context["task"].render_template(commit.verify_target, context)
    return table


def target_heads(table: str | None, catalog: Catalog) -> tuple[TargetHead, ...]:
    """Look up the head of a target."""
    from airflow_provider_ips.core.results.capture_record import TargetHead
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source_if_exists

    if table is None:
        return ()
    target = open_source_if_exists(catalog, Source(table))
    head = None if target is None or target.head is None else target.head.snapshot_id
    return (TargetHead(table=table, snapshot_id=head),)


def named_targets(context: Context, *, iceberg_conn_id: str | None = None) -> set[Source]:
    """List the targets that the commit of this capture names, those by a template included.

    :param iceberg_conn_id: only tables in the catalog of this connection, which is that of the capture
    """
    commit = dag_graph.commit_of(context["task"].task_id, context["dag"])
    if commit is None:
        return set()
    found = set(dag_graph.commit_targets(commit, iceberg_conn_id=iceberg_conn_id))
    if dag_graph.is_template(commit.verify_target):
        with suppress(Exception):  # it may need what only the job will push
            name = str(context["task"].render_template(commit.verify_target, context))
            TableIdentifier.parse(name)
            found.add(Source(name))
    return found


def newer_stamp(
    targets: Iterable[Source], catalog: Catalog, consumer: str, checkpoint: Checkpoint | None
) -> tuple[Source, str] | None:
    """Find a target with rows of a capture that the consumer made later than its checkpoint was written."""
    from airflow_provider_ips.core.advice.target_evidence import stamp_since
    from airflow_provider_ips.core.checkpoint.resolution import consumer_mark  # not needed to parse a DAG file
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source_if_exists

    mark, known = consumer_mark(consumer), set() if checkpoint is None else checkpoint.known_ids
    for name in sorted(targets):
        try:
            target = open_source_if_exists(catalog, name)
        except IpsError as error:
            log.warning("It is not known whether %s has newer rows of consumer %s: %s", name, consumer, error)
            continue
        stamp = target and stamp_since(
            target, mark, known=known, after_ms=checkpoint.changed_at_ms if checkpoint else 0
        )
        if stamp:
            return name, stamp
    return None


def _demand_written(table: str, record: CaptureRecord, *, evidence: str) -> None:
    """Ask the target itself: a task may succeed without writing, or write elsewhere."""
    from airflow_provider_ips.core.advice.target_evidence import require_moved_head, require_stamp
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source

    heads = {head.table: head.snapshot_id for head in record.context.target_heads}
    if evidence == MOVED_HEAD and table not in heads:
        raise EvidenceError(
            f"the record of the capture does not have the head of {table}",
            consequence="It is not known whether its head has moved since",
            remedy="clear the capture: it records the head of the verify_target that the DAG has now",
        )
    target = open_source(environment.open_catalog(record.context.iceberg_conn_id), Source(table))
    if evidence == MOVED_HEAD:
        require_moved_head(target, record.capture_id, head_before=heads[table])
    else:
        require_stamp(target, record.capture_id)
