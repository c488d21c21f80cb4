"""What one capture of one source takes: the range, a verdict per snapshot, and which manifest entries to move."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.change import has_changes, plan_changes, read_steps
from airflow_provider_ips.core.errors import GapError, RefusedOperationError
from airflow_provider_ips.core.gaps import (
    NO_TRACE_OF_REMOVALS,
    STALE_ROWS,
    foresee_resync,
    gap_of_changes,
    may_hold_live,
    resync_refused,
)
from airflow_provider_ips.core.history import DATA, DELETES, ancestors, position_of
from airflow_provider_ips.core.limits import Taken
from airflow_provider_ips.core.lineage import prove_lineage
from airflow_provider_ips.core.published import position_shown_at
from airflow_provider_ips.core.record import Decision, Kind
from airflow_provider_ips.core.retired import check_retired
from airflow_provider_ips.core.selection import CapturePlan, Selection, Take
from airflow_provider_ips.core.totals import check_listed
from airflow_provider_ips.core.traces import findable_position
from airflow_provider_ips.core.verdicts import Judged, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory
    from airflow_provider_ips.core.lineage import Lineage
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.settings import CaptureSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempts:
    """Where captures ended that were never committed: the first of them, and the newest."""

    first: Position | None = None
    last: Position | None = None

    @classmethod
    def of(cls, first: Position | None, last: Position | None) -> _Attempts:
        return cls(first=first or last, last=last or first)

    def __bool__(self) -> bool:
        return self.first is not None


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
    attempts = _Attempts.of(attempted, attempted_last) if settings.captures_changes else _Attempts()
    if committed is None:
        return _plan_first(history, settings, attempts)
    if _stands_at_head(history, committed):
        _refuse_rolled_back(history, attempts, [committed.snapshot_id])
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
    attempts = _Attempts.of(attempted, attempted_last) if settings.captures_changes else _Attempts()
    plan = _first_full(history, history.head, committed, settings, attempts)
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
    to = _pinned(history, to_inclusive)
    if kind is Kind.FULL:
        return _first_full(history, to, from_exclusive, settings, _Attempts.of(attempted, None))
    if kind is Kind.RESYNC and from_exclusive is not None:
        return _resync(history, from_exclusive, to)
    if kind is Kind.EMPTY:
        return CapturePlan(kind=Kind.EMPTY, from_exclusive=from_exclusive, to_inclusive=to_inclusive)
    start = from_exclusive or _before_everything(history)
    lineage = prove_lineage(history, after=start, to=to)
    unlimited = replace(settings, max_snapshots=None, max_files=None, max_bytes=None)
    judged = _judged(history, lineage, to, unlimited)
    return _range(history, start, judged, to, settings, supersedes=attempted is not None)


def _stands_at_head(history: TableHistory, committed: Position) -> bool:
    """The commonest case, and it must cost no file read."""
    head_id = history.head.snapshot_id if history.head else None
    return committed.table_uuid == history.table_uuid and committed.snapshot_id == head_id


def _nothing(history: TableHistory, committed: Position | None) -> CapturePlan:
    at_head = committed is not None and _stands_at_head(history, committed)
    here = position_of(history, history.head) if at_head else findable_position(history, history.head)
    return CapturePlan(kind=Kind.EMPTY, from_exclusive=committed, to_inclusive=here)


def _before_everything(history: TableHistory) -> Position:
    return position_of(history, None)


def _pinned(history: TableHistory, to: Position) -> SnapshotFacts | None:
    if to.table_uuid != history.table_uuid:
        prove_lineage(history, after=to, to=history.head)  # raises, and says that it is another table
    if to.snapshot_id is None:
        return None
    snapshot = history.snapshot(to.snapshot_id)
    if snapshot is None and findable_position(history, history.head).snapshot_id == to.snapshot_id:
        snapshot = history.head
    if snapshot is None:
        raise GapError(
            f"{history.name} no longer has {to}, the end of the range that this run captured before",
            consequence="The same range cannot be captured again: the snapshot was expired",
            remedy="trigger a new run, whose range starts at the committed checkpoint and so covers this one; "
            "if that is gone too, its error names the choices",
        )
    return snapshot


def _plan_first(history: TableHistory, settings: CaptureSettings, attempts: _Attempts) -> CapturePlan:
    start = settings.start
    if start.kind == "full":
        return _first_full(history, history.head, None, settings, attempts)
    if start.kind == "latest":
        return _nothing(history, None)
    after = starting_position(history, snapshot_id=start.snapshot_id, time_ms=start.time_ms)
    lineage = prove_lineage(history, after=after, to=history.head)
    return _plan_range(history, after, lineage, settings, attempts)


def starting_position(history: TableHistory, *, snapshot_id: int | None, time_ms: int | None) -> Position:
    """Resolve a snapshot id or a time to a position in the branch's lineage; never one that was rolled back."""
    chain: list[SnapshotFacts] = []
    for snapshot in ancestors(history, history.head):
        if snapshot.snapshot_id == snapshot_id:
            return position_of(history, snapshot)
        chain.append(snapshot)
    if snapshot_id is not None:
        raise GapError(
            f"snapshot {snapshot_id} is not in the lineage of {history.name}, branch {history.branch!r}",
            consequence="It was expired, rolled back, or belongs elsewhere, so nothing can start there",
            remedy=f"use one of the {len(chain)} snapshots of the lineage, the oldest being "
            f"{chain[-1].snapshot_id if chain else 'none'}, or 'full'",
        )
    return position_shown_at(history, chain, time_ms or 0)


