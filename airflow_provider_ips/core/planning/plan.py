"""What a capture of one source takes: the range since the checkpoint, all live files, or nothing."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ips.core.checkpoint.entries import SourceRange
from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.history.snapshots import TableHistory, ancestors, position_of, take_evidence
from airflow_provider_ips.core.lineage.expired_history import holds_what_it_held
from airflow_provider_ips.core.lineage.named_positions import retained_end, starting_position
from airflow_provider_ips.core.lineage.walk import (
    NUMBERS_SHOW_NO_REMOVALS,
    Lineage,
    gap_error_for_changes,
    prove_lineage,
    resync_error,
)
from airflow_provider_ips.core.planning.live_files import plan_full_capture, plan_live_files, plan_resync
from airflow_provider_ips.core.planning.ranges import judge_range, plan_range, without_limits
from airflow_provider_ips.core.planning.uncommitted import (
    ALL_COMMITTED,
    UncommittedCaptures,
    refuse_rolled_back,
    rolled_back_rows,
)
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Decision, Kind
from airflow_provider_ips.core.settings import CaptureSettings


def plan_capture(
    history: TableHistory,
    *,
    committed: Position | None,
    settings: CaptureSettings,
    uncommitted: UncommittedCaptures = ALL_COMMITTED,
) -> CapturePlan:
    """Plan the next capture: the range since ``committed``, or a first run as ``settings.initial`` says.

    ``uncommitted`` are captures from ``committed`` whose runs may have written to the target. A capture of changes
    takes them into account. For a log of appends they make no difference, except that a first run of all rows is
    captured even if there are none any more, and that a warning names rows that may have been rolled back.
    """
    if committed is None and settings.start.kind == "full":
        even_if_empty = bool(uncommitted)
        return plan_full_capture(history, history.head, None, settings, uncommitted, even_if_empty=even_if_empty)
    if settings.captures_changes:
        return _plan_next(history, committed, settings, uncommitted)
    plan = _plan_next(history, committed, settings, ALL_COMMITTED)
    return replace(plan, warnings=(*plan.warnings, *rolled_back_rows(history, uncommitted)))


def _plan_next(
    history: TableHistory, committed: Position | None, settings: CaptureSettings, uncommitted: UncommittedCaptures
) -> CapturePlan:
    if committed is None:
        return _plan_first_run(history, settings, uncommitted)
    if _is_at_head(history, committed):
        refuse_rolled_back(history, uncommitted, [committed.snapshot_id])
        return _nothing_to_process(history, committed)
    try:
        lineage = prove_lineage(history, after=committed, to=history.head)
    except GapError as gap:
        return _plan_over_gap(history, committed, settings, uncommitted, gap)
    return _plan_next_range(history, committed, lineage, settings, uncommitted)


def plan_full(
    history: TableHistory,
    *,
    committed: Position | None,
    settings: CaptureSettings,
    uncommitted: UncommittedCaptures = ALL_COMMITTED,
) -> CapturePlan:
    """Plan all live files, whatever was committed before, as a capture that moves the checkpoint to the head."""
    return plan_full_capture(history, history.head, committed, settings, uncommitted)


def plan_between(
    history: TableHistory,
    *,
    kind: Kind,
    from_exclusive: Position | None,
    to_inclusive: Position,
    settings: CaptureSettings,
    uncommitted: UncommittedCaptures = ALL_COMMITTED,
) -> CapturePlan:
    """Plan a capture of a given kind, start and end, whatever was committed since. Limits do not apply."""
    to = retained_end(history, to_inclusive)
    if kind is Kind.FULL:
        return plan_full_capture(history, to, from_exclusive, settings, uncommitted)
    if kind is Kind.RESYNC and from_exclusive is not None:
        return plan_resync(history, from_exclusive, to)
    if kind is Kind.EMPTY:
        return CapturePlan(kind=Kind.EMPTY, from_exclusive=from_exclusive, to_inclusive=to_inclusive)
    start = from_exclusive or position_of(history, None)
    lineage = prove_lineage(history, after=start, to=to)
    judged = judge_range(history, lineage, to, without_limits(settings))
    return plan_range(history, start, judged, to, settings, has_uncommitted=bool(uncommitted))


def replan(history: TableHistory, taken: SourceRange, settings: CaptureSettings) -> CapturePlan:
    """Plan a range again that was captured before.

    A first run that began at a snapshot or a time has no committed position, so its start is resolved again.
    """
    start = taken.from_exclusive
    initial = settings.start
    if start is None and taken.kind is Kind.RANGE and initial.kind in ("snapshot", "time"):
        start = starting_position(history, snapshot_id=initial.snapshot_id, time_ms=initial.time_ms)
    return plan_between(
        history,
        kind=taken.kind,
        from_exclusive=start,
        to_inclusive=taken.to_inclusive,
        settings=settings,
        uncommitted=UncommittedCaptures.superseded_by(taken),
    )


def with_evidence(history: TableHistory, plan: CapturePlan) -> CapturePlan:
    """Note at the end of a plan what will identify it once its snapshot has expired. Reads a manifest list.

    A plan that is only looked at, as by a sensor, does without.
    """
    end = plan.to_inclusive
    has_moved = not plan.is_empty or end != plan.from_exclusive
    if end.evidence is not None or end.snapshot_id is None or not has_moved:
        return plan
    return replace(plan, to_inclusive=take_evidence(history, end, plan.from_exclusive))


def _is_at_head(history: TableHistory, committed: Position) -> bool:
    """The most frequent case, decided without opening a file."""
    head_id = history.head.snapshot_id if history.head else None
    return committed.table_uuid == history.table_uuid and committed.snapshot_id == head_id


def _nothing_to_process(history: TableHistory, committed: Position | None) -> CapturePlan:
    is_at_head = committed is not None and _is_at_head(history, committed)
    end = committed if committed is not None and is_at_head else position_of(history, history.head)
    return CapturePlan(kind=Kind.EMPTY, from_exclusive=committed, to_inclusive=end)


def _plan_first_run(history: TableHistory, settings: CaptureSettings, uncommitted: UncommittedCaptures) -> CapturePlan:
    initial = settings.start
    if initial.kind == "latest":
        if uncommitted:  # of a refresh, or of a detached run
            refuse_rolled_back(history, uncommitted, [s.snapshot_id for s in ancestors(history, history.head)])
        return _nothing_to_process(history, None)
    after = starting_position(history, snapshot_id=initial.snapshot_id, time_ms=initial.time_ms)
    lineage = prove_lineage(history, after=after, to=history.head)
    return _plan_next_range(history, after, lineage, settings, uncommitted)


def _plan_over_gap(
    history: TableHistory,
    committed: Position,
    settings: CaptureSettings,
    uncommitted: UncommittedCaptures,
    gap: GapError,
) -> CapturePlan:
    is_same_table = committed.table_uuid == history.table_uuid
    if is_same_table and _has_nothing_new(history, committed, settings, uncommitted):
        return _nothing_to_process(history, committed)
    if settings.on_gap == "full":
        full = plan_full_capture(history, history.head, committed, settings, ALL_COMMITTED)
        return replace(full, warnings=(f"on_gap='full': {gap.problem}", *full.warnings))
    if settings.on_gap == "resync" and is_same_table:
        if settings.captures_changes:
            raise resync_error(history, committed, history.head, why=NUMBERS_SHOW_NO_REMOVALS)
        return plan_resync(history, committed, history.head, warnings=(f"on_gap='resync': {gap.problem}",))
    raise gap_error_for_changes(history, gap) if settings.captures_changes and is_same_table else gap


def _has_nothing_new(
    history: TableHistory, committed: Position, settings: CaptureSettings, uncommitted: UncommittedCaptures
) -> bool:
    """Whether the head is proven to hold the rows of the checkpoint, and nothing that was to be captured came and went.

    A log of appends, and a run that was never committed, may have seen a file that was added and removed since, be it
    on a line that was rolled back: no sequence number shows that the head is the only commit since.
    """
    shows_the_net_effect = settings.captures_changes or settings.on_other_operation == "fail"
    return shows_the_net_effect and not uncommitted and holds_what_it_held(history, committed, history.head)


def _plan_next_range(
    history: TableHistory,
    after: Position,
    lineage: Lineage,
    settings: CaptureSettings,
    uncommitted: UncommittedCaptures,
) -> CapturePlan:
    ids = lineage.ids_from(after)
    refuse_rolled_back(history, uncommitted, ids)
    if not lineage.snapshots:
        return _nothing_to_process(history, after)
    # The range includes all that an uncommitted run may have written: no later range would take it back.
    last = uncommitted.last_end
    required = 0 if last is None else ids.index(last.snapshot_id)
    judged = judge_range(history, lineage, lineage.snapshots[-1], settings, required)
    end = history.snapshot(judged[-1].verdict.snapshot_id)
    plan = plan_range(history, after, judged, end, settings, has_uncommitted=bool(uncommitted))
    return _all_live_if_above(history, plan, settings.full_refresh_above)


def _all_live_if_above(history: TableHistory, plan: CapturePlan, share: float | None) -> CapturePlan:
    """Take all live files where the range has more than a share of the table's bytes.

    The range stays as it is where a size is unknown, and where it ends before the head.
    """
    head = history.head
    table_bytes = head.count("total-files-size") if head else None
    sizes = [v.size_bytes for v in plan.verdicts if v.decision is Decision.CAPTURED]
    if share is None or plan.is_empty or not table_bytes or None in sizes:
        return plan
    range_bytes = sum(size or 0 for size in sizes)
    if plan.to_inclusive.snapshot_id != position_of(history, head).snapshot_id or range_bytes <= share * table_bytes:
        return plan
    note = (
        f"full_refresh_above={share}: the range has {range_bytes:,} of the table's {table_bytes:,} bytes, so all live "
        "rows were captured in its place"
    )
    return replace(plan_live_files(history, head, plan.from_exclusive, warnings=(note,)), verdicts=plan.verdicts)
