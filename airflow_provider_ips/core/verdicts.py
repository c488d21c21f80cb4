"""What one snapshot is, told by the files it added and removed, and what capture does with it.

The operation string alone is not enough: a merge may call itself append, overwrite or delete, and a dynamic overwrite
into a new partition removes nothing. The counts of the manifests that a snapshot wrote tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.history import DATA, DELETES
from airflow_provider_ips.core.record import Decision, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory
    from airflow_provider_ips.core.settings import CaptureSettings

KNOWN_OPERATIONS = frozenset({"append", "overwrite", "delete", "replace"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict and the manifests that hold what it captures."""

    verdict: Verdict
    manifests: tuple[ManifestFacts, ...] = ()
    changes: bool = False
    """It took rows away or changed them, and all three operations are captured."""

    retires: tuple[ManifestFacts, ...] = ()
    """It removes whole files and is passed over, if the range shows that these were old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How many files a snapshot added and removed."""

    added_files: int
    removed_files: int
    added_delete_files: int
    removed_delete_files: int

    @property
    def is_additive(self) -> bool:
        """It took nothing away from anyone."""
        return not (self.removed_files or self.added_delete_files or self.removed_delete_files)

    @property
    def only_removes(self) -> bool:
        """It took whole files away and put nothing in their place."""
        return bool(self.removed_files) and not (self.added_files or self.added_delete_files)

    def __str__(self) -> str:
        """In words, for the log."""
        words = (
            (self.added_files, "adds {} data files"),
            (self.removed_files, "removes {} data files"),
            (self.added_delete_files, "adds {} delete files"),
            (self.removed_delete_files, "removes {} delete files"),
        )
        return ", ".join(text.format(count) for count, text in words if count) or "changes no file"


def judge(
    history: TableHistory,
    snapshot: SnapshotFacts,
    previous: SnapshotFacts | None,
    listed: Sequence[ManifestFacts],
    settings: CaptureSettings,
) -> Judged:
    """Decide about one snapshot. ``listed`` are its manifests that the end of the range still lists."""
    if snapshot.operation == "replace":
        return _ignored(snapshot, "compaction: the same rows in other files")
    if snapshot.operation is not None and snapshot.operation not in KNOWN_OPERATIONS:
        return _refused(snapshot, f"operation {snapshot.operation!r} is unknown to this package")
    manifests = listed if _accounts_for(snapshot, previous, listed) else own_manifests(history, snapshot)
    effect = _effect(history, snapshot, manifests)
    contradiction = _contradiction(snapshot, previous, effect)
    if contradiction:
        return _refused(snapshot, contradiction)
    return _decide(snapshot, effect, manifests, settings)


def _decide(
    snapshot: SnapshotFacts, effect: Effect, manifests: Sequence[ManifestFacts], settings: CaptureSettings
) -> Judged:
    if settings.captures_changes and not effect.is_additive:
        return _change(snapshot, effect, manifests)
    if effect.is_additive or (settings.on_other_operation == "skip" and _only_tidies_up(snapshot, effect)):
        return _captured(snapshot, effect, manifests)
    if settings.on_other_operation == "skip":
        return _ignored(snapshot, f"it {effect}; passed over by on_other_operation='skip'")
    if settings.on_other_operation == "skip_retention" and effect.only_removes:
        passed_over = _ignored(snapshot, f"retention: it {effect}, all from partitions that gained nothing")
        return replace(passed_over, retires=tuple(manifests))
    return _refused(snapshot, f"it {effect}")


def _only_tidies_up(snapshot: SnapshotFacts, effect: Effect) -> bool:
    """Appends may drop delete files that apply to nothing any more. The log of appends must not lose their rows."""
    return snapshot.operation == "append" and not (effect.removed_files or effect.added_delete_files)


def _accounts_for(snapshot: SnapshotFacts, previous: SnapshotFacts | None, listed: Sequence[ManifestFacts]) -> bool:
    """Tell whether the manifests still listed at the end of the range are all that the snapshot did.

    Manifests that hold only removals are dropped by the next commit, and merging takes manifests apart, so this needs
    proof: the counts add up to the snapshot's own summary, and the totals leave no room for a removal.
    """
    added = snapshot.count("added-data-files")
    if snapshot.operation != "append" or not added or any(not m.counts_known or m.content != DATA for m in listed):
        return False
    if sum(m.added_files or 0 for m in listed) != added or any(m.deleted_files for m in listed):
        return False
    grown = _grown(snapshot, previous, "total-data-files")
    deletes_grown = _grown(snapshot, previous, "total-delete-files")
    return grown == added and deletes_grown == 0