def _plan_over_gap(history: TableHistory, committed: Position, settings: CaptureSettings, gap: GapError) -> CapturePlan:
    same_table = committed.table_uuid == history.table_uuid
    if same_table and findable_position(history, history.head).snapshot_id == committed.snapshot_id:
        return _nothing(history, committed)
    if settings.on_gap == "full":
        warnings = (f"on_gap='full': {gap.problem}", *((STALE_ROWS,) if settings.captures_changes else ()))
        return _full(history, history.head, committed, warnings=warnings)
    if settings.on_gap == "resync" and same_table:
        if settings.captures_changes:
            raise resync_refused(history, committed, history.head, why=NO_TRACE_OF_REMOVALS)
        return _resync(history, committed, history.head, warnings=(f"on_gap='resync': {gap.problem}",))
    raise gap_of_changes(history, gap) if settings.captures_changes and same_table else gap


def _first_full(
    history: TableHistory,
    to: SnapshotFacts | None,
    committed: Position | None,
    settings: CaptureSettings,
    attempts: _Attempts,
) -> CapturePlan:
    """Everything; and where an earlier full run failed, what it may have written that is gone by now."""
    full = _full(history, to, committed)
    if attempts.first is None or not settings.captures_changes:
        return full
    try:
        lineage = prove_lineage(history, after=attempts.first, to=to)
        _refuse_rolled_back(history, attempts, _ids(attempts.first, lineage))
        lenient = replace(settings, on_superset="allow", max_snapshots=None, max_files=None, max_bytes=None)
        since = _range(history, attempts.first, _judged(history, lineage, to, lenient), to, lenient, supersedes=True)
    except (GapError, RefusedOperationError) as error:
        warning = (
            f"a full run up to {attempts.last} was never committed, and what was removed since cannot be told "
            f"({error.problem}): empty the target before this run if that one wrote to it"
        )
        return replace(full, warnings=(*full.warnings, warning))
    return replace(
        full, before=since.before, before_bytes=since.before_bytes, kind=Kind.FULL if since.before else full.kind
    )


def _full(
    history: TableHistory, to: SnapshotFacts | None, committed: Position | None, *, warnings: tuple[str, ...] = ()
) -> CapturePlan:
    """All of ``to``'s manifests as they are, with the delete files that apply."""
    if to is None:
        return CapturePlan(
            kind=Kind.EMPTY, from_exclusive=committed, to_inclusive=position_of(history, None), warnings=warnings
        )
    manifests = [m for m in _checked(history, to) if may_hold_live(m)]
    holds_data = any(m.content == DATA for m in manifests)
    return CapturePlan(
        kind=Kind.FULL if holds_data else Kind.EMPTY,
        from_exclusive=committed,
        to_inclusive=findable_position(history, to),
        selections=tuple(Selection(manifest=m, take=Take.WHOLE) for m in manifests) if holds_data else (),
        warnings=warnings,
    )


def _checked(history: TableHistory, to: SnapshotFacts) -> Sequence[ManifestFacts]:
    manifests = history.reads_manifests(to.snapshot_id)
    check_listed(history.name, to, manifests)
    return manifests


