"""What a resync over a gap would take, and whether it loses nothing.

A resync (``on_gap='resync'``) takes the live files whose sequence number is above the checkpoint's. Every commit takes
the next number, so these are the files that were added since. Example: the checkpoint is at 4; 4 to 6 were expired.

    The head, 8, lists files that 3, 6 and 8 added: those of 6 and 8 are taken.
    If 6 was an append, no row is lost and none comes again.
    If 6 was a compaction, rows of before 4 may be in its file: no row is lost, but the capture may be a superset.

It is refused wherever a file with a lower number may never have been processed. The error that offers a resync and the
plan that makes one both use :func:`preview_resync`, so that what is done is what was announced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from airflow_provider_ips.core.history.files import DATA, ManifestFacts
from airflow_provider_ips.core.history.snapshots import (
    SnapshotFacts,
    TableHistory,
    digest_of_live_manifests,
    list_deletes,
)
from airflow_provider_ips.core.lineage.expired_history import is_first_snapshot, is_known_ancestor, known_ancestors
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import total

NO_NUMBERS: Final = "Files written by format v1 all carry number 0, so they do not show which files are newer"
NOT_ABOVE: Final = "The head's number is not above the checkpoint's, so nothing is newer by number, whatever was added"
UNSEEN_FILES: Final = (
    "The head holds files that are older than the checkpoint by number, and the checkpoint is not known to be its "
    "ancestor, or deleted rows may have been restored since: some rows in such files may never have been processed"
)
ALL_REWRITTEN: Final = "all live files: each was written since, and compaction may have moved old rows to new files"
NO_HEAD: Final = "The branch has no snapshot, so there is nothing to take"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncPreview:
    """What a resync would take. ``files`` and ``size_bytes`` are upper bounds if not exact."""

    refusal: str = ""
    """Why it would be refused; empty if it would not."""

    files: int | None = None
    files_exact: bool = False
    size_bytes: int | None = None
    superset: str = ""
    """Why rows that were processed before may be among it; empty if none can be."""

    takes_all: bool = False
    """It takes every live file, whatever its number."""

    def __str__(self) -> str:
        bound = "" if self.files_exact else "at most "
        kind = f"a superset: {self.superset}" if self.superset else "exact: appends alone, none processed before"
        return f"{bound}{amount(self.files, 'file')}, at most {amount(self.size_bytes, 'byte')}; no loss; {kind}"


def preview_resync(history: TableHistory, after: Position, to: SnapshotFacts | None) -> ResyncPreview:
    """What a resync from the checkpoint ``after`` up to ``to`` would take, or why it is refused.

    Reads the manifest list of ``to``, and older metadata files where snapshots were expired.
    """
    if to is None:
        return ResyncPreview(refusal=NO_HEAD)
    manifests = [m for m in history.reads_manifests(to.snapshot_id) if m.may_have_live_files]
    if refusal := _why_numbers_prove_nothing(history, after, to, manifests):
        return ResyncPreview(refusal=refusal)
    if after.snapshot_id is None:
        return _all_live_files(to)
    if not _has_seen_all_older_rows(history, after, to, manifests):
        if _are_all_written_after(after, manifests):
            return _all_live_files(to, superset=ALL_REWRITTEN)
        return ResyncPreview(refusal=UNSEEN_FILES)
    newer = [m for m in manifests if m.content == DATA and m.sequence_number > after.sequence_number]
    snapshots, is_complete = _newer_snapshots(history, after, to)
    return ResyncPreview(
        files=total(m.live_files for m in newer),
        files_exact=all(m.min_sequence_number > after.sequence_number and m.counts_known for m in newer),
        size_bytes=_at_most_bytes(to, snapshots if is_complete else None),
        superset=_why_superset(snapshots, is_complete=is_complete),
    )


def _all_live_files(to: SnapshotFacts, *, superset: str = "") -> ResyncPreview:
    return ResyncPreview(
        files=to.count("total-data-files"),
        files_exact=True,
        size_bytes=to.count("total-files-size"),
        superset=superset,
        takes_all=True,
    )


def _why_numbers_prove_nothing(
    history: TableHistory, after: Position, to: SnapshotFacts, manifests: Sequence[ManifestFacts]
) -> str:
    is_unnumbered = after.sequence_number <= 0 and after.snapshot_id is not None
    if history.format_version == 1 or is_unnumbered or any(m.min_sequence_number <= 0 for m in manifests):
        return NO_NUMBERS
    return NOT_ABOVE if to.sequence_number <= after.sequence_number else ""


def _has_seen_all_older_rows(
    history: TableHistory, after: Position, to: SnapshotFacts, manifests: Sequence[ManifestFacts]
) -> bool:
    """Whether every row of ``to`` in a file with a number up to the checkpoint's was live at the checkpoint, too.

    Numbers count the commits of all branches. With the checkpoint at 4, whose lineage is 1, 2, 4:

        lineage of the head    its newest up to 4
        1, 2, 6                2, an ancestor of 4     4, an append, was rolled back; everything up to 2 was live at 4
        1, 2, 6                2, an ancestor of 4     4, a delete, was rolled back; what it removed is live again
        1, 2, 3, 6             3, not one              the head was set to another branch; 3 was never processed
        1, 2, 6                2, an ancestor of 4     6 removed a delete file of 2: rows are live that were not at 4
    """
    line: list[SnapshotFacts] = []
    for snapshot in known_ancestors(history, to):
        line.append(snapshot)
        if snapshot.sequence_number <= after.sequence_number:
            if _restored_nothing(line) and _removed_nothing_since(history, after, snapshot.snapshot_id):
                return True
            break
    else:
        if is_first_snapshot(history, line[-1]):
            return True  # the head's history started after the checkpoint, so it has no older file
    if _lists_older_manifests_as_before(after, manifests):
        return True
    return not _may_have_had_deletes(history, after, manifests) and is_known_ancestor(history, after, to)


def _lists_older_manifests_as_before(after: Position, manifests: Sequence[ManifestFacts]) -> bool:
    """Whether what the checkpoint's snapshot listed is listed still, and nothing else that is as old.

    checkpoint 4 listed A, B    the head lists A, B, and C that 6 wrote, only with files of 5 and 6    proven
    checkpoint 4 listed A, B    the head lists A, and C that 6 wrote, with files of 2 and 6            not proven
    """
    older = [m for m in manifests if m.sequence_number <= after.sequence_number]
    newer = [m for m in manifests if m.sequence_number > after.sequence_number]
    return (
        after.evidence is not None
        and digest_of_live_manifests(older) == after.evidence.live_manifests
        and all(m.min_sequence_number > after.sequence_number for m in newer)
    )


def _may_have_had_deletes(history: TableHistory, position: Position, manifests: Sequence[ManifestFacts]) -> bool:
    """Whether delete files may have applied to rows at a position.

    A checkpoint says so itself. Nothing can be looked up about an expired snapshot that someone names by its id, and a
    table without delete files counts as one that never had any; the capture warns of that.
    """
    if position.snapshot_id is not None and history.snapshot(position.snapshot_id) is not None:
        return list_deletes(history.reads_manifests(position.snapshot_id))
    return list_deletes(manifests) if position.evidence is None else position.evidence.has_deletes


def _restored_nothing(newest_first: Sequence[SnapshotFacts]) -> bool:
    """Whether no snapshot but the oldest one made a deleted row live again, by removing a delete file.

    Compaction removes delete files and the deleted rows with them.
    """
    return all(
        child.operation == "replace" or _removed_no_delete_file(child, parent)
        for child, parent in pairwise(newest_first)
    )


def _removed_no_delete_file(child: SnapshotFacts, parent: SnapshotFacts) -> bool:
    """Unknown is not zero: the totals have to be there, and to differ by what was added."""
    deletes, before = child.count("total-delete-files"), parent.count("total-delete-files")
    if deletes is None or before is None:
        return False
    return deletes == before + (child.count("added-delete-files") or 0)


def _removed_nothing_since(history: TableHistory, position: Position, ancestor_id: int) -> bool:
    """Whether a snapshot is proven to be the position's own, or an ancestor with appends and compactions in between.

    A row that was live at the ancestor was then live at the position, too.
    """
    if position.snapshot_id == ancestor_id:
        return True
    snapshot = None if position.snapshot_id is None else history.snapshot(position.snapshot_id)
    if snapshot is None and position.snapshot_id is not None:
        snapshots = history.reads_old_metadata(position.snapshot_id, position.committed_at_ms)
        snapshot = snapshots.get(position.snapshot_id)
    for child, parent in pairwise(() if snapshot is None else known_ancestors(history, snapshot)):
        if child.operation != "replace" and not _is_proven_append(child, parent):
            return False
        if parent.snapshot_id == ancestor_id:
            return True
    return False


def _is_proven_append(child: SnapshotFacts, parent: SnapshotFacts) -> bool:
    """Unknown is not zero: the totals have to be there, and to have grown by what the summary says was added."""
    files, before = child.count("total-data-files"), parent.count("total-data-files")
    deletes = child.count("total-delete-files")
    if files is None or before is None or deletes is None or deletes != parent.count("total-delete-files"):
        return False
    return _only_adds_new_rows(child) and files == before + (child.count("added-data-files") or 0)


def _are_all_written_after(after: Position, manifests: Sequence[ManifestFacts]) -> bool:
    """Whether every live data file was written after the checkpoint: then taking all of them loses nothing.

    Compaction may give a new file the number of the rows that it holds, so manifests decide:

    manifest written by 9, only added files                  all written after 4, whatever their numbers
    manifest written by 9, existing files, lowest number 3   one may be from before 4
    """
    return all(
        m.sequence_number > after.sequence_number
        and (m.min_sequence_number > after.sequence_number or m.existing_files == 0)
        for m in manifests
        if m.content == DATA
    )


def _newer_snapshots(
    history: TableHistory, after: Position, to: SnapshotFacts
) -> tuple[tuple[SnapshotFacts, ...], bool]:
    """The known snapshots that may have added a newer file, and whether these are all."""
    newer: list[SnapshotFacts] = []
    for snapshot in known_ancestors(history, to):
        if snapshot.sequence_number <= after.sequence_number:
            return tuple(newer), True
        newer.append(snapshot)
    return tuple(newer), False


def _why_superset(newer: Sequence[SnapshotFacts], *, is_complete: bool) -> str:
    """Why a newer file may hold rows that were processed before; empty if only appends added newer files."""
    if not is_complete:
        return "snapshots in between were expired, and any of them may have given old rows new files"
    picked = next((s for s in newer if "source-snapshot-id" in s.summary), None)
    if picked is not None:
        return f"{picked} was cherry-picked, and may have been processed where it came from"
    other = next((s for s in newer if not _only_adds_new_rows(s)), None)
    return "" if other is None else f"{other} may have given old rows new files"


def _only_adds_new_rows(snapshot: SnapshotFacts) -> bool:
    """An append that removes nothing, or a rewrite of manifests."""
    removed = ("deleted-data-files", "removed-delete-files", "added-delete-files")
    added = snapshot.count("added-data-files") or 0
    return not any(snapshot.count(name) for name in removed) and (
        snapshot.operation == "append" or (snapshot.operation == "replace" and not added)
    )


def _at_most_bytes(to: SnapshotFacts, newer: Sequence[SnapshotFacts] | None) -> int | None:
    """Newer live files have no more bytes than the table, and no more than was added."""
    bounds = [to.count("total-files-size")]
    if newer is not None:
        bounds.append(total(s.count("added-files-size") if _adds_files(s) else 0 for s in newer))
    return min((bound for bound in bounds if bound is not None), default=None)


def _adds_files(snapshot: SnapshotFacts) -> bool:
    return any(snapshot.count(name) for name in ("added-data-files", "added-delete-files", "added-files-size"))


def amount(number: int | None, noun: str) -> str:
    """A number of things, in words; None is unknown."""
    return f"an unknown number of {noun}s" if number is None else f"{number} {noun}{'' if number == 1 else 's'}"
