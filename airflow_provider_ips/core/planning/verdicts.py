"""What one snapshot did, by the files that it added and removed, and whether it is captured, ignored or refused.

The operation in its summary is not enough: copy-on-write may call itself append, overwrite or delete, and a dynamic
overwrite into a new partition removes nothing. So the counts of the manifests that the snapshot wrote decide:

    operation   files                                append capture           change capture
    overwrite   adds 2 data files                    captured                 captured
    append      adds 2, removes 1 data file          on_other_operation       captured, as a change
    delete      removes 1 data file                  on_other_operation       captured, as a change
    replace     whatever it adds and removes         ignored                  ignored, but its files are followed

A capture in a branch of its source is a replace, too, and has fewer rows. It is refused where a branch was moved to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.history.files import DATA, DELETES, ManifestFacts
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory
from airflow_provider_ips.core.identifiers import HELD_UNTIL
from airflow_provider_ips.core.lineage.walk import Lineage
from airflow_provider_ips.core.record import Decision, Verdict
from airflow_provider_ips.core.settings import CaptureSettings

KNOWN_OPERATIONS = frozenset({"append", "overwrite", "delete", "replace"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSnapshot:
    """A verdict and the manifests that hold what it captures."""

    verdict: Verdict
    manifests: tuple[ManifestFacts, ...] = ()
    is_change: bool = False
    """It removed or changed rows, and all three operations are captured."""

    retention_manifests: tuple[ManifestFacts, ...] = ()
    """What it removed, if it is to be skipped as retention; whether it is, depends on the rest of the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """How many files a snapshot added and removed."""

    added_files: int
    removed_files: int
    added_delete_files: int
    removed_delete_files: int

    @property
    def is_additive(self) -> bool:
        """It removed no row."""
        return not (self.removed_files or self.added_delete_files or self.removed_delete_files)

    @property
    def only_removes(self) -> bool:
        """It removed whole files, and added nothing."""
        return bool(self.removed_files) and not (self.added_files or self.added_delete_files)

    def __str__(self) -> str:
        words = (
            (self.added_files, "adds {} data files"),
            (self.removed_files, "removes {} data files"),
            (self.added_delete_files, "adds {} delete files"),
            (self.removed_delete_files, "removes {} delete files"),
        )
        return ", ".join(text.format(count) for count, text in words if count) or "changes no file"


def listed_at_end(
    history: TableHistory, lineage: Lineage, to: SnapshotFacts
) -> Mapping[int | None, Sequence[ManifestFacts]]:
    """The manifests that the end of the range lists, by the snapshot of the range that wrote them.

    One list shows what most snapshots of a range did. A range of compactions alone needs none.
    """
    grouped: dict[int | None, list[ManifestFacts]] = defaultdict(list)
    if all(snapshot.operation == "replace" for snapshot in lineage.snapshots):
        return grouped
    writers = {snapshot.snapshot_id for snapshot in lineage.snapshots}
    for manifest in history.reads_manifests_written_by(to.snapshot_id, writers):
        grouped[manifest.added_snapshot_id].append(manifest)
    return grouped


def judge(
    history: TableHistory,
    snapshot: SnapshotFacts,
    previous: SnapshotFacts | None,
    listed: Sequence[ManifestFacts],
    settings: CaptureSettings,
) -> JudgedSnapshot:
    """Decide about one snapshot. ``listed`` are those of its manifests that the end of the range still lists."""
    if HELD_UNTIL in snapshot.summary:
        return _judged(snapshot, Decision.REFUSED, "it holds the rows of a capture only: the branch was moved to one")
    if snapshot.operation == "replace":
        return _judged(snapshot, Decision.IGNORED, "compaction: the same rows in other files")
    if snapshot.operation is not None and snapshot.operation not in KNOWN_OPERATIONS:
        return _judged(snapshot, Decision.REFUSED, f"operation {snapshot.operation!r} is unknown to this package")
    manifests = listed if _accounts_for(snapshot, previous, listed) else written_manifests(history, snapshot)
    counts = _file_counts(history, snapshot, manifests)
    if contradiction := _contradiction(snapshot, previous, counts):
        return _judged(snapshot, Decision.REFUSED, contradiction)
    return _decide(snapshot, counts, manifests, settings)


