"""Whether a run may capture now: its checkpoint may be elsewhere, another run active, or its job have begun.

refuse_lost_checkpoint       a first run whose consumer had a checkpoint under another name or in another store
refuse_or_await_backfill     a backfill in chunks writes what the job of a detached run is going to write
refuse_or_await_active_run   another run of the consumer has captured, and may still write
refuse_if_set_back           a table shows that the consumer's checkpoint is not the newest one
refuse_if_overtaken          a cleared run whose request is older than what was committed since
refuse_if_work_has_begun     a new range in a run whose job has begun with the former one
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_ips import compat, dag_graph
from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.checkpoints.variable import VariableStore
from airflow_provider_ips.core.backfill.claims import Extent, capture_conflict_error
from airflow_provider_ips.core.backfill.column_values import ChunkValues
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import PendingCapture, is_made_by
from airflow_provider_ips.core.checkpoint.store import CheckpointStore
from airflow_provider_ips.core.errors import CheckpointConflictError, EvidenceError, IpsError
from airflow_provider_ips.core.identifiers import SHOWN_WHOLE, Source, name_digest, readable
from airflow_provider_ips.core.requests import detached
from airflow_provider_ips.core.requests.request import RunKind
from airflow_provider_ips.runs import environment
from airflow_provider_ips.runs.active_runs import Activity, active_run_error, activity_of, is_queued_after
from airflow_provider_ips.runs.capture_steps import PlannedSource
from airflow_provider_ips.runs.claims import fail_or_wait, open_claims, unnamed_target
from airflow_provider_ips.runs.environment import open_named_store
from airflow_provider_ips.runs.evidence import BEGUN, ENDED, named_targets, newer_stamp, task_states
from airflow_provider_ips.runs.request import BRANCH, RANGE, CaptureRequest

if TYPE_CHECKING:
    from airflow.sdk import DAG, Context
    from pyiceberg.catalog import Catalog


log = logging.getLogger(__name__)


def refuse_lost_checkpoint(
    context: Context, request: CaptureRequest, store: CheckpointStore, *, has_default_consumer: bool
) -> None:
    """Refuse a first run where the consumer seems to have had a checkpoint under another name or in another store."""
    _refuse_if_kept_elsewhere(store, request)
    if has_default_consumer:
        _refuse_if_renamed(store, context["dag"], context["task"].task_id, request)


def _refuse_if_renamed(store: CheckpointStore, dag: DAG, task_id: str, request: CaptureRequest) -> None:
    """Refuse a full first run if a task that this DAG no longer has captured the same sources.

    The default consumer has the task's id in its name. One that was named explicitly survives a renaming.
    """
    if not any(settings.start.kind == "full" for _, settings in request.sources):
        return
    prefix, suffix = f"{dag.dag_id}.", request.consumer.removeprefix(f"{dag.dag_id}.{task_id}")
    present = {name_digest(f"{prefix}{task}{suffix}") for task in dag.task_dict}
    start = f"{readable(prefix, limit=SHOWN_WHOLE)}_"[:SHOWN_WHOLE]
    end = readable(suffix, limit=SHOWN_WHOLE).removeprefix("t_") if suffix else ""

    def may_be_former(shown: str, digest: str) -> bool:
        """Read no document of others than tasks that are missing: a store may have thousands."""
        is_whole = len(shown) < SHOWN_WHOLE
        is_ours = shown.startswith(start) and (not is_whole or shown.endswith(end))
        if digest in present or (shown and not is_ours):
            return False
        others = _of_other_dags(dag.dag_id, shown.removeprefix(start).removesuffix(f"_{end}" if end else ""))
        return all(name_digest(f"{other}{suffix}") != digest for other in others)

    for other in store.consumers(is_wanted=may_be_former):
        former = other.removeprefix(prefix).removesuffix(suffix)
        if f"{prefix}{former}{suffix}" != other or former in dag.task_dict or not _reads(store, other, request):
            continue
        raise CheckpointConflictError(
            f"task {task_id!r} of DAG {dag.dag_id!r} has no checkpoint, consumer {other!r} has one for its tables, "
            f"and the DAG has no task {former!r} any more",
            consequence="If the task was renamed, a first run would process the whole tables again",
            remedy=f"set consumer={other!r} to go on from there, or another consumer name to start from the beginning",
        )


def _of_other_dags(dag_id: str, rest: str) -> Iterator[str]:
    """Name consumers of other DAGs that a readable name may show: `etl_1_capture` is of the DAG etl, etl_1 or etl-1.

    If the digest is that of such a consumer, its document need not be read. With a dot, `etl.1.capture` could as well
    be a task of etl in the task group 1; its document says which.
    """
    words = rest.split("_")
    for joint in ("_", "-"):
        for at in range(1, len(words)):
            yield f"{joint.join((dag_id, *words[:at]))}.{'_'.join(words[at:])}"


def _reads(store: CheckpointStore, consumer: str, request: CaptureRequest) -> bool:
    """Tell whether a consumer reads the same sources, and runs of this DAG, as far as they are known, captured them."""
    checkpoint = store.read(consumer, even_if_moved=True)
    mine = {table.source for table, _ in request.sources}
    if checkpoint is None or mine != {p.source for p in checkpoint.positions}:
        return False
    dags = {capture.run.dag_id for capture in checkpoint.captures if capture.run is not None}
    return not dags or request.run.dag_id in dags


def _refuse_if_kept_elsewhere(store: CheckpointStore, request: CaptureRequest) -> None:
    """Refuse a first run in one store while the other one holds the consumer's checkpoint.

    A deployment that has never used the Iceberg store need not be able to open it, so failing there is only logged.
    Where an Airflow cannot use one of the stores, nothing has ever been written there.
    """
    here = "iceberg" if isinstance(store, IcebergStore) else "variable" if isinstance(store, VariableStore) else ""
    there = next((name for name in compat.USABLE_STORES if name != here), None)
    if not here or there is None:
        return
    consumer = request.consumer
    try:
        kept = open_named_store(there, iceberg_conn_id=request.iceberg_conn_id)
        found = kept.read(consumer, even_if_moved=True)
    except IpsError as error:
        if there == "variable":
            raise
        log.warning("It is not known whether consumer %s has a checkpoint in Iceberg: %s", consumer, error)
        return
    if found is None:
        return
    raise CheckpointConflictError(
        f"consumer {consumer!r} has no checkpoint in the store {here!r}, and one in {there!r}",
        consequence="As a new consumer it would process its whole tables again",
        remedy=f"to go on from there in {here!r}, `airflow ips move --consumer {consumer} --to {here}`; to stay with "
        f"{there!r}, set [ips] checkpoint_store={there}; to start from the beginning, `airflow ips seed`",
    )


def refuse_or_await_active_run(
    context: Context, request: CaptureRequest, checkpoint: Checkpoint | None, *, waits: bool
) -> None:
    """Fail or wait while another run may still write what it captured: a pending capture, a replay, or a refresh."""
    refreshes = () if checkpoint is None else (c for c in checkpoint.uncommitted if c.refreshes)
    begun = () if checkpoint is None else (checkpoint.pending, checkpoint.replaying, *refreshes)
    for capture in begun:
        if capture is not None and not is_made_by(capture, request.run, request.task_id):
            _refuse_or_await(context, request, capture, waits=waits)


def _refuse_or_await(context: Context, request: CaptureRequest, pending: PendingCapture, *, waits: bool) -> None:
    if pending.run.is_of_run(request.run):
        raise CheckpointConflictError(
            f"another task instance of run {request.run} has captured for consumer {request.consumer!r} and not "
            "committed",
            consequence="Both would process the same rows, and one commit would move the checkpoint for both",
            remedy="give each capture, and each instance of a mapped one, its own consumer: the default tells "
            "instances apart only by their sources. If the table came to another instance because a list has changed, "
            "start a new run",
        )
    is_elsewhere = pending.run.deployment not in (None, request.run.deployment)
    dag = context["dag"] if pending.run.dag_id == context["dag"].dag_id else None
    activity = (
        None
        if is_elsewhere
        else activity_of(context["ti"], pending.run, mine=request.run, dag=dag, capture_task_id=pending.task_id)
    )
    if activity is Activity.ENDED:
        return
    if waits and not is_queued_after(context, pending.run):
        log.info("Run %s captured for %s and may still write: waiting for it.", pending.run, request.consumer)
        environment.come_back_later()
    raise active_run_error(request, pending, activity)


def refuse_if_set_back(
    context: Context, request: CaptureRequest, catalog: Catalog, checkpoint: Checkpoint | None
) -> None:
    """Refuse to capture where a table shows that the consumer has captured since its checkpoint was written.

    It was an older one that was restored, or it was lost. What captures have made shows it, and stamps in the targets;
    of a range there is nothing to find.
    """
    known = set[str]() if checkpoint is None else checkpoint.known_tables
    after_ms = 0 if checkpoint is None else checkpoint.changed_at_ms
    if request.mode == BRANCH and (found := _newer_branch(request, catalog, known, after_ms)):
        others = f"if all is right, remove {found} by drop_icdc; if another Airflow makes such branches, give each its "
        raise _set_back(request, checkpoint, f"has made {found}", others + "own consumer")
    if request.mode not in (BRANCH, RANGE) and (found := _newer_table(request, catalog, known, after_ms)):
        others = f"if all is right, drop {found} without purging; if another Airflow makes such tables, give each its "
        raise _set_back(request, checkpoint, f"has made ICDC table {found}", others + "own icdc_namespace or consumer")
    targets = named_targets(context, iceberg_conn_id=request.iceberg_conn_id)
    stamped = newer_stamp(targets, catalog, request.consumer, checkpoint)
    if stamped is not None:
        others = "the record of that capture says where its range ended; if another Airflow writes there, too, give "
        evidence = f"has written to {stamped[0]} with capture {stamped[1]}"
        raise _set_back(request, checkpoint, evidence, others + "each its own consumer")


def _newer_table(request: CaptureRequest, catalog: Catalog, known: set[str], after_ms: int) -> str | None:
    from airflow_provider_ips.iceberg.icdc.leftovers import find_newer_table

    sources = [table.source for table, _ in request.sources]
    namespace = request.icdc_namespace
    return find_newer_table(catalog, namespace, request.consumer, sources, known=known, after_ms=after_ms)


def _newer_branch(request: CaptureRequest, catalog: Catalog, known: set[str], after_ms: int) -> str | None:
    from airflow_provider_ips.iceberg.branches.leases import find_branches
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source

    for table in sorted({table.table for table, _ in request.sources}):
        for found in find_branches(table, open_source(catalog, Source(table)).metadata):
            is_theirs = found.consumer == request.consumer and not found.is_detached
            if is_theirs and found.made_at_ms > after_ms and found.name not in known:
                return found.name
    return None


def _set_back(
    request: CaptureRequest, checkpoint: Checkpoint | None, evidence: str, others: str
) -> CheckpointConflictError:
    way = "`airflow ips seed`" if checkpoint is None else "`airflow ips reset` and `airflow ips seed`"
    return CheckpointConflictError(
        f"consumer {request.consumer!r} {evidence}, which is newer than its checkpoint",
        consequence="If an older checkpoint was restored, or it was lost, rows would be processed again or skipped",
        remedy=f"restore the newest one; or pause the DAG and set the position with {way}; {others}",
    )


def refuse_if_overtaken(context: Context, request: CaptureRequest, checkpoint: Checkpoint | None) -> None:
    """Refuse a cleared run whose request is older than what was committed since, unless it captures current rows."""
    if request.run_request.kind is not RunKind.USUAL and request.clear_number is None:
        is_cleared = environment.clear_number(context) > 0
        detached.refuse_if_overtaken(checkpoint, request.run, request.run_request, is_cleared=is_cleared)


def refuse_if_work_has_begun(context: Context) -> None:
    """Refuse a new range in a run whose job has begun: its success would count for rows that it never read.

    That happens if the capture is cleared without its downstream tasks and cannot repeat its range, and if a trigger
    rule lets the job start without waiting for the capture.
    """
    # All tasks in between, not only the required ones: a required task may read what another one has written.
    begun = {task: state for task, state in _work_states(context).items() if state in BEGUN}
    if not begun:
        return
    capture = context["task"]
    listed = ", ".join(f"{name!r} is {state}" for name, state in sorted(begun.items()))
    raise EvidenceError(
        f"{capture.task_id!r} has a new range to capture in run {context['run_id']}, whose work has begun before: "
        f"{listed}",
        consequence="Its success would count for rows that it has not read, and they would be lost",
        remedy=f"clear {capture.task_id!r} together with its downstream tasks; if none was cleared, let them wait for "
        "the capture by their trigger rule",
    )


def has_work_ahead(context: Context) -> bool:
    """Tell whether a job or a commit will run after this capture. If it alone was cleared, all have ended."""
    return any(state not in ENDED for state in _work_states(context, with_commit=True).values())


def _work_states(context: Context, *, with_commit: bool = False) -> dict[str, str | None]:
    dag = context["dag"]
    capture = dag.task_dict[context["task"].task_id]
    commit = dag_graph.commit_of(capture.task_id, dag)
    if commit is None:
        return {}
    return task_states(context, [*dag_graph.tasks_between(capture, commit), *([commit.task_id] if with_commit else ())])


def refuse_or_await_backfill(
    context: Context, request: CaptureRequest, sources: Sequence[PlannedSource], *, waits: bool
) -> None:
    """Fail or wait while a backfill writes the same part of a target. A chunk has the claims of its own plan."""
    if request.chunk is not None or all(source.plan.is_empty for source in sources):
        return
    claims, extent = open_claims(context, request.iceberg_conn_id), _extent_of(request, sources)
    # Airflow's own backfill makes many runs, which no one watches one by one, so they wait as well.
    waits = waits or context["dag_run"].run_type == "backfill"
    for target in _targets_of(context):
        conflicting = claims.find_conflict(target, request.run, extent)
        if conflicting is not None:
            # Other runs may be waiting for what a plan of this run has claimed. If it waited for them, none would end.
            waits = waits and not claims.has_claimed(target, request.run)
            fail_or_wait(context, conflicting, capture_conflict_error(extent, conflicting), waits=waits)


def _targets_of(context: Context) -> Sequence[str]:
    """Name what the capture's job writes, as far as the commit says."""
    found = named_targets(context)
    if not found:
        log.warning(
            "No target is known: backfills of other DAGs that write the same table at the same time are not noticed. "
            "Name it at the commit, by verify_target or target_assets"
        )
    return sorted(target.full_label for target in found) or [unnamed_target(context["dag"].dag_id)]


def _extent_of(request: CaptureRequest, sources: Sequence[PlannedSource]) -> Extent:
    """Return the values of the column by which a backfill of the same partitions would be cut.

    A range and a refresh may reach any row of the target. A plan has one source, so several sources cannot be compared
    with any.
    """
    from airflow_provider_ips.iceberg.partitions.backfill_units import chunk_column, units_of

    if len(sources) > 1:
        return Extent(source=None, column=None, spans=None)
    (source,) = sources
    is_of_partitions = request.run_request.kind is RunKind.PARTITIONS
    column = chunk_column(source.history, request.run_request.partitions, None) if is_of_partitions else None
    if column is None:
        return Extent(source=source.table.source, column=None, spans=None)
    units = units_of(source.history, source.plan, column)
    values = ChunkValues.of([unit.values for unit in units if unit.values is not None], column=column, field_id=None)
    return Extent(source=source.table.source, column=column, spans=values.comparable_ends)
