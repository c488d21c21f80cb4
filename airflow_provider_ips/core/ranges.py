"""A proven range: a verdict on each snapshot, a limit to how far it goes, and which manifest entries to move."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from airflow_provider_ips.core.change import has_changes, plan_changes, read_steps
from airflow_provider_ips.core.errors import RefusedOperationError
from airflow_provider_ips.core.history import position_of
from airflow_provider_ips.core.limits import Taken
from airflow_provider_ips.core.record import Decision, Kind
from airflow_provider_ips.core.retired import check_retired
from airflow_provider_ips.core.selection import CapturePlan, Selection, Take
from airflow_provider_ips.core.verdicts import Judged, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory
    from airflow_provider_ips.core.lineage import Lineage
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.settings import CaptureSettings


def judged_range(
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


def limited(judged: list[Judged], settings: CaptureSettings, unbounded: int) -> list[Judged]:
    """Cut before the first snapshot that breaks a limit; the first captured one always fits."""
    kept: list[Judged] = []
    taken = Taken(settings)
    for item in judged:
        if len(kept) >= unbounded and not taken.has_room_for(item.verdict):
            break
        taken.add(item.verdict)
        kept.append(item)
    return kept


def range_of(
    history: TableHistory,
    after: Position,
    judged: Sequence[Judged],
    to: SnapshotFacts | None,
    settings: CaptureSettings,
    *,
    supersedes: bool,
) -> CapturePlan:
    """Take what the verdicts allow, up to ``to``. ``supersedes``: a run of the same start failed."""
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