def _decide(
    snapshot: SnapshotFacts, counts: FileCounts, manifests: Sequence[ManifestFacts], settings: CaptureSettings
) -> JudgedSnapshot:
    if settings.captures_changes and not counts.is_additive:
        return replace(_judged(snapshot, Decision.CAPTURED, f"it {counts}", manifests), is_change=True)
    if counts.is_additive or (settings.on_other_operation == "skip" and _only_removes_idle_deletes(snapshot, counts)):
        holding = [m for m in manifests if m.added_files]
        if not holding:
            return _judged(snapshot, Decision.IGNORED, "an empty commit")
        return _judged(snapshot, Decision.CAPTURED, f"it {counts} and removes no row", holding)
    if settings.on_other_operation == "skip":
        return _judged(snapshot, Decision.IGNORED, f"it {counts}; skipped by on_other_operation='skip'")
    if settings.on_other_operation == "skip_retention" and counts.only_removes:
        skipped = _judged(
            snapshot, Decision.IGNORED, f"retention: it {counts}, all from partitions that gained nothing"
        )
        return replace(skipped, retention_manifests=tuple(manifests))
    return _judged(snapshot, Decision.REFUSED, f"it {counts}")


def _only_removes_idle_deletes(snapshot: SnapshotFacts, counts: FileCounts) -> bool:
    """An append may remove delete files that apply to no file any more; the log of appends must have its rows."""
    return snapshot.operation == "append" and not (counts.removed_files or counts.added_delete_files)


def _accounts_for(snapshot: SnapshotFacts, previous: SnapshotFacts | None, listed: Sequence[ManifestFacts]) -> bool:
    """Whether the manifests that the end of the range still lists show all that the snapshot did.

    The next commit drops manifests that hold only removals, and merging moves entries to others. So it takes proof:

    summary: added-data-files 3, total-data-files 10 after 7 before; manifests add 1 + 2, remove none     all of it
    total-data-files 9 after 7 before, otherwise the same           one file was removed: read the snapshot's own list
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


def written_manifests(history: TableHistory, snapshot: SnapshotFacts) -> Sequence[ManifestFacts]:
    """The manifests that a snapshot wrote, from its own manifest list."""
    return history.reads_manifests_written_by(snapshot.snapshot_id, (snapshot.snapshot_id,))


def set_checkpoint_to(history: TableHistory, snapshot: SnapshotFacts) -> str:
    """How a person moves the checkpoint past a snapshot that is refused."""
    return (
        f"set the checkpoint to it by `airflow ips reset --table {history.name}` and `airflow ips seed --table "
        f"{history.name} --snapshot {snapshot.snapshot_id}`, both with --consumer"
    )


def _file_counts(history: TableHistory, snapshot: SnapshotFacts, manifests: Sequence[ManifestFacts]) -> FileCounts:
    unclear = next((m for m in manifests if not m.counts_known or m.added_snapshot_id is None), None)
    if unclear is not None:
        raise UnsupportedTableError(
            f"{history.name}: the manifest list of {snapshot} does not say what {unclear.path} holds",
            consequence="To treat unknown counts as zero would lose files",
            remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests), process the table in "
            "full once, and set the checkpoint to its head by `airflow ips seed`",
        )
    data = [m for m in manifests if m.content == DATA]
    deletes = [m for m in manifests if m.content == DELETES]
    return FileCounts(
        added_files=sum(m.added_files or 0 for m in data),
        removed_files=sum(m.deleted_files or 0 for m in data),
        added_delete_files=sum(m.added_files or 0 for m in deletes),
        removed_delete_files=sum(m.deleted_files or 0 for m in deletes),
    )


def _contradiction(snapshot: SnapshotFacts, previous: SnapshotFacts | None, counts: FileCounts) -> str:
    """Why the summary and the manifests disagree: then something was changed that the manifests do not show."""
    removed = snapshot.count("deleted-data-files") or 0
    if removed and not counts.removed_files:
        return f"its summary says that {removed} data files were removed, its manifests do not"
    added = snapshot.count("added-data-files")
    if added is not None and added != counts.added_files:
        return f"its summary says that {added} data files were added, its manifests say {counts.added_files}"
    grown = _grown(snapshot, previous, "total-data-files")
    if grown is not None and grown < counts.added_files - counts.removed_files:
        return f"the table grew by {grown} data files, although it {counts}"
    return ""


def _judged(
    snapshot: SnapshotFacts, decision: Decision, reason: str, manifests: Sequence[ManifestFacts] = ()
) -> JudgedSnapshot:
    """``manifests`` are those that it captures; what they add is counted."""
    adding = [m for m in manifests if m.content == DATA and m.added_files]
    rows = [m.added_rows for m in adding]
    verdict = Verdict(
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.operation or "",
        decision=decision,
        reason=reason,
        files=sum(m.added_files or 0 for m in adding),
        records=None if None in rows else sum(count or 0 for count in rows),
        size_bytes=snapshot.count("added-files-size") if adding else 0,
    )
    return JudgedSnapshot(verdict=verdict, manifests=tuple(manifests))