def _resync(
    history: TableHistory, committed: Position, to: SnapshotFacts | None, *, warnings: tuple[str, ...] = ()
) -> CapturePlan:
    """Select live files by sequence number; refused wherever numbers prove nothing."""
    foreseen = foresee_resync(history, committed, to)
    if to is None or foreseen.refusal:
        raise resync_refused(history, committed, to, why=foreseen.refusal)
    live = [m for m in _checked(history, to) if may_hold_live(m)]
    # With every live file comes every delete file: one that is older than the checkpoint may apply to a compacted file.
    floor = 0 if foreseen.takes_all else committed.sequence_number
    selections = [
        Selection(manifest=m, take=Take.WHOLE)
        if m.content == DELETES or m.min_sequence_number > floor
        else Selection(manifest=m, take=Take.NEWER, newer_than=floor)
        for m in live
        if m.sequence_number > floor
    ]
    holds_data = any(s.manifest.content == DATA for s in selections)
    return CapturePlan(
        kind=Kind.RESYNC if holds_data else Kind.EMPTY,
        from_exclusive=committed,
        to_inclusive=findable_position(history, to),
        selections=tuple(selections) if holds_data else (),
        warnings=(*warnings, f"what this resync holds: {foreseen}"),
    )


def _plan_range(
    history: TableHistory,
    after: Position,
    lineage: Lineage,
    settings: CaptureSettings,
    attempts: _Attempts,
) -> CapturePlan:
    _refuse_rolled_back(history, attempts, _ids(after, lineage))
    to = lineage.snapshots[-1] if lineage.snapshots else None
    if to is None:
        return _nothing(history, after)
    # What a run that failed may have written has to be in this range, or no later one would take it back.
    unbounded = 0 if attempts.last is None else _ids(after, lineage).index(attempts.last.snapshot_id)
    judged = _limited(_judged(history, lineage, to, settings, unbounded), settings, unbounded)
    end = history.snapshot(judged[-1].verdict.snapshot_id)
    return _range(history, after, judged, end, settings, supersedes=bool(attempts))


def _ids(after: Position, lineage: Lineage) -> list[int | None]:
    return [after.snapshot_id, *(s.snapshot_id for s in lineage.snapshots)]


def _refuse_rolled_back(history: TableHistory, attempts: _Attempts, lineage: Sequence[int | None]) -> None:
    gone = next((a for a in (attempts.first, attempts.last) if a and a.snapshot_id not in lineage), None)
    if gone is None:
        return
    raise GapError(
        f"a run that was never committed captured {history.name} up to {gone}, which is not in the lineage of "
        f"branch {history.branch!r}: the table was rolled back since",
        consequence="That run may have written rows, or removed some, that the table's history no longer accounts for",
        remedy="rebuild the target: `airflow ips reset`, then a run with initial='full'",
    )


def _judged(
    history: TableHistory, lineage: Lineage, to: SnapshotFacts | None, settings: CaptureSettings, unbounded: int = 0
) -> list[Judged]:
    """Judge oldest first, and lazily enough that a limit ends the range before a snapshot it need not look at.

    No limit ends it within the first ``unbounded`` snapshots.
    """
    if to is None:
        return []
    listed = _listed_at_end(history, lineage, to) if _any_but_replace(lineage) else {}
    judged: list[Judged] = []
    taken = Taken(settings)
    previous = _parent(history, lineage)
    for snapshot in lineage.snapshots:
        item = judge(history, snapshot, previous, listed.get(snapshot.snapshot_id, ()), settings)
        previous = snapshot
        if item.verdict.decision is Decision.REFUSED:
            raise _refused(history, item, lineage, settings)
        judged.append(item)
        taken.add(item.verdict)
        if taken.is_full and len(judged) >= unbounded:
            break
    return judged


def _any_but_replace(lineage: Lineage) -> bool:
    """A range of compactions alone reads no manifest list at all."""
    return any(snapshot.operation != "replace" for snapshot in lineage.snapshots)


def _parent(history: TableHistory, lineage: Lineage) -> SnapshotFacts | None:
    first = lineage.snapshots[0] if lineage.snapshots else None
    return None if first is None or first.parent_id is None else history.snapshot(first.parent_id)


