"""A proven range: a verdict on each of its snapshots, where limits end it, and the manifest entries that it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from airflow_provider_ips.core.changes.change_tables import plan_change_tables
from airflow_provider_ips.core.changes.effects import SnapshotEffect, read_effect
from airflow_provider_ips.core.changes.refusals import refuse_removed_twice
from airflow_provider_ips.core.errors import InputError, RefusedOperationError
from airflow_provider_ips.core.history.files import DATA, DeleteScope, FileFacts, ManifestFacts, Partition
from airflow_provider_ips.core.history.selections import ROW_EXACT, CapturePlan, Selection, Take
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, position_of
from airflow_provider_ips.core.lineage.walk import Lineage
from airflow_provider_ips.core.planning.verdicts import (
    JudgedSnapshot,
    judge,
    listed_at_end,
    set_checkpoint_to,
    written_manifests,
)
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Decision, Kind, Verdict
from airflow_provider_ips.core.settings import CaptureSettings

CAPTURE_CHANGES: Final = 'capture changes too: data_operations=("append", "overwrite", "delete")'
"""The way on for a job whose target is to follow changes of the source."""


def judge_range(
    history: TableHistory, lineage: Lineage, to: SnapshotFacts | None, settings: CaptureSettings, required: int = 0
) -> list[JudgedSnapshot]:
    """Judge the snapshots of a range, oldest first, and end it before the first one that would exceed a limit.

    Snapshots beyond the limit are not judged, so that one that would be refused does not stop what comes before it.
    Limits do not apply to the first ``required`` snapshots.

    With max_files=5, and snapshots that add 3, 2 and 1 files: the first two.
    With max_files=5, and snapshots that add 8 and 1 files: the first, because a range takes whole snapshots.
    """
    if to is None:
        return []
    listed = listed_at_end(history, lineage, to)
    judged: list[JudgedSnapshot] = []
    totals = _Totals(settings)
    previous = _parent_of_first(history, lineage)
    for snapshot in lineage.snapshots:
        item = judge(history, snapshot, previous, listed.get(snapshot.snapshot_id, ()), settings)
        previous = snapshot
        if item.verdict.decision is Decision.REFUSED:
            raise _refusal(history, snapshot, item.verdict, settings)
        is_required = len(judged) < required
        if not is_required and not totals.have_room_for(item.verdict):
            break
        judged.append(item)
        totals.add(item.verdict)
        if totals.are_reached and len(judged) >= required:
            break
    return judged


def without_limits(settings: CaptureSettings) -> CaptureSettings:
    """The same settings for a range whose end is given."""
    return replace(settings, max_snapshots=None, max_files=None, max_bytes=None)


def plan_range(
    history: TableHistory,
    after: Position,
    judged: Sequence[JudgedSnapshot],
    to: SnapshotFacts | None,
    settings: CaptureSettings,
    *,
    has_uncommitted: bool,
) -> CapturePlan:
    """Plan a range whose snapshots were judged. ``has_uncommitted``: an earlier run may have written from its start on.

    Without any change the range is the log of its appends, and no manifest is opened for it.
    """
    if any(item.retention_manifests for item in judged):
        _check_retention_deletes(history, judged)
    verdicts = tuple(item.verdict for item in judged)
    if to is not None and any(item.is_change for item in judged):
        effects = _read_effects(history, judged)
        refuse_removed_twice(history, effects)
        plan = plan_change_tables(
            history, after=after, effects=effects, to=to, settings=settings, has_uncommitted=has_uncommitted
        )
        return replace(plan, verdicts=verdicts)
    selections = tuple(
        Selection(manifest=m, take=Take.WHOLE if holds_only_additions(m) else Take.ADDED)
        for item in judged
        for m in item.manifests
    )
    return CapturePlan(
        kind=Kind.RANGE if selections else Kind.EMPTY,
        from_exclusive=after,
        to_inclusive=position_of(history, to),
        verdicts=verdicts,
        selections=selections,
        no_predicate=ROW_EXACT,
    )


def _read_effects(history: TableHistory, judged: Sequence[JudgedSnapshot]) -> list[SnapshotEffect]:
    """Read what every snapshot of a range did, compactions included."""
    effects: list[SnapshotEffect] = []
    for item in judged:
        snapshot = history.snapshot(item.verdict.snapshot_id)
        if snapshot is not None:
            is_compaction = snapshot.operation == "replace"
            manifests = written_manifests(history, snapshot) if is_compaction else item.manifests
            effects.append(read_effect(history, snapshot, manifests))
    return effects


def holds_only_additions(manifest: ManifestFacts) -> bool:
    """Whether the manifest's own snapshot added every entry, so that its bytes can be copied without decoding them."""
    return manifest.existing_files == 0 and manifest.deleted_files == 0


def _parent_of_first(history: TableHistory, lineage: Lineage) -> SnapshotFacts | None:
    first = lineage.snapshots[0] if lineage.snapshots else None
    return None if first is None or first.parent_id is None else history.snapshot(first.parent_id)


def _refusal(
    history: TableHistory, snapshot: SnapshotFacts, verdict: Verdict, settings: CaptureSettings
) -> RefusedOperationError:
    by_hand = set_checkpoint_to(history, snapshot)
    if settings.captures_changes:
        return RefusedOperationError(
            f"{history.name}: {snapshot} cannot be captured: {verdict.reason}",
            consequence="What it changed is unknown; nothing was captured and the checkpoint stays",
            remedy=f"pause the DAG, rebuild the target from the whole table, and {by_hand}",
        )
    tried = "" if settings.on_other_operation == "skip_retention" else "'skip_retention' if it is daily retention, or "
    return RefusedOperationError(
        f"{history.name}: {snapshot} is not an append: {verdict.reason}",
        consequence="Capturing only what was added would leave out, or repeat, rows that it changed; "
        "nothing was captured and the checkpoint stays",
        remedy=f"{CAPTURE_CHANGES}; or set on_other_operation={tried}'skip' if the log "
        f"of appends is right whatever else happens; or pause the DAG, process the table in full once, and {by_hand}",
    )


