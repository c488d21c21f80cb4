"""What one capture of one source takes: the range, a verdict per snapshot, and which manifest entries to move."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError
from airflow_provider_ips.core.gaps import foresee_resync, may_hold_live, resync_refused
from airflow_provider_ips.core.history import DATA, DELETES, head_position, position_of, walk_back
from airflow_provider_ips.core.lineage import prove_lineage
from airflow_provider_ips.core.positions import Position, format_time
from airflow_provider_ips.core.record import Decision, Kind, Verdict
from airflow_provider_ips.core.roots import is_proven_root
from airflow_provider_ips.core.selection import CapturePlan, Selection, Take
from airflow_provider_ips.core.totals import check_listed
from airflow_provider_ips.core.verdicts import Judged, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory
    from airflow_provider_ips.core.lineage import Lineage
    from airflow_provider_ips.core.settings import CaptureSettings


def plan_capture(history: TableHistory, *, committed: Position | None, settings: CaptureSettings) -> CapturePlan:
    """Plan the next capture: what was appended after ``committed``, or a first run by ``settings.initial``."""
    head = history.head
    if committed is None:
        return _plan_first(history, settings)
    if _stands_at_head(history, committed):
        return _nothing(history, committed)
    try:
        lineage = prove_lineage(history, after=committed, to=head)
    except GapError as gap:
        return _plan_over_gap(history, committed, settings, gap)
    return _plan_range(history, committed, lineage, settings)


def replan(
    history: TableHistory,
    *,
    kind: Kind,
    from_exclusive: Position | None,
    to_inclusive: Position,
    settings: CaptureSettings,
) -> CapturePlan:
    """Plan the very range of an earlier attempt again, whatever was committed since. Limits are not applied."""
    to = _pinned(history, to_inclusive)
    if kind is Kind.FULL:
        return _full(history, to, from_exclusive)
    if kind is Kind.RESYNC and from_exclusive is not None:
        return _resync(history, from_exclusive, to)
    if kind is Kind.EMPTY:
        return CapturePlan(kind=Kind.EMPTY, from_exclusive=from_exclusive, to_inclusive=to_inclusive)
    start = from_exclusive or _before_everything(history)
    lineage = prove_lineage(history, after=start, to=to)
    unlimited = replace(settings, max_snapshots=None, max_files=None, max_bytes=None)
    return _range(history, start, _judged(history, lineage, to, unlimited), to)


def _stands_at_head(history: TableHistory, committed: Position) -> bool:
    """The commonest case, and it must cost no file read."""
    head_id = history.head.snapshot_id if history.head else None
    return committed.table_uuid == history.table_uuid and committed.snapshot_id == head_id


def _nothing(history: TableHistory, committed: Position | None) -> CapturePlan:
    return CapturePlan(kind=Kind.EMPTY, from_exclusive=committed, to_inclusive=head_position(history))


def _before_everything(history: TableHistory) -> Position:
    return position_of(history, None)


def _pinned(history: TableHistory, to: Position) -> SnapshotFacts | None:
    if to.table_uuid != history.table_uuid:
        prove_lineage(history, after=to, to=history.head)  # raises, and says that it is another table
    if to.snapshot_id is None:
        return None
    snapshot = history.snapshot(to.snapshot_id)
    if snapshot is None:
        raise GapError(
            f"{history.name} no longer has {to}, the end of the range that this run captured before",
            consequence="The same range cannot be captured again: the snapshot was expired",
            remedy="trigger a new run, whose range starts at the committed checkpoint and so covers this one; "
            "if that is gone too, its error names the choices",
        )
    return snapshot


def _plan_first(history: TableHistory, settings: CaptureSettings) -> CapturePlan:
    start = settings.start
    if start.kind == "full":
        return _full(history, history.head, None)
    if start.kind == "latest":
        return _nothing(history, None)
    after = starting_position(history, snapshot_id=start.snapshot_id, time_ms=start.time_ms)
    lineage = prove_lineage(history, after=after, to=history.head)
    return _plan_range(history, after, lineage, settings)


def starting_position(history: TableHistory, *, snapshot_id: int | None, time_ms: int | None) -> Position:
    """Resolve a snapshot id or a time to a position in the branch's lineage; never one that was rolled back."""
    chain = walk_back(history, history.head)
    if snapshot_id is not None:
        for snapshot in chain:
            if snapshot.snapshot_id == snapshot_id:
                return position_of(history, snapshot)
        raise GapError(
            f"snapshot {snapshot_id} is not in the lineage of {history.name}, branch {history.branch!r}",
            consequence="It was expired, rolled back, or belongs elsewhere, so nothing can start there",
            remedy=f"use one of the {len(chain)} snapshots of the lineage, the oldest being "
            f"{chain[-1].snapshot_id if chain else 'none'}, or 'full'",
        )
    return _position_at(history, chain, time_ms or 0)