def _listed_at_end(
    history: TableHistory, lineage: Lineage, to: SnapshotFacts
) -> Mapping[int | None, Sequence[ManifestFacts]]:
    """What the end of the range still lists, by the snapshot of the range that wrote it."""
    grouped: dict[int | None, list[ManifestFacts]] = defaultdict(list)
    writers = {snapshot.snapshot_id for snapshot in lineage.snapshots}
    for manifest in history.reads_manifests_written_by(to.snapshot_id, writers):
        grouped[manifest.added_snapshot_id].append(manifest)
    return grouped


def _refused(history: TableHistory, item: Judged, lineage: Lineage, settings: CaptureSettings) -> RefusedOperationError:
    at = next(i for i, s in enumerate(lineage.snapshots) if s.snapshot_id == item.verdict.snapshot_id)
    if settings.captures_changes:
        return RefusedOperationError(
            f"{history.name}: {lineage.snapshots[at]} cannot be captured: {item.verdict.reason}",
            consequence="What it changed cannot be told; nothing was captured and the checkpoint stays",
            remedy="pause the DAG, rebuild the target from the whole table, and set the checkpoint behind it by "
            f"`airflow ips reset --table {history.name}` and `airflow ips seed --table {history.name} "
            f"--snapshot {item.verdict.snapshot_id}`, both with --consumer",
        )
    tried = "" if settings.on_other_operation == "skip_retention" else "'skip_retention' if it is daily retention, or "
    return RefusedOperationError(
        f"{history.name}: {lineage.snapshots[at]} is not an append: {item.verdict.reason}",
        consequence="Capturing only what was added would leave out, or repeat, rows that it changed; "
        "nothing was captured and the checkpoint stays",
        remedy=f"set on_other_operation={tried}'skip' if the log of appends is right whatever else happens; or pause "
        "the DAG, process the table in full once, and set the checkpoint behind it by "
        f"`airflow ips reset --table {history.name}` and `airflow ips seed --table {history.name} "
        f"--snapshot {item.verdict.snapshot_id}`, both with --consumer",
    )


def _limited(judged: list[Judged], settings: CaptureSettings, unbounded: int) -> list[Judged]:
    """Cut before the first snapshot that breaks a limit; the first captured one always fits."""
    kept: list[Judged] = []
    taken = Taken(settings)
    for item in judged:
        if len(kept) >= unbounded and not taken.has_room_for(item.verdict):
            break
        taken.add(item.verdict)
        kept.append(item)
    return kept


def _range(
    history: TableHistory,
    after: Position,
    judged: Sequence[Judged],
    to: SnapshotFacts | None,
    settings: CaptureSettings,
    *,
    supersedes: bool,
) -> CapturePlan:
    check_retired(history, judged)
    if to is not None and has_changes(judged):
        return _changes(history, after, judged, to, settings, supersedes=supersedes)
    selections = tuple(
        Selection(manifest=m, take=Take.WHOLE if is_pure(m) else Take.ADDED) for item in judged for m in item.manifests
    )
    return CapturePlan(
        kind=Kind.RANGE if selections else Kind.EMPTY,
        from_exclusive=after,
        to_inclusive=position_of(history, to),
        verdicts=tuple(item.verdict for item in judged),
        selections=selections,
        no_predicate="not needed: the capture is row-exact",
    )


def _changes(
    history: TableHistory,
    after: Position,
    judged: Sequence[Judged],
    to: SnapshotFacts,
    settings: CaptureSettings,
    *,
    supersedes: bool,
) -> CapturePlan:
    steps = read_steps(history, judged)
    plan = plan_changes(history, after=after, steps=steps, to=to, settings=settings, supersedes=supersedes)
    return CapturePlan(
        kind=Kind.RANGE if plan.source or plan.before else Kind.EMPTY,
        from_exclusive=after,
        to_inclusive=position_of(history, to),
        verdicts=tuple(item.verdict for item in judged),
        selections=plan.source,
        before=plan.before,
        size_bytes=plan.size_bytes,
        before_bytes=plan.before_bytes,
        superset=plan.superset,
        predicate=plan.predicate,
        no_predicate=plan.no_predicate,
    )


def is_pure(manifest: ManifestFacts) -> bool:
    """Every entry was added by the manifest's own snapshot, so its bytes can be copied unread."""
    return manifest.existing_files == 0 and manifest.deleted_files == 0
