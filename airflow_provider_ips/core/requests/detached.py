"""Detached captures, which are in no checkpoint: dry runs, replays, and ranges or partitions that a run requested.

They do not start at the checkpoint and do not move it, so they may run beside live captures. Only the ICDC tables that
they made remember their range. These tables are named after the run, so that a retry finds them and captures the same.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.errors import CheckpointConflictError, InputError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.history.snapshots import TableHistory, ancestors, head_position
from airflow_provider_ips.core.identifiers import digest
from airflow_provider_ips.core.lineage.named_positions import starting_position
from airflow_provider_ips.core.planning.plan import plan_between, plan_capture
from airflow_provider_ips.core.planning.uncommitted import ALL_COMMITTED, UncommittedCaptures
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.requests.request import PREFIX, RunKind, RunRequest
from airflow_provider_ips.core.settings import CaptureSettings


def detached_identity(capture_id: str, consumer: str, *, made_by: str, request: RunRequest) -> dict[str, str]:
    """The properties that the tables of a detached capture carry.

    :param made_by: the run, or the replay, that makes them
    """
    asked = json.dumps(request.to_json(), sort_keys=True)
    return {"capture-id": capture_id, "consumer": consumer, "run": made_by, "detached": "true", "asked": asked}


def detached_capture_id(consumer: str, run: RunIdentity, *variant: str) -> str:
    """Name the detached capture of a run. A run that is cleared has the same request, and so the same name.

    ``variant`` distinguishes several captures of one run: another chunk, or the rows as they are when it is cleared.
    """
    return digest(consumer, "detached", run.dag_id, run.run_id, str(run.map_index), run.run_after, *variant, length=32)


def replay_capture_id(consumer: str, capture_id: str, *settings: str) -> str:
    """Name the replay of a committed capture. With other settings it has other rows, and so another name."""
    return digest(consumer, "replay", capture_id, *settings, length=32)


def plan_detached(
    history: TableHistory,
    request: RunRequest,
    settings: CaptureSettings,
    *,
    committed: Position | None = None,
    uncommitted: UncommittedCaptures = ALL_COMMITTED,
    pinned: Position | None = None,
) -> CapturePlan:
    """Plan the capture that a run requested.

    :param committed: the position of the checkpoint; only a dry run of the usual range starts there
    :param uncommitted: what has been captured since and was never committed, for the same purpose
    :param pinned: the end of the range that an earlier attempt of the same run captured
    """
    settings = request.settings(settings)
    if request.kind is RunKind.USUAL:
        return plan_capture(history, committed=committed, settings=settings, uncommitted=uncommitted)
    if request.kind in (RunKind.FULL, RunKind.PARTITIONS):
        end = pinned or head_position(history)
        return plan_between(history, kind=Kind.FULL, from_exclusive=None, to_inclusive=end, settings=settings)
    start = starting_position(history, snapshot_id=_snapshot_id(request.since_snapshot), time_ms=request.since_time_ms)
    end_or_head = pinned or _requested_end(history, request, start)
    if end_or_head is None:
        return _with_limit_warning(history, plan_capture(history, committed=start, settings=settings))
    return plan_between(history, kind=Kind.RANGE, from_exclusive=start, to_inclusive=end_or_head, settings=settings)


def refuse_if_overtaken(
    checkpoint: Checkpoint | None, run: RunIdentity, request: RunRequest, *, is_cleared: bool
) -> None:
    """Refuse a run that was cleared after later runs have committed: its old rows would be written over theirs."""
    wrote = [capture for capture in (checkpoint.history if checkpoint else ()) if capture.wrote]
    if not wrote or wrote[-1].run == run or not is_cleared:
        return
    newest = wrote[-1]
    if newest.committed_at_ms <= datetime.fromisoformat(run.run_after).timestamp() * 1000:
        return
    raise CheckpointConflictError(
        f"run {run} requests {request}, and was cleared after run {newest.run} had committed",
        consequence="The rows that it captured before would be written over newer ones; and to capture newer rows is "
        "not what clearing an old run means",
        remedy="trigger a new run with the same request, or with another one",
    )


def _requested_end(history: TableHistory, request: RunRequest, start: Position) -> Position | None:
    if request.until_snapshot is None and request.until_time is None:
        return None
    end = starting_position(history, snapshot_id=_snapshot_id(request.until_snapshot), time_ms=request.until_time_ms)
    order = [s.snapshot_id for s in ancestors(history, history.head)]
    if end.snapshot_id is None or (
        start.snapshot_id is not None and order.index(end.snapshot_id) > order.index(start.snapshot_id)
    ):
        raise InputError(
            f"the range of {history.name} ends at {end}, before it starts at {start}",
            consequence="It contains nothing",
            remedy="request a later end or an earlier start",
        )
    return end


def _with_limit_warning(history: TableHistory, plan: CapturePlan) -> CapturePlan:
    """Warn if a limit ended the range early: unlike in a live capture, no later run takes the rest."""
    if history.head is None or plan.is_empty or plan.to_inclusive.snapshot_id == history.head.snapshot_id:
        return plan
    note = (
        f"a limit ended the range at {plan.to_inclusive}, before the table's head: no other run continues from there "
        f"unless {PREFIX}since_snapshot requests it"
    )
    return replace(plan, warnings=(*plan.warnings, note))


def _snapshot_id(snapshot_id: str | None) -> int | None:
    return None if snapshot_id is None else int(snapshot_id)