def _position_at(history: TableHistory, chain: Sequence[SnapshotFacts], time_ms: int) -> Position:
    published = _published_at(history, time_ms)
    for snapshot in chain:
        if snapshot.committed_at_ms <= time_ms and (published is None or snapshot.snapshot_id in published):
            return position_of(history, snapshot)
    if not chain or is_proven_root(history, chain[-1]):
        return _before_everything(history)
    raise GapError(
        f"{format_time(time_ms)} lies before the retained history of {history.name}, which begins at {chain[-1]}",
        consequence="Which files were added between the two can no longer be told",
        remedy=f"use a time from {format_time(chain[-1].committed_at_ms)} on, or 'full'",
    )


def _published_at(history: TableHistory, time_ms: int) -> set[int] | None:
    """What readers of the branch saw at a time: a snapshot may be published long after it was written, by a branch."""
    head_id = history.head_at(time_ms)
    head = None if head_id is None else history.snapshot(head_id)
    return None if head is None else {snapshot.snapshot_id for snapshot in walk_back(history, head)}


def _plan_over_gap(history: TableHistory, committed: Position, settings: CaptureSettings, gap: GapError) -> CapturePlan:
    if settings.on_gap == "full":
        return _full(history, history.head, committed, warnings=(f"on_gap='full': {gap.problem}",))
    if settings.on_gap == "resync" and committed.table_uuid == history.table_uuid:
        return _resync(history, committed, history.head, warnings=(f"on_gap='resync': {gap.problem}",))
    raise gap


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
        to_inclusive=position_of(history, to),
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
    floor = committed.sequence_number
    newer = [m for m in _checked(history, to) if may_hold_live(m) and m.sequence_number > floor]
    selections = [
        Selection(manifest=m, take=Take.WHOLE)
        if m.content == DELETES or m.min_sequence_number > floor
        else Selection(manifest=m, take=Take.NEWER, newer_than=floor)
        for m in newer
    ]
    holds_data = any(s.manifest.content == DATA for s in selections)
    return CapturePlan(
        kind=Kind.RESYNC if holds_data else Kind.EMPTY,
        from_exclusive=committed,
        to_inclusive=position_of(history, to),
        selections=tuple(selections) if holds_data else (),
        warnings=(*warnings, f"what this resync holds: {foreseen}"),
    )


def _plan_range(history: TableHistory, after: Position, lineage: Lineage, settings: CaptureSettings) -> CapturePlan:
    to = lineage.snapshots[-1] if lineage.snapshots else None
    if to is None:
        return _nothing(history, after)
    judged = _limited(_judged(history, lineage, to, settings), settings)
    return _range(history, after, judged, history.snapshot(judged[-1].verdict.snapshot_id))


def _judged(
    history: TableHistory, lineage: Lineage, to: SnapshotFacts | None, settings: CaptureSettings
) -> list[Judged]:
    """Judge oldest first, and lazily enough that a limit ends the range before a snapshot it need not look at."""
    if to is None:
        return []
    listed = _by_snapshot(history.reads_manifests(to.snapshot_id)) if _any_but_replace(lineage) else {}
    judged: list[Judged] = []
    previous = _parent(history, lineage)
    for snapshot in lineage.snapshots:
        item = judge(history, snapshot, previous, listed.get(snapshot.snapshot_id, ()), settings)
        previous = snapshot
        if item.verdict.decision is Decision.REFUSED:
            raise _refused(history, item, lineage)
        judged.append(item)
        if _limit_reached(judged, settings):
            break
    return judged