def _grown(snapshot: SnapshotFacts, previous: SnapshotFacts | None, name: str) -> int | None:
    now = snapshot.count(name)
    before = 0 if previous is None and snapshot.parent_id is None else previous.count(name) if previous else None
    return None if now is None or before is None else now - before


def own_manifests(history: TableHistory, snapshot: SnapshotFacts) -> Sequence[ManifestFacts]:
    """The manifests that the snapshot itself wrote, from its own list."""
    return history.reads_manifests_written_by(snapshot.snapshot_id, (snapshot.snapshot_id,))


def _effect(history: TableHistory, snapshot: SnapshotFacts, manifests: Sequence[ManifestFacts]) -> Effect:
    unclear = next((m for m in manifests if not m.counts_known or m.added_snapshot_id is None), None)
    if unclear is not None:
        raise UnsupportedTableError(
            f"{history.name}: the manifest list of {snapshot} does not say what {unclear.path} holds",
            consequence="Taking unknown counts for zero would lose files",
            remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests), process the table in "
            "full once, and seed the checkpoint behind it",
        )
    data = [m for m in manifests if m.content == DATA]
    deletes = [m for m in manifests if m.content == DELETES]
    return Effect(
        added_files=sum(m.added_files or 0 for m in data),
        removed_files=sum(m.deleted_files or 0 for m in data),
        added_delete_files=sum(m.added_files or 0 for m in deletes),
        removed_delete_files=sum(m.deleted_files or 0 for m in deletes),
    )


def _contradiction(snapshot: SnapshotFacts, previous: SnapshotFacts | None, effect: Effect) -> str:
    """Compare files with summary. Where they disagree, something was changed that the manifests do not show."""
    says_removed = snapshot.count("deleted-data-files") or 0
    if says_removed and not effect.removed_files:
        return f"its summary says that {says_removed} data files were removed, its manifests do not"
    says_added = snapshot.count("added-data-files")
    if says_added is not None and says_added != effect.added_files:
        return f"its summary says that {says_added} data files were added, its manifests say {effect.added_files}"
    grown = _grown(snapshot, previous, "total-data-files")
    if grown is not None and grown < effect.added_files - effect.removed_files:
        return f"the table grew by {grown} data files, although it {effect}"
    return ""


def _captured(snapshot: SnapshotFacts, effect: Effect, manifests: Sequence[ManifestFacts]) -> Judged:
    holding = tuple(m for m in manifests if m.added_files)
    if not holding:
        return _ignored(snapshot, "an empty commit")
    rows = [m.added_rows for m in holding]
    verdict = Verdict(
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.operation or "",
        decision=Decision.CAPTURED,
        reason=f"it {effect} and takes no row away",
        files=effect.added_files,
        records=None if None in rows else sum(r or 0 for r in rows),
        size_bytes=snapshot.count("added-files-size"),
    )
    return Judged(verdict=verdict, manifests=holding)


def _change(snapshot: SnapshotFacts, effect: Effect, manifests: Sequence[ManifestFacts]) -> Judged:
    rows = [m.added_rows for m in manifests if m.content == DATA and m.added_files]
    verdict = Verdict(
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.operation or "",
        decision=Decision.CAPTURED,
        reason=f"it {effect}",
        files=effect.added_files,
        records=None if None in rows else sum(r or 0 for r in rows),
        size_bytes=snapshot.count("added-files-size") if effect.added_files else 0,
    )
    return Judged(verdict=verdict, manifests=tuple(manifests), changes=True)


def _ignored(snapshot: SnapshotFacts, reason: str) -> Judged:
    return _without_files(snapshot, Decision.IGNORED, reason)


def _refused(snapshot: SnapshotFacts, reason: str) -> Judged:
    return _without_files(snapshot, Decision.REFUSED, reason)


def _without_files(snapshot: SnapshotFacts, decision: Decision, reason: str) -> Judged:
    operation = snapshot.operation or ""
    return Judged(
        verdict=Verdict(snapshot_id=snapshot.snapshot_id, operation=operation, decision=decision, reason=reason)
    )
