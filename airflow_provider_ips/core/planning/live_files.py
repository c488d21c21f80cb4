"""Captures of live files instead of a range: all of them, or those that are newer than a checkpoint by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from airflow_provider_ips.core.errors import GapError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.history.files import DATA, DELETES, ManifestFacts
from airflow_provider_ips.core.history.selections import CapturePlan, Selection, Take
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, position_of
from airflow_provider_ips.core.lineage.resync import preview_resync
from airflow_provider_ips.core.lineage.walk import OLD_ROWS_IN_TARGET, prove_lineage, resync_error
from airflow_provider_ips.core.planning.ranges import judge_range, plan_range, without_limits
from airflow_provider_ips.core.planning.uncommitted import UncommittedCaptures, refuse_rolled_back
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import CaptureSettings


def plan_live_files(
    history: TableHistory,
    to: SnapshotFacts | None,
    committed: Position | None,
    *,
    warnings: tuple[str, ...] = (),
    even_if_empty: bool = True,
) -> CapturePlan:
    """Plan all live files of ``to`` with the delete files that apply: its manifests as they are.

    A table without rows is captured as such: a full refresh has to empty the target. ``even_if_empty`` is False for a
    first run that has no target to empty, because no run before it may have written.
    """
    manifests = [] if to is None else _live_manifests(history, to)
    selections = tuple(Selection(manifest=m, take=Take.WHOLE) for m in manifests)
    has_data = _have_data(selections)
    return CapturePlan(
        kind=Kind.FULL if has_data or even_if_empty else Kind.EMPTY,
        from_exclusive=committed,
        to_inclusive=position_of(history, to),
        selections=selections if has_data else (),
        warnings=warnings,
    )


def plan_full_capture(
    history: TableHistory,
    to: SnapshotFacts | None,
    committed: Position | None,
    settings: CaptureSettings,
    uncommitted: UncommittedCaptures,
    *,
    even_if_empty: bool = True,
) -> CapturePlan:
    """Plan all live files; after a full run that was not committed, also what it may have written and is outdated.

    Example: a first run captured the table at snapshot 5 and failed after it had written. Snapshot 6 removes the file
    ``a``. The next run captures the table at 6, with ``a`` in ``<source>.before``, so that its rows can be removed.
    """
    first = uncommitted.first_end
    has_old_rows = committed is not None and settings.captures_changes
    warnings = (OLD_ROWS_IN_TARGET,) if has_old_rows else ()
    full = plan_live_files(history, to, committed, warnings=warnings, even_if_empty=even_if_empty)
    if first is None or not settings.captures_changes:
        return full
    try:
        lineage = prove_lineage(history, after=first, to=to)
        refuse_rolled_back(history, uncommitted, lineage.ids_from(first))
        lenient = replace(without_limits(settings), on_superset="allow")
        judged = judge_range(history, lineage, to, lenient)
        since = plan_range(history, first, judged, to, lenient, has_uncommitted=True)
    except (GapError, RefusedOperationError) as error:
        warning = (
            f"a full run up to {uncommitted.last_end} was never committed, and what was removed since is unknown "
            f"({error.problem}): empty the target before this run if that one wrote to it"
        )
        return replace(full, warnings=(*full.warnings, warning))
    return replace(full, before=since.before, before_bytes=since.before_bytes)


def plan_resync(
    history: TableHistory, committed: Position, to: SnapshotFacts | None, *, warnings: tuple[str, ...] = ()
) -> CapturePlan:
    """Plan the live files with a sequence number above the checkpoint's; refused wherever numbers prove nothing."""
    preview = preview_resync(history, committed, to)
    if to is None or preview.refusal:
        raise resync_error(history, committed, to, why=preview.refusal)
    # All live files need all delete files: an older delete file may apply to a newer file that compaction wrote.
    above = 0 if preview.takes_all else committed.sequence_number
    selections = tuple(_newer(m, above) for m in _live_manifests(history, to) if m.sequence_number > above)
    has_data = _have_data(selections)
    return CapturePlan(
        kind=Kind.RESYNC if has_data else Kind.EMPTY,
        from_exclusive=committed,
        to_inclusive=position_of(history, to),
        selections=selections if has_data else (),
        warnings=(*warnings, *_unproven(history, committed), f"what this resync holds: {preview}"),
    )


def _unproven(history: TableHistory, after: Position) -> tuple[str, ...]:
    """Say what cannot be proven of a snapshot that has expired, and that someone names by its id alone."""
    if after.evidence is not None or after.snapshot_id is None or history.snapshot(after.snapshot_id) is not None:
        return ()
    warning = (
        f"of snapshot {after.snapshot_id} only the id is known: if delete files applied to rows of that time and were "
        "removed since without those rows, then rows that are live again are missing here; on_gap='full' has them"
    )
    return (warning,)


def _newer(manifest: ManifestFacts, above: int) -> Selection:
    if manifest.content == DELETES or manifest.min_sequence_number > above:
        return Selection(manifest=manifest, take=Take.WHOLE)
    return Selection(manifest=manifest, take=Take.NEWER, newer_than=above)


def _have_data(selections: Sequence[Selection]) -> bool:
    return any(selection.manifest.content == DATA for selection in selections)


def _live_manifests(history: TableHistory, to: SnapshotFacts) -> list[ManifestFacts]:
    manifests = history.reads_manifests(to.snapshot_id)
    check_manifest_list(history.name, to, manifests)
    return [m for m in manifests if m.may_have_live_files]


_FILE_TOTALS: Final = (
    (DATA, "total-data-files", "data files"),
    (DELETES, "total-delete-files", "delete files"),
)


def check_manifest_list(name: str, snapshot: SnapshotFacts, manifests: Sequence[ManifestFacts]) -> None:
    """Refuse a manifest list that names fewer files or rows than its snapshot's summary: it was cut off.

    Summary: total-data-files 3. Manifests list 1 + 1 live files: refused.
    Manifests list 2 + 2: more than the summary says is not a sign of a cut.
    The summary has no total, or the list no count: nothing is known, and nothing refused.
    """
    for content, total_name, words in _FILE_TOTALS:
        counts = [m.live_files for m in manifests if m.content == content]
        _refuse_fewer(name, snapshot, words, counts, snapshot.count(total_name))
    rows = [m.live_rows for m in manifests if m.content == DATA]
    _refuse_fewer(name, snapshot, "rows", rows, snapshot.count("total-records"))


def _refuse_fewer(
    name: str, snapshot: SnapshotFacts, words: str, counts: Sequence[int | None], total: int | None
) -> None:
    if total is None or None in counts:
        return
    listed = sum(count or 0 for count in counts)
    if listed < total:
        raise UnsupportedTableError(
            f"the manifest list of {name}, {snapshot}, names {listed} {words}; the snapshot counts {total}",
            consequence="The list was cut off or overwritten, so files would be missing from the capture",
            remedy="check the storage and restore the list; if an engine reads all rows of the table, a writer "
            "counted wrong: process the table in full once, then set the checkpoint to its head by `airflow ips seed`",
        )