def _any_but_replace(lineage: Lineage) -> bool:
    """A range of compactions alone reads no manifest list at all."""
    return any(snapshot.operation != "replace" for snapshot in lineage.snapshots)


def _parent(history: TableHistory, lineage: Lineage) -> SnapshotFacts | None:
    first = lineage.snapshots[0] if lineage.snapshots else None
    return None if first is None or first.parent_id is None else history.snapshot(first.parent_id)


def _by_snapshot(manifests: Iterable[ManifestFacts]) -> Mapping[int | None, Sequence[ManifestFacts]]:
    grouped: dict[int | None, list[ManifestFacts]] = defaultdict(list)
    for manifest in manifests:
        grouped[manifest.added_snapshot_id].append(manifest)
    return grouped


def _refused(history: TableHistory, item: Judged, lineage: Lineage) -> RefusedOperationError:
    at = next(i for i, s in enumerate(lineage.snapshots) if s.snapshot_id == item.verdict.snapshot_id)
    return RefusedOperationError(
        f"{history.name}: {lineage.snapshots[at]} is not an append: {item.verdict.reason}",
        consequence="Capturing only what was added would leave out, or repeat, rows that it changed; "
        "nothing was captured and the checkpoint stays",
        remedy="set on_other_operation='skip' if the log of appends is right whatever else happens (daily retention, "
        "for example); or pause the DAG, process the table in full once, and set the checkpoint behind it by "
        f"`airflow ips reset --table {history.name}` and `airflow ips seed --table {history.name} "
        f"--snapshot {item.verdict.snapshot_id}`, both with --consumer",
    )


def _limited(judged: list[Judged], settings: CaptureSettings) -> list[Judged]:
    """Cut before the first snapshot that breaks a limit; the first captured one always fits."""
    kept: list[Judged] = []
    for item in judged:
        if _exceeds([*kept, item], settings) and any(_captures(k) for k in kept):
            break
        kept.append(item)
    return kept


def _captures(item: Judged) -> bool:
    return item.verdict.decision is Decision.CAPTURED


def _limit_reached(judged: list[Judged], settings: CaptureSettings) -> bool:
    return any(_captures(item) for item in judged) and _exceeds(judged, settings, at_least=True)


def _exceeds(judged: list[Judged], settings: CaptureSettings, *, at_least: bool = False) -> bool:
    captured = [item.verdict for item in judged if _captures(item)]
    totals = (
        (settings.max_snapshots, len(captured)),
        (settings.max_files, sum(v.files or 0 for v in captured)),
        (settings.max_bytes, _known_bytes(captured, settings)),
    )
    return any(limit is not None and (total >= limit if at_least else total > limit) for limit, total in totals)


def _known_bytes(captured: Sequence[Verdict], settings: CaptureSettings) -> int:
    unknown = next((v for v in captured if v.size_bytes is None), None)
    if unknown is not None and settings.max_bytes is not None:
        raise InputError(
            f"max_bytes={settings.max_bytes} cannot be kept: snapshot {unknown.snapshot_id} does not say how many "
            "bytes it added",
            consequence="The limit would be ignored without anyone noticing",
            remedy="use max_snapshots or max_files for this table",
        )
    return sum(v.size_bytes or 0 for v in captured)


def _range(history: TableHistory, after: Position, judged: Sequence[Judged], to: SnapshotFacts | None) -> CapturePlan:
    selections = tuple(
        Selection(manifest=m, take=Take.WHOLE if is_pure(m) else Take.ADDED) for item in judged for m in item.manifests
    )
    return CapturePlan(
        kind=Kind.RANGE if selections else Kind.EMPTY,
        from_exclusive=after,
        to_inclusive=position_of(history, to),
        verdicts=tuple(item.verdict for item in judged),
        selections=selections,
    )


def is_pure(manifest: ManifestFacts) -> bool:
    """Every entry was added by the manifest's own snapshot, so its bytes can be copied unread."""
    return manifest.existing_files == 0 and manifest.deleted_files == 0
