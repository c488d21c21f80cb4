"""One execution of an IpCaptureOperator: what it reads, refuses and captures, in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_ips import dag_graph
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.resolution import Fresh, Replay, Retry, resolve_capture
from airflow_provider_ips.core.checkpoint.store import CheckpointStore
from airflow_provider_ips.core.results.capture_record import CaptureRecord, FirstRun
from airflow_provider_ips.runs import environment, preconditions
from airflow_provider_ips.runs.active_runs import refuse_or_await_repeated_job
from airflow_provider_ips.runs.claims import open_claims
from airflow_provider_ips.runs.detached import DetachedRange
from airflow_provider_ips.runs.environment import open_store
from airflow_provider_ips.runs.evidence import target_heads, target_to_move
from airflow_provider_ips.runs.measures import CaptureSight
from airflow_provider_ips.runs.pending import PendingRun
from airflow_provider_ips.runs.request import CaptureRequest, read_request

if TYPE_CHECKING:
    from airflow.sdk import Context, SkipMixin

    from airflow_provider_ips.dag_graph import CaptureTask


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRun:
    """The run of a capture task, whose arguments are rendered."""

    context: Context
    task: CaptureTask

    def execute(self) -> CaptureRecord:
        """Read the request and the checkpoint, and capture from there or detached from it."""
        context, task = self.context, self.task
        target = target_to_move(context)
        request = read_request(context, task)
        self._confirm_claims(request)
        catalog = environment.open_catalog(request.iceberg_conn_id)
        request = replace(request, target_heads=target_heads(target, catalog))
        store = open_store(task.checkpoint_store, iceberg_conn_id=request.iceberg_conn_id)
        checkpoint = store.read(request.consumer)
        is_committed = dag_graph.commit_of(task.task_id, context["dag"]) is not None
        if request.run_request.is_detached:
            preconditions.refuse_if_overtaken(context, request, checkpoint)
            return DetachedRange(
                request=request,
                catalog=catalog,
                checkpoint=checkpoint,
                refuse_conflict=lambda sources: preconditions.refuse_or_await_backfill(
                    context, request, sources, waits=self._waits
                ),
                store=store,
                now_ms=environment.now_ms(),
                is_committed=is_committed,
            ).execute()
        if not is_committed:
            log.warning("No IpCommitOperator of this DAG commits this capture: the next run captures its range again.")
        now_ms = environment.now_ms()
        sight = CaptureSight(request=request, checkpoint=checkpoint, target_lag_s=task.target_lag_s, now_ms=now_ms)
        run = PendingRun(
            request=replace(request, first_runs=_first_runs(request, checkpoint)),
            catalog=catalog,
            store=store,
            checkpoint=checkpoint,
            resolution=self._resolve(request, store, checkpoint),
            now_ms=now_ms,
            refuse_if_set_back=lambda: preconditions.refuse_if_set_back(context, request, catalog, checkpoint),
            refuse_new_range=lambda: self._refuse_new_range(request, checkpoint),
            has_work_ahead=lambda: preconditions.has_work_ahead(context),
            saw=sight.take,
        )
        try:
            sight.record = run.execute()
        finally:  # also where it was refused, or failed: the lag grows there
            sight.write_down()
        return sight.record

    @property
    def _waits(self) -> bool:
        """Whether it waits for other runs that are active, instead of failing."""
        return self.task.on_active_run == "wait"

    def _confirm_claims(self, request: CaptureRequest) -> None:
        """A chunk may be cleared long after its backfill ended, when another one writes the same part of the target."""
        if request.chunk is not None:
            log.info("This is %s of the backfill.", request.chunk)
            open_claims(self.context, request.iceberg_conn_id).confirm(
                request.run, request.chunk, now_ms=environment.now_ms()
            )

    def _resolve(
        self, request: CaptureRequest, store: CheckpointStore, checkpoint: Checkpoint | None
    ) -> Fresh | Retry | Replay:
        """Decide whether the run repeats its range or takes a new one, unless it has to leave that to another run."""
        if checkpoint is None or checkpoint.is_blank:
            preconditions.refuse_lost_checkpoint(
                self.context, request, store, has_default_consumer=self.task.consumer is None
            )
        sources = [table.source for table, _ in request.sources]
        resolution = resolve_capture(checkpoint, request.run, request.task_id, sources)
        preconditions.refuse_or_await_active_run(self.context, request, checkpoint, waits=self._waits)
        refuse_or_await_repeated_job(self.context, request, checkpoint, waits=self._waits)
        if isinstance(resolution, Fresh) and resolution.note:
            log.info("%s", resolution.note)
        return resolution

    def _refuse_new_range(self, request: CaptureRequest, checkpoint: Checkpoint | None) -> None:
        preconditions.refuse_if_overtaken(self.context, request, checkpoint)
        preconditions.refuse_if_work_has_begun(self.context)


def _first_runs(request: CaptureRequest, checkpoint: Checkpoint | None) -> tuple[FirstRun, ...]:
    """List the sources that this consumer has never committed, which start by `initial`."""
    return tuple(
        FirstRun(source=table.table, initial=str(settings.initial))
        for table, settings in request.sources
        if checkpoint is None or checkpoint.position_of(table.source) is None
    )


def skip_downstream(context: Context, task: SkipMixin, *, direct_only: bool = False) -> None:
    """Skip all downstream tasks but teardowns, or only the direct ones, and leave the others to their trigger rule."""
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    ti, own = context["ti"], context["task"]
    relatives = own.get_direct_relatives if direct_only else own.get_flat_relatives
    tasks = [relative for relative in relatives(upstream=False) if not relative.is_teardown]
    for line in skip_lines(sorted(relative.task_id for relative in tasks if dag_graph.is_capture(relative))):
        log.info("%s", line)
    is_mapped = ti.map_index is not None and ti.map_index >= 0
    if is_mapped and not isinstance(context["dag"].task_dict[own.task_id], MappedOperator):
        # Airflow looks up the tasks to skip by map index only if the task itself is expanded, not its task group.
        raise AirflowSkipException("Nothing to process.")
    task.skip(ti=ti, tasks=tasks)


def skip_lines(captures: Sequence[str]) -> Iterator[str]:
    """Say that downstream tasks are skipped, captures of further stages among them.

    :param captures: the ids of the captures that are skipped.
    """
    yield "Skipping downstream tasks."
    if captures:
        yield f"Captures among them may have rows to process, of runs that failed: {', '.join(captures)}."
        yield "To let them look: ignore_downstream_trigger_rules=False here, trigger_rule='none_failed' there."
