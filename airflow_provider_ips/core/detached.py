"""Captures that are in no checkpoint: a dry run, a replay, a range or partitions that a person asked for.

The checkpoint neither leads them nor follows them, so they may run beside the live ones. Nothing remembers their range
but the ICDC tables that they made: these are named after the run, so that a retry finds them and takes the same range.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ips.core.asked import PREFIX, Run
from airflow_provider_ips.core.attempts import NOBODY, Attempts
from airflow_provider_ips.core.errors import CheckpointConflictError, InputError
from airflow_provider_ips.core.history import ancestors, head_position
from airflow_provider_ips.core.identifiers import digest, icdc_table_name
from airflow_provider_ips.core.plan import plan_capture, replan
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.starting import starting_position

if TYPE_CHECKING:
    from airflow_provider_ips.core.asked import Asked
    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.history import TableHistory
    from airflow_provider_ips.core.positions import Position, RunIdentity
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.core.settings import CaptureSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """Whose capture it is, why it is made, and what its tables are called: the same capture, the same names."""

    capture_id: str
    consumer: str
    why: str
    asked: Asked
    namespace: str
    location: str | None = None

    @property
    def identity(self) -> dict[str, str]:
        """What its tables say about themselves."""
        return {
            "capture-id": self.capture_id,
            "consumer": self.consumer,
            "run": self.why,
            "detached": "true",
            "asked": json.dumps(self.asked.to_json(), sort_keys=True),
        }

    def table_name(self, source: str, branch: str, role: str = "") -> str:
        """Name the ICDC table of one source."""
        label = source if branch == "main" else f"{source}@{branch}"
        return f"{self.namespace}.{icdc_table_name(label, self.capture_id, role)}"


def run_capture_id(consumer: str, run: RunIdentity, *more: str) -> str:
    """Name what a run captures apart from the checkpoint. A run is cleared with what it was asked for.

    ``more`` tells apart what one run may capture in turn: a chunk of another plan, or rows as they are now.
    """
    return digest(consumer, "detached", run.dag_id, run.run_id, str(run.map_index), run.run_after, *more, length=32)


def replay_capture_id(consumer: str, capture_id: str) -> str:
    """Name the replay of a committed capture."""
    return digest(consumer, "replay", capture_id, length=32)


def plan_detached(
    history: TableHistory,
    asked: Asked,
    settings: CaptureSettings,
    *,
    committed: Position | None = None,
    attempts: Attempts = NOBODY,
    pinned: Position | None = None,
) -> CapturePlan:
    """Plan what was asked for.

    ``pinned`` is where an earlier attempt of the same run ended. ``committed`` is where the checkpoint stands, and
    ``attempts`` what it waits for: only a dry run of the usual range asks for these.
    """
    wanted = asked.settings(settings)
    if asked.run is Run.USUAL:
        return plan_capture(
            history, committed=committed, settings=wanted, attempted=attempts.first, attempted_last=attempts.last
        )
    if asked.run in (Run.FULL, Run.PARTITIONS):
        end = pinned or head_position(history)
        return replan(history, kind=Kind.FULL, from_exclusive=None, to_inclusive=end, settings=wanted)
    start = starting_position(history, snapshot_id=_number(asked.since_snapshot), time_ms=asked.since_time_ms)
    end_or_head = pinned or _asked_end(history, asked, start)
    if end_or_head is None:
        return _told_where_it_ends(history, plan_capture(history, committed=start, settings=wanted))
    return replan(history, kind=Kind.RANGE, from_exclusive=start, to_inclusive=end_or_head, settings=wanted)


def refuse_if_overtaken(checkpoint: Checkpoint | None, run: RunIdentity, asked: Asked, *, is_cleared: bool) -> None:
    """Let no run that is cleared write rows of its time over those that later runs have committed."""
    wrote = [capture for capture in (checkpoint.history if checkpoint else ()) if capture.wrote]
    if not wrote or wrote[-1].run == run or not is_cleared:
        return
    newest = wrote[-1]
    if newest.committed_at_ms <= datetime.fromisoformat(run.run_after).timestamp() * 1000:
        return
    raise CheckpointConflictError(
        f"run {run} was asked for {asked}, and was cleared after run {newest.run} has committed",
        consequence="What it captured then would be written over what came since; and a new capture is not what "
        "clearing an old run promises",
        remedy="trigger a new run and ask it for the same, or for what is wanted now",
    )


def _asked_end(history: TableHistory, asked: Asked, start: Position) -> Position | None:
    if asked.until_snapshot is None and asked.until_time is None:
        return None
    end = starting_position(history, snapshot_id=_number(asked.until_snapshot), time_ms=asked.until_time_ms)
    order = [s.snapshot_id for s in ancestors(history, history.head)]
    if end.snapshot_id is None or (
        start.snapshot_id is not None and order.index(end.snapshot_id) > order.index(start.snapshot_id)
    ):
        raise InputError(
            f"the range of {history.name} ends at {end}, before it starts at {start}",
            consequence="It holds nothing",
            remedy="ask for a later end or an earlier start",
        )
    return end


def _told_where_it_ends(history: TableHistory, plan: CapturePlan) -> CapturePlan:
    """No later run takes up what a limit left out of a range that is nobody's."""
    if history.head is None or plan.is_empty or plan.to_inclusive.snapshot_id == history.head.snapshot_id:
        return plan
    note = (
        f"a limit ended the range at {plan.to_inclusive}, before the table's head: no other run goes on from there "
        f"unless it is asked to, by {PREFIX}since_snapshot"
    )
    return replace(plan, warnings=(*plan.warnings, note))


def _number(snapshot_id: str | None) -> int | None:
    return None if snapshot_id is None else int(snapshot_id)
