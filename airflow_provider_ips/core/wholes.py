"""Captures of what is live, without a range: everything, or all that is newer than a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.attempts import ids_of, refuse_rolled_back
from airflow_provider_ips.core.errors import GapError, RefusedOperationError
from airflow_provider_ips.core.gaps import foresee_resync, may_hold_live, resync_refused
from airflow_provider_ips.core.history import DATA, DELETES, position_of
from airflow_provider_ips.core.lineage import prove_lineage
from airflow_provider_ips.core.ranges import judged_range, range_of
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.selection import CapturePlan, Selection, Take
from airflow_provider_ips.core.totals import check_listed
from airflow_provider_ips.core.traces import findable_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.core.attempts import Attempts
    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.settings import CaptureSettings


def first_full(
    history: TableHistory,
    to: SnapshotFacts | None,
    committed: Position | None,
    settings: CaptureSettings,
    attempts: Attempts,
) -> CapturePlan:
    """Everything; and where an earlier full run failed, what it may have written that is gone by now."""
    full = everything(history, to, committed)
    if attempts.first is None or not settings.captures_changes:
        return full
    try:
        lineage = prove_lineage(history, after=attempts.first, to=to)
        refuse_rolled_back(history, attempts, ids_of(attempts.first, lineage))
        lenient = replace(settings, on_superset="allow", max_snapshots=None, max_files=None, max_bytes=None)
        since = range_of(
            history, attempts.first, judged_range(history, lineage, to, lenient), to, lenient, supersedes=True
        )
    except (GapError, RefusedOperationError) as error:
        warning = (
            f"a full run up to {attempts.last} was never committed, and what was removed since cannot be told "
            f"({error.problem}): empty the target before this run if that one wrote to it"
        )
        return replace(full, warnings=(*full.warnings, warning))
    return replace(
        full, before=since.before, before_bytes=since.before_bytes, kind=Kind.FULL if since.before else full.kind
    )


def everything(
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


def newer_than(
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


def _checked(history: TableHistory, to: SnapshotFacts) -> Sequence[ManifestFacts]:
    manifests = history.reads_manifests(to.snapshot_id)
    check_listed(history.name, to, manifests)
    return manifests