class _Totals:
    """What the captured snapshots of a range add up to, against its limits. A range may have ten thousand of them."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        self._snapshots = self._files = self._bytes = 0

    def add(self, verdict: Verdict) -> None:
        if verdict.decision is Decision.CAPTURED:
            self._snapshots, self._files, self._bytes = self._with(verdict)

    @property
    def are_reached(self) -> bool:
        """No further snapshot that adds a file has room."""
        totals = (self._snapshots, self._files, self._bytes)
        return self._snapshots > 0 and any(total >= limit for limit, total in self._limited(totals))

    def have_room_for(self, verdict: Verdict) -> bool:
        """The first captured snapshot always has room."""
        if verdict.decision is not Decision.CAPTURED or not self._snapshots:
            return True
        return all(total <= limit for limit, total in self._limited(self._with(verdict)))

    def _with(self, verdict: Verdict) -> tuple[int, int, int]:
        if verdict.size_bytes is None and self._settings.max_bytes is not None:
            raise InputError(
                f"max_bytes={self._settings.max_bytes} cannot be kept: snapshot {verdict.snapshot_id} does not say how "
                "many bytes it added",
                consequence="The limit would be ignored without anyone noticing",
                remedy="use max_snapshots or max_files for this table",
            )
        return self._snapshots + 1, self._files + (verdict.files or 0), self._bytes + (verdict.size_bytes or 0)

    def _limited(self, totals: tuple[int, int, int]) -> Iterable[tuple[int, int]]:
        limits = (self._settings.max_snapshots, self._settings.max_files, self._settings.max_bytes)
        return ((limit, total) for limit, total in zip(limits, totals, strict=True) if limit is not None)


def _check_retention_deletes(history: TableHistory, judged: Sequence[JudgedSnapshot]) -> None:
    """Refuse a range if a delete that was judged to be retention (``skip_retention``) was more.

    It was retention if the partitions that it removed files from gained nothing in the range. Then no row that it
    removed was appended in the range, whatever the files' sequence numbers are, because compaction keeps rows in their
    partition:

        append to day 7, delete day 1          retention: skipped
        append to day 1, delete day 1          refused: a late row may have been removed
        append to day 7 under another spec     refused: partitions of two specs cannot be compared
    """
    deletes = [item for item in judged if item.retention_manifests]
    gained = {_place(file): file.path for item in judged for file in _appended_files(history, item)}
    for item in deletes:
        snapshot = history.snapshot(item.verdict.snapshot_id)
        if snapshot is None:
            continue  # a range is planned only while all of its snapshots are retained
        effect = read_effect(history, snapshot, item.retention_manifests)
        if why := _why_more_than_retention(history, snapshot, effect, gained):
            raise _more_than_retention(history, snapshot, why)


def _appended_files(history: TableHistory, item: JudgedSnapshot) -> Iterator[FileFacts]:
    if item.verdict.decision is not Decision.CAPTURED:
        return
    for manifest in item.manifests:
        for file in history.reads_entries(manifest):
            if file.is_live and file.snapshot_id == item.verdict.snapshot_id:
                yield file


def _place(file: FileFacts) -> tuple[int, Partition]:
    """The partition of a file. NaN is a partition value, and does not equal itself."""
    return file.spec_id, tuple("NaN" if value != value else value for value in file.partition)  # noqa: PLR0124


def _why_more_than_retention(
    history: TableHistory, snapshot: SnapshotFacts, effect: SnapshotEffect, gained: dict[tuple[int, Partition], str]
) -> str:
    in_summary = snapshot.count("deleted-data-files")
    if in_summary is not None and in_summary != len(effect.removed):
        return f"its summary says that {in_summary} data files were removed, its manifests name {len(effect.removed)}"
    specs = {spec_id for spec_id, _ in gained}
    for file in (located.file for located in effect.removed):
        key = _place(file)
        if key in gained:
            return f"it removes {file.path} from a partition that gained rows in the range ({gained[key]})"
        if specs - {file.spec_id}:
            return (
                f"it removes {file.path}, and files of the range are partitioned by another spec, so whether its "
                "partition gained rows is unknown"
            )
    return _why_rows_may_be_back(history, snapshot, effect)


def _why_rows_may_be_back(history: TableHistory, snapshot: SnapshotFacts, effect: SnapshotEffect) -> str:
    """Removing a delete file restores rows, unless all data files that it applied to are removed with it."""
    scopes = [DeleteScope.of(located.file) for located in effect.removed_deletes]
    if not scopes:
        return ""
    for manifest in history.reads_manifests(snapshot.snapshot_id):
        if manifest.content != DATA or not manifest.may_have_live_files:
            continue
        for file in history.reads_entries(manifest):
            if file.is_live and any(scope.covers(file) for scope in scopes):
                return f"it removes delete files that may apply to {file.path}, so deleted rows may be back"
    return ""


def _more_than_retention(history: TableHistory, snapshot: SnapshotFacts, why: str) -> RefusedOperationError:
    return RefusedOperationError(
        f"{history.name}: {snapshot} is more than retention: {why}",
        consequence="Skipping it would keep rows in the target that the source has removed or corrected; nothing was "
        "captured and the checkpoint stays",
        remedy=f"{CAPTURE_CHANGES}; or set on_other_operation='skip' for one run if the "
        "log of appends is right all the same; or pause the DAG, process the table in full once, and "
        f"{set_checkpoint_to(history, snapshot)}",
    )
