"""What one capture of one source takes: which range, or everything, or why neither."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.attempts import Attempts, ids_of, refuse_rolled_back
from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.gaps import NO_TRACE_OF_REMOVALS, STALE_ROWS, gap_of_changes, resync_refused
from airflow_provider_ips.core.history import position_of
from airflow_provider_ips.core.lineage import prove_lineage
from airflow_provider_ips.core.ranges import judged_range, limited, range_of
from airflow_provider_ips.core.record import Decision, Kind
from airflow_provider_ips.core.selection import CapturePlan
from airflow_provider_ips.core.starting import before_everything, pinned_snapshot, starting_position
from airflow_provider_ips.core.traces import findable_position
from airflow_provider_ips.core.wholes import everything, first_full, newer_than

if TYPE_CHECKING:
    from airflow_provider_ips.core.history import TableHistory
    from airflow_provider_ips.core.lineage import Lineage
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.settings import CaptureSettings


def plan_capture(
    history: TableHistory,
    *,
    committed: Position | None,
    settings: CaptureSettings,
    attempted: Position | None = None,
    attempted_last: Position | None = None,
) -> CapturePlan:
    """Plan the next capture: what was gained after ``committed``, or a first run by ``settings.initial``.

    ``attempted`` is where the first capture with the same start ended that was never committed, ``attempted_last``
    where the newest did. Their runs may have written to the target, so a capture of changes accounts for both.
    """
    head = history.head
    attempts = Attempts.of(attempted, attempted_last) if settings.captures_changes else Attempts()
    if committed is None:
        return _plan_first(history, settings, attempts)
    if _stands_at_head(history, committed):
        refuse_rolled_back(history, attempts, [committed.snapshot_id])
        return _nothing(history, committed)
    try:
        lineage = prove_lineage(history, after=committed, to=head)
    except GapError as gap:
        return _plan_over_gap(history, committed, settings, gap)
    return _plan_range(history, committed, lineage, settings, attempts)


def plan_full(
    history: TableHistory,
    *,
    committed: Position | None,
    settings: CaptureSettings,
    attempted: Position | None = None,
    attempted_last: Position | None = None,
) -> CapturePlan:
    """Plan all that is live, whatever was committed before, as a capture that moves the checkpoint to the head."""
    attempts = Attempts.of(attempted, attempted_last) if settings.captures_changes else Attempts()
    plan = first_full(history, history.head, committed, settings, attempts)
    stale = committed is not None and settings.captures_changes
    return replace(plan, warnings=(*plan.warnings, STALE_ROWS)) if stale else plan


def replan(
    history: TableHistory,
    *,
    kind: Kind,
    from_exclusive: Position | None,
    to_inclusive: Position,
    settings: CaptureSettings,
    attempted: Position | None = None,
) -> CapturePlan:
    """Plan the very range of an earlier attempt again, whatever was committed since. Limits are not applied."""
    to = pinned_snapshot(history, to_inclusive)
    if kind is Kind.FULL:
        return first_full(history, to, from_exclusive, settings, Attempts.of(attempted, None))
    if kind is Kind.RESYNC and from_exclusive is not None:
        return newer_than(history, from_exclusive, to)
    if kind is Kind.EMPTY:
        return CapturePlan(kind=Kind.EMPTY, from_exclusive=from_exclusive, to_inclusive=to_inclusive)
    start = from_exclusive or before_everything(history)
    lineage = prove_lineage(history, after=start, to=to)
    unlimited = replace(settings, max_snapshots=None, max_files=None, max_bytes=None)
    judged = judged_range(history, lineage, to, unlimited)
    return range_of(history, start, judged, to, settings, supersedes=attempted is not None)


def _stands_at_head(history: TableHistory, committed: Position) -> bool:
    """The commonest case, and it must cost no file read."""
    head_id = history.head.snapshot_id if history.head else None
    return committed.table_uuid == history.table_uuid and committed.snapshot_id == head_id


def _nothing(history: TableHistory, committed: Position | None) -> CapturePlan:
    at_head = committed is not None and _stands_at_head(history, committed)
    here = position_of(history, history.head) if at_head else findable_position(history, history.head)
    return CapturePlan(kind=Kind.EMPTY, from_exclusive=committed, to_inclusive=here)


def _plan_first(history: TableHistory, settings: CaptureSettings, attempts: Attempts) -> CapturePlan:
    start = settings.start
    if start.kind == "full":
        return first_full(history, history.head, None, settings, attempts)
    if start.kind == "latest":
        return _nothing(history, None)
    after = starting_position(history, snapshot_id=start.snapshot_id, time_ms=start.time_ms)
    lineage = prove_lineage(history, after=after, to=history.head)
    return _plan_range(history, after, lineage, settings, attempts)


def _plan_over_gap(history: TableHistory, committed: Position, settings: CaptureSettings, gap: GapError) -> CapturePlan:
    same_table = committed.table_uuid == history.table_uuid
    if same_table and findable_position(history, history.head).snapshot_id == committed.snapshot_id:
        return _nothing(history, committed)
    if settings.on_gap == "full":
        warnings = (f"on_gap='full': {gap.problem}", *((STALE_ROWS,) if settings.captures_changes else ()))
        return everything(history, history.head, committed, warnings=warnings)
    if settings.on_gap == "resync" and same_table:
        if settings.captures_changes:
            raise resync_refused(history, committed, history.head, why=NO_TRACE_OF_REMOVALS)
        return newer_than(history, committed, history.head, warnings=(f"on_gap='resync': {gap.problem}",))
    raise gap_of_changes(history, gap) if settings.captures_changes and same_table else gap


def _plan_range(
    history: TableHistory,
    after: Position,
    lineage: Lineage,
    settings: CaptureSettings,
    attempts: Attempts,
) -> CapturePlan:
    refuse_rolled_back(history, attempts, ids_of(after, lineage))
    to = lineage.snapshots[-1] if lineage.snapshots else None
    if to is None:
        return _nothing(history, after)
    # What a run that failed may have written has to be in this range, or no later one would take it back.
    unbounded = 0 if attempts.last is None else ids_of(after, lineage).index(attempts.last.snapshot_id)
    judged = limited(judged_range(history, lineage, to, settings, unbounded), settings, unbounded)
    end = history.snapshot(judged[-1].verdict.snapshot_id)
    plan = range_of(history, after, judged, end, settings, supersedes=bool(attempts))
    return plan if settings.full_refresh_above is None else _or_everything(history, plan, settings.full_refresh_above)


def _or_everything(history: TableHistory, plan: CapturePlan, share: float) -> CapturePlan:
    """Take all that is live where the range is most of it anyway; never on a guess about sizes."""
    head = history.head
    sizes = [v.size_bytes for v in plan.verdicts if v.decision is Decision.CAPTURED]
    whole = head.count("total-files-size") if head else None
    if (
        plan.is_empty
        or not whole
        or None in sizes
        or plan.to_inclusive.snapshot_id != position_of(history, head).snapshot_id
    ):
        return plan
    size = sum(size or 0 for size in sizes)
    if size <= share * whole:
        return plan
    note = (
        f"full_refresh_above={share}: the range has {size:,} of the table's {whole:,} bytes, so all live rows were "
        "captured in its place"
    )
    return replace(everything(history, head, plan.from_exclusive, warnings=(note,)), verdicts=plan.verdicts)
