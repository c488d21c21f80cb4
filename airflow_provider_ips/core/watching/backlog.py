"""The backlog of a source: what a consumer that has processed everything up to a position has still to process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.history.snapshots import (
    SnapshotFacts,
    TableHistory,
    ancestors,
    head_position,
    live_volume,
    position_of,
)
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.positions import Position, format_time
from airflow_provider_ips.core.record import UNKNOWN_VOLUME, Decision, Kind, Volume
from airflow_provider_ips.core.settings import CaptureSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The rows of a source after a position. ``None`` is unknown, never zero."""

    source: Source
    from_exclusive: Position | None
    head: Position
    snapshots: int
    volume: Volume
    oldest_at_ms: int | None
    newest_snapshot_id: int | None
    newest_at_ms: int | None = None
    has_changes: bool = False
    """Earlier rows were changed or deleted, which is work for a capture of changes though it may add no row."""

    note: str = ""

    @property
    def has_rows(self) -> bool:
        """Whether there may be anything to capture."""
        return self.snapshots > 0 and (self.has_changes or (self.volume.files != 0 and self.volume.records != 0))

    def to_json(self) -> dict[str, Any]:
        return {
            **self.source.to_json(),
            "from": None if self.from_exclusive is None else self.from_exclusive.to_json(),
            "head": self.head.to_json(),
            "snapshots": self.snapshots,
            **self.volume.to_json(),
            "oldest_at": None if self.oldest_at_ms is None else format_time(self.oldest_at_ms),
            "newest_snapshot_id": None if self.newest_snapshot_id is None else str(self.newest_snapshot_id),
        }


def backlog_of(history: TableHistory, *, committed: Position | None, settings: CaptureSettings) -> Backlog:
    """Find what a capture would take after ``committed``, or by ``settings.initial`` if that is None.

    Raises what a capture would raise, except for a table that was rolled back and has gained nothing since: that alone
    adds no row, and only what is appended next decides whether a capture can go on.
    """
    unlimited = replace(_without_refusals(settings), max_snapshots=None, max_files=None, max_bytes=None)
    try:
        plan = plan_capture(history, committed=committed, settings=replace(unlimited, on_gap="fail"))
    except GapError:
        start = committed or _initial_snapshot(history, settings)
        if start is not None and _is_rolled_back(history, start):
            return _rolled_back(history, start)
        plan = plan_capture(history, committed=committed, settings=unlimited)
    return _backlog(history, plan)


def backlog_across_rollback(history: TableHistory, *, reported: Position, settings: CaptureSettings) -> Backlog:
    """Find what was appended since a watcher reported ``reported``, also if that was rolled back since.

        reported here        ▼
        1 ── 2 ── 3 ── 4 ── 5
                  └─── 6 ── 7      the branch now: counted from 3 on, the snapshot that both lines have in common

    This is only good for an event. A capture that did so would leave the rows of 4 and 5 in the target.
    """
    try:
        return backlog_of(history, committed=reported, settings=settings)
    except GapError:
        ancestor = _common_ancestor(history, reported)
        if ancestor is None:
            raise
        return backlog_of(history, committed=ancestor, settings=settings)


def _without_refusals(settings: CaptureSettings) -> CaptureSettings:
    """Settings that refuse neither supersets nor equality deletes: for both there is work to do."""
    if not settings.captures_changes:
        return settings
    return replace(settings, on_superset="allow", equality_deletes="carry")


def _initial_snapshot(history: TableHistory, settings: CaptureSettings) -> Position | None:
    start = settings.start.snapshot_id
    snapshot = None if start is None else history.snapshot(start)
    return None if snapshot is None else position_of(history, snapshot)


def _is_rolled_back(history: TableHistory, position: Position) -> bool:
    """Whether the head is an ancestor of ``position``, so that nothing was appended since the rollback."""
    ancestor = _common_ancestor(history, position)
    return ancestor is not None and ancestor == head_position(history) and ancestor.snapshot_id != position.snapshot_id


def _common_ancestor(history: TableHistory, position: Position) -> Position | None:
    """The newest snapshot that both the head and ``position`` come from, as far as both lines are retained."""
    if position.snapshot_id is None or position.table_uuid != history.table_uuid:
        return None
    on_branch = {snapshot.snapshot_id for snapshot in ancestors(history, history.head)}
    for snapshot in ancestors(history, history.snapshot(position.snapshot_id)):
        if snapshot.snapshot_id in on_branch:
            return position_of(history, snapshot)
    return None


def _rolled_back(history: TableHistory, committed: Position) -> Backlog:
    head = head_position(history)
    nothing = CapturePlan(kind=Kind.EMPTY, from_exclusive=committed, to_inclusive=head)
    note = f"rolled back from {committed} to {head}, and nothing appended since"
    return replace(_backlog(history, nothing), note=note)


def _backlog(history: TableHistory, plan: CapturePlan) -> Backlog:
    count = _count_range if plan.kind in (Kind.RANGE, Kind.EMPTY) else _count_live
    volume, appended = count(history, plan)
    return Backlog(
        source=Source(history.name, history.branch),
        from_exclusive=plan.from_exclusive,
        head=head_position(history),
        snapshots=len(appended),
        volume=volume,
        oldest_at_ms=min((snapshot.committed_at_ms for snapshot in appended), default=None),
        newest_snapshot_id=appended[-1].snapshot_id if appended else None,
        newest_at_ms=max((snapshot.committed_at_ms for snapshot in appended), default=None),
        has_changes=bool(plan.before),
    )


def _count_range(history: TableHistory, plan: CapturePlan) -> tuple[Volume, list[SnapshotFacts]]:
    """Count the captured snapshots of a range."""
    captured = [v for v in plan.verdicts if v.decision is Decision.CAPTURED] if plan.kind is Kind.RANGE else []
    volume = Volume.total(verdict.volume for verdict in captured)
    return volume, [s for v in captured if (s := history.snapshot(v.snapshot_id)) is not None]


def _count_live(history: TableHistory, plan: CapturePlan) -> tuple[Volume, list[SnapshotFacts]]:
    """Count all live files by the totals of the head. How many of them a resync would take is unknown."""
    floor = plan.from_exclusive.sequence_number if plan.kind is Kind.RESYNC and plan.from_exclusive else -1
    chain = [s for s in reversed(list(ancestors(history, history.head))) if s.sequence_number > floor]
    if plan.kind is not Kind.FULL or history.head is None:
        return UNKNOWN_VOLUME, chain
    return live_volume(history.head), chain
