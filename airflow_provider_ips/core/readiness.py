"""Whether a source holds enough that is new: what a sensor and a trigger ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history import head_position, position_of, walk_back
from airflow_provider_ips.core.plan import plan_capture
from airflow_provider_ips.core.positions import Position, format_time
from airflow_provider_ips.core.record import Decision, Kind, Volume

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_ips.core.history import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.core.settings import CaptureSettings
    from airflow_provider_ips.core.thresholds import AtLeast, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What one look at a source found beyond a position. ``None`` counts are unknown, never zero."""

    source: str
    branch: str
    from_exclusive: Position | None
    head: Position
    snapshots: int
    volume: Volume
    oldest_at_ms: int | None
    newest_snapshot_id: int | None
    removes: bool = False
    """Rows from before were changed or are gone: news, though a delete brings no row."""

    note: str = ""

    @property
    def has_rows(self) -> bool:
        """Whether there is anything to capture; what is unknown may be rows."""
        return self.snapshots > 0 and (self.removes or (self.volume.files != 0 and self.volume.records != 0))

    def to_json(self) -> dict[str, Any]:
        """What the sensor gives as XCom and the trigger as event."""
        return {
            "source": self.source,
            "branch": self.branch,
            "from": None if self.from_exclusive is None else self.from_exclusive.to_json(),
            "head": self.head.to_json(),
            "snapshots": self.snapshots,
            **self.volume.to_json(),
            "oldest_at": None if self.oldest_at_ms is None else format_time(self.oldest_at_ms),
            "newest_snapshot_id": None if self.newest_snapshot_id is None else str(self.newest_snapshot_id),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether to go, and why, in words for the log."""

    ready: bool
    reason: str


def assess(sighting: Sighting, thresholds: Thresholds, *, now_ms: int) -> Readiness:
    """Decide over one table. What cannot be counted is let through: held back, it might wait for ever."""
    where = f"{sighting.source}: " if sighting.branch == "main" else f"{sighting.source} ({sighting.branch}): "
    if not sighting.has_rows:
        since = "" if sighting.from_exclusive is None else f" beyond {sighting.from_exclusive}"
        return Readiness(ready=False, reason=where + (sighting.note or f"nothing appended{since}"))
    found = _found(sighting)
    short = [
        lack for name, unit, at in thresholds.named() if (lack := _lack(sighting, name, unit, at, now_ms)) is not None
    ]
    if short:
        return Readiness(ready=False, reason=f"{where}{found}, waiting for {', '.join(short)}")
    return Readiness(ready=True, reason=where + found)


def _found(sighting: Sighting) -> str:
    counted = {"snapshots": sighting.snapshots, **sighting.volume.to_json()}
    words = ", ".join(f"{name}: {'unknown' if n is None else n}" for name, n in counted.items()) + " appended"
    return f"{words}, earlier rows changed or removed" if sighting.removes else words


def _lack(sighting: Sighting, name: str, unit: str, at_least: AtLeast, now_ms: int) -> str | None:
    amount = sighting.volume.to_json()[unit]
    if amount is None or amount >= at_least.amount:
        return None
    if at_least.or_after_s is None:
        return f"{name}={at_least.amount}"
    due_ms = None if sighting.oldest_at_ms is None else sighting.oldest_at_ms + int(at_least.or_after_s * 1000)
    if due_ms is None or now_ms >= due_ms:
        return None
    return f"{name}={at_least.amount} or {format_time(due_ms)}"


def look(history: TableHistory, *, committed: Position | None, settings: CaptureSettings) -> Sighting:
    """See what was appended beyond ``committed`` (None: by ``settings.initial``), as a capture would.

    Raises what a capture would raise. Only a plain rollback is let pass: it adds nothing, and what comes after it
    decides whether a capture can go on.
    """
    unlimited = replace(_unchoosy(settings), max_snapshots=None, max_files=None, max_bytes=None)
    try:
        plan = plan_capture(history, committed=committed, settings=replace(unlimited, on_gap="fail"))
    except GapError:
        base = committed or _named_snapshot(history, settings)
        if base is not None and is_behind(history, base):
            return _rolled_back(history, base)
        plan = plan_capture(history, committed=committed, settings=unlimited)
    return _sighting(history, plan)


def _unchoosy(settings: CaptureSettings) -> CaptureSettings:
    """What a job can stand does not matter to whether there is something for it."""
    if not settings.captures_changes:
        return settings
    return replace(settings, on_superset="allow", equality_deletes="carry")


def _named_snapshot(history: TableHistory, settings: CaptureSettings) -> Position | None:
    start = settings.start.snapshot_id
    snapshot = None if start is None else history.snapshot(start)
    return None if snapshot is None else position_of(history, snapshot)


def look_across_rollback(history: TableHistory, *, reported: Position, settings: CaptureSettings) -> Sighting:
    """See what was appended beyond what a watcher reported last, going on from the fork when the branch was moved.

    Fit for a wake-up only: a capture that did so would leave rows in the target that the source gave up.
    """
    try:
        return look(history, committed=reported, settings=settings)
    except GapError:
        fork = fork_position(history, reported)
        if fork is None:
            raise
        return look(history, committed=fork, settings=settings)


def is_behind(history: TableHistory, position: Position) -> bool:
    """Whether the head is a proper ancestor of ``position``: the table was rolled back and nothing came after."""
    fork = fork_position(history, position)
    return fork is not None and fork == head_position(history) and fork.snapshot_id != position.snapshot_id


def fork_position(history: TableHistory, position: Position) -> Position | None:
    """The newest snapshot that ``position`` and the head both come from, as far as both are retained."""
    if position.snapshot_id is None or position.table_uuid != history.table_uuid:
        return None
    on_branch = {snapshot.snapshot_id for snapshot in walk_back(history, history.head)}
    for snapshot in walk_back(history, history.snapshot(position.snapshot_id)):
        if snapshot.snapshot_id in on_branch:
            return position_of(history, snapshot)
    return None


def _rolled_back(history: TableHistory, committed: Position) -> Sighting:
    head = head_position(history)
    return Sighting(
        source=history.name,
        branch=history.branch,
        from_exclusive=committed,
        head=head,
        snapshots=0,
        volume=Volume(files=0, records=0, size_bytes=0),
        oldest_at_ms=None,
        newest_snapshot_id=None,
        note=f"rolled back from {committed} to {head}, and nothing appended since",
    )


def _sighting(history: TableHistory, plan: CapturePlan) -> Sighting:
    count = _count_range if plan.kind in (Kind.RANGE, Kind.EMPTY) else _count_all
    volume, appended = count(history, plan)
    return Sighting(
        source=history.name,
        branch=history.branch,
        from_exclusive=plan.from_exclusive,
        head=head_position(history),
        snapshots=len(appended),
        volume=volume,
        oldest_at_ms=min((snapshot.committed_at_ms for snapshot in appended), default=None),
        newest_snapshot_id=appended[-1].snapshot_id if appended else None,
        removes=bool(plan.before),
    )


def _count_range(history: TableHistory, plan: CapturePlan) -> tuple[Volume, list[SnapshotFacts]]:
    """A range counts its captured snapshots; they are in the metadata, for the walk has just passed them."""
    captured = [v for v in plan.verdicts if v.decision is Decision.CAPTURED] if plan.kind is Kind.RANGE else []
    volume = Volume(
        files=_total(v.files for v in captured),
        records=_total(v.records for v in captured),
        size_bytes=_total(v.size_bytes for v in captured),
    )
    return volume, [s for v in captured if (s := history.snapshot(v.snapshot_id)) is not None]


def _count_all(history: TableHistory, plan: CapturePlan) -> tuple[Volume, list[SnapshotFacts]]:
    """All that is live is what the head's totals say; how much of it a resync would take is unknown."""
    floor = plan.from_exclusive.sequence_number if plan.kind is Kind.RESYNC and plan.from_exclusive else -1
    chain = [s for s in reversed(walk_back(history, history.head)) if s.sequence_number > floor]
    if plan.kind is not Kind.FULL or history.head is None:
        return Volume(files=None, records=None, size_bytes=None), chain
    count = history.head.count
    volume = Volume(
        files=count("total-data-files"), records=count("total-records"), size_bytes=count("total-files-size")
    )
    return volume, chain


def _total(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
