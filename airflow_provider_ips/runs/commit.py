"""One execution of a commit: evidence first, then the checkpoint moves, then ICDC tables are dropped, then events.

In this order a crash in between leaves tables that are not needed, and never a checkpoint whose rows are lost. The
checkpoint lists what was to be dropped, so that a retry drops it; `airflow ips gc` finds what is left after that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_provider_ips import config, dag_graph
from airflow_provider_ips.core.checkpoint.store import CheckpointStore, write_over
from airflow_provider_ips.core.checkpoint.traces import commit_refresh
from airflow_provider_ips.core.checkpoint.transitions import CommitResult, commit
from airflow_provider_ips.core.errors import EvidenceError, IpsError
from airflow_provider_ips.core.positions import RunIdentity
from airflow_provider_ips.core.results.capture_record import CaptureRecord
from airflow_provider_ips.dag_graph import CommitTask
from airflow_provider_ips.runs import environment
from airflow_provider_ips.runs.environment import open_store, pull_record
from airflow_provider_ips.runs.events import TargetEvents
from airflow_provider_ips.runs.evidence import demand_evidence
from airflow_provider_ips.runs.lost_files import check_branches
from airflow_provider_ips.runs.request import default_consumer

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog


log = logging.getLogger(__name__)

SETTLED = "settled"
DETACHED = "detached"
"""Outcomes without a commit: the capture itself has moved the checkpoint, or nothing moves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """What a commit did."""

    record: CaptureRecord
    outcome: str
    dropped: Sequence[str] = ()
    events: Sequence[str] = ()
    """The names of the target assets that get an event."""

    def to_json(self) -> dict[str, Any]:
        """Write it as the XCom ``commit``."""
        return {
            "consumer": self.record.consumer,
            "capture_id": self.record.capture_id,
            "outcome": self.outcome,
            "dropped": list(self.dropped),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRun:
    """The record of what is committed, and where the checkpoint and the tables are."""

    record: CaptureRecord
    open_store: Callable[[], CheckpointStore]
    open_catalog: Callable[[], Catalog]
    run: RunIdentity
    icdc_retention: str
    history_length: int
    now_ms: int

    def execute(self) -> CommitReport:
        """Move the checkpoint unless the capture is detached, and drop what is no longer kept."""
        if self.record.context.settled:
            return CommitReport(record=self.record, outcome=SETTLED)
        if self.record.context.is_detached:
            self._check_branches(must_exist=False)
            if self.record.context.is_refresh_beside:
                self._end_refresh()
            return CommitReport(record=self.record, outcome=DETACHED, dropped=self._drop(None))
        result = self._move()
        outcome = result.outcome.value
        return CommitReport(record=self.record, outcome=outcome, dropped=self._drop(result))

    def _end_refresh(self) -> None:
        """Show usual runs that a detached refresh of all rows, which they wait for, has done its work."""
        store = self.open_store()
        read = store.read(self.record.consumer)
        ended = commit_refresh(read, capture_id=self.record.capture_id)
        write_over(store, read, ended)

    def _move(self) -> CommitResult:
        store = self.open_store()
        read = store.read(self.record.consumer)
        result = commit(
            read,
            capture_id=self.record.capture_id,
            run=self.run,
            now_ms=self.now_ms,
            keep_icdc=self.icdc_retention == "keep",
            history_length=self.history_length,
            replay=self.record.context.replayed,
        )
        if result.checkpoint is not read:  # else it is done, and what the job has read may be removed by now
            self._check_branches(must_exist=True)
        write_over(store, read, result.checkpoint)
        return result

    def _check_branches(self, *, must_exist: bool) -> None:
        check_branches(self.record, self.open_catalog, self.now_ms, must_exist=must_exist)

    def _drop(self, result: CommitResult | None) -> list[str]:
        """Drop the tables that the checkpoint releases. It has moved, so a table that is left is not an error."""
        released = () if result is None else result.drop
        tables = [*released, *(self.record.made if self.icdc_retention == "drop" else ())]
        if not tables:
            return []
        from airflow_provider_ips.iceberg.branches.branch import drop_icdc

        try:
            catalog = self.open_catalog()
        except IpsError as error:
            log.warning("ICDC tables %s are left for `airflow ips gc`: %s", tables, error)
            return []
        dropped = []
        for table in tables:
            try:
                if drop_icdc(catalog, table):
                    dropped.append(table)
            except Exception as error:  # noqa: BLE001 - whatever it is, the checkpoint has moved
                log.warning("ICDC table %s is left for `airflow ips gc`: %s", table, error)
        return dropped


def commit_capture(context: Context, task: CommitTask, *, icdc_retention: str, partition_events: bool) -> CommitReport:
    """Commit what the capture of a commit task has recorded in this run."""
    record = pull_record(context, task.capture_task_id)
    conn_id = record.context.iceberg_conn_id
    if not record.context.settled:
        _refuse_other_element(context, task, record)
        demand_evidence(context, task, record)
    # Prepared before the checkpoint moves, because reading the written partitions may fail.
    target_events = TargetEvents.prepare(task.target_assets, record, partition_events=partition_events)
    # The capture's own store: in another one there would be nothing to commit.
    store: Any = dag_graph.argument(context["dag"].task_dict[task.capture_task_id], "checkpoint_store")
    report = CommitRun(
        record=record,
        open_store=lambda: open_store(store, iceberg_conn_id=conn_id),
        open_catalog=cache(lambda: environment.open_catalog(conn_id)),
        run=environment.run_identity(context),
        icdc_retention=icdc_retention,
        history_length=config.history_length(),
        now_ms=environment.now_ms(),
    ).execute()
    return replace(report, events=target_events.emit(context, task))


def _refuse_other_element(context: Context, task: CommitTask, record: CaptureRecord) -> None:
    """
    Refuse a record of sources, or of a consumer, that now belong to another index of the mapped task group.

        [a, b]   capture 0 has captured a
        [b, a]   the list has changed, job 0 is cleared and works for b: it is not evidence for a
    """
    capture = context["dag"].task_dict[task.capture_task_id]
    if not dag_graph.shares_index(capture, task) or not isinstance(capture, dag_graph.CaptureTask):
        return
    capture = copy(capture)
    capture.source_tables = task.render_template(capture.source_tables, context)
    listed = [table.source for table, _ in capture.checked_sources()]
    name = task.render_template(dag_graph.argument(capture, "consumer"), context)
    consumer = name or default_consumer(record.context.run, capture.task_id, listed)
    other = [source.source.label for source in record.sources if source.source not in listed]
    if other or consumer != record.consumer:
        captured = ", ".join(other) or f"for consumer {record.consumer!r}"
        raise EvidenceError(
            f"{task.capture_task_id!r} has captured {captured}, and instance {context['ti'].map_index} of its "
            f"mapped task group is now for {', '.join(source.label for source in listed) if other else repr(consumer)}",
            consequence="The tasks between may have worked for the other, and rows would be lost",
            remedy=f"clear {task.capture_task_id!r} with its downstream tasks",
        )
