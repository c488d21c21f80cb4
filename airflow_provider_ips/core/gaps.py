"""When the checkpoint is not in the lineage: why, and what each choice of ``on_gap`` would do.

``resync`` and the error that offers it ask the same function, so that the one does what the other has said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import CatalogError, GapError
from airflow_provider_ips.core.history import DATA
from airflow_provider_ips.core.roots import has_seen_older_files, walk_past
from airflow_provider_ips.core.traces import is_written_behind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts, TableHistory
    from airflow_provider_ips.core.positions import Position

NO_NUMBERS: Final = "Files written by format v1 all carry number 0, so newer files cannot be told from older ones"
NOT_ABOVE: Final = "The head's number is not above the checkpoint's, so nothing is newer by number, whatever was added"
UNSEEN: Final = (
    "The head holds files that are older than the checkpoint by number, and the checkpoint is not known to be its "
    "ancestor: after a rollback, or on another branch, such files may never have been processed"
)
REWRITTEN: Final = "all live files, for each was written since, and compaction may have given old rows new files"
NO_TRACE_OF_REMOVALS: Final = (
    "All three operations are captured, and sequence numbers tell which files are new, never which rows were removed"
)
STALE_ROWS: Final = (
    "rows that were changed or removed since the checkpoint are still in the target as they were: empty it before the "
    "job of this run writes"
)
NO_HEAD: Final = "The branch has no snapshot, so there is nothing to take"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resync:
    """What selecting live files by number would give. ``files`` and ``size_bytes`` are upper bounds if not exact."""

    refusal: str = ""
    files: int | None = None
    files_exact: bool = False
    size_bytes: int | None = None
    superset: str = ""
    """Why rows that were processed before may be among it; empty if none can be."""

    takes_all: bool = False
    """Every live file was written since, whatever number it has: taking all of them loses nothing."""

    def __str__(self) -> str:
        """As errors and warnings tell it."""
        bound = "" if self.files_exact else "at most "
        kind = f"a superset: {self.superset}" if self.superset else "exact: appends alone, none processed before"
        return f"{bound}{_amount(self.files, 'file')}, at most {_amount(self.size_bytes, 'byte')}; no loss; {kind}"


def foresee_resync(history: TableHistory, after: Position, to: SnapshotFacts | None) -> Resync:
    """Say what a resync up to ``to`` would take, or why it is refused. Reads the manifest list of ``to``."""
    if to is None:
        return Resync(refusal=NO_HEAD)
    manifests = [m for m in history.reads_manifests(to.snapshot_id) if may_hold_live(m)]
    if refusal := _numbers_prove_nothing(history, after, to, manifests):
        return Resync(refusal=refusal)
    if after.snapshot_id is None:
        return _all_of_it(to)
    if not has_seen_older_files(history, after, to):
        return _all_of_it(to, superset=REWRITTEN) if is_written_behind(manifests, after) else Resync(refusal=UNSEEN)
    newer = [m for m in manifests if m.content == DATA and m.sequence_number > after.sequence_number]
    added, complete = _newer_snapshots(history, after, to)
    return Resync(
        files=_files(newer),
        files_exact=all(m.min_sequence_number > after.sequence_number and m.counts_known for m in newer),
        size_bytes=_bytes(to, added if complete else None),
        superset=_superset(added, complete=complete),
    )


def _numbers_prove_nothing(
    history: TableHistory, after: Position, to: SnapshotFacts, manifests: Sequence[ManifestFacts]
) -> str:
    unnumbered = after.sequence_number <= 0 and after.snapshot_id is not None
    if history.format_version == 1 or unnumbered or any(m.min_sequence_number <= 0 for m in manifests):
        return NO_NUMBERS
    return NOT_ABOVE if to.sequence_number <= after.sequence_number else ""


def _all_of_it(to: SnapshotFacts, *, superset: str = "") -> Resync:
    return Resync(
        files=to.count("total-data-files"),
        files_exact=True,
        size_bytes=to.count("total-files-size"),
        superset=superset,
        takes_all=True,
    )


def may_hold_live(manifest: ManifestFacts) -> bool:
    """Whether a manifest may name a live file; one that says nothing may."""
    return not manifest.counts_known or bool(manifest.added_files or manifest.existing_files)


def resync_refused(history: TableHistory, committed: Position, to: SnapshotFacts | None, *, why: str) -> GapError:
    """``on_gap='resync'`` was asked for and would lose rows, or might."""
    return GapError(
        f"{history.name} cannot be resynchronised: sequence numbers prove nothing between {committed} "
        f"(number {committed.sequence_number}) and the head (number {to.sequence_number if to else 0})",
        consequence=why,
        remedy=f"for one run set {_full(to)}; or set the checkpoint anew by `airflow ips reset` and `airflow ips seed`",
    )


def gap_error(history: TableHistory, after: Position, chain: Sequence[SnapshotFacts]) -> GapError:
    """Explain where the walk along the parents (``chain``, newest first) ended instead of at ``after``."""
    oldest = f"the walk ended at {chain[-1]}" if chain else f"branch {history.branch!r} has no snapshots"
    return GapError(
        f"the checkpoint of {history.name} at {after} is not in the lineage of branch {history.branch!r} "
        f"({_why(history, after, chain)}; {oldest})",
        consequence="What was added since cannot be told from what was processed already, so nothing was captured",
        remedy=_choices(history, after),
    )


def gap_of_changes(history: TableHistory, gap: GapError) -> GapError:
    """Tell the choices of a capture of changes, which are fewer."""
    return GapError(
        gap.problem,
        consequence=gap.consequence,
        remedy=f"for the next run set {_full(history.head)}; {STALE_ROWS}; on_gap='resync' is not possible here "
        f"({NO_TRACE_OF_REMOVALS}); or set the checkpoint anew by `airflow ips reset` and `airflow ips seed`",
    )


def _why(history: TableHistory, after: Position, chain: Sequence[SnapshotFacts]) -> str:
    if chain and chain[-1].parent_id is not None:
        return "snapshots between it and the head were expired, or the table was rolled back before that"
    if after.snapshot_id is not None and history.snapshot(after.snapshot_id) is not None:
        return "it is retained but not an ancestor of the head: the table was rolled back or the branch moved elsewhere"
    if after.snapshot_id is None:
        return "nothing proves that the oldest retained snapshot is the table's first: older ones may have been expired"
    return "it was expired, or the table was rolled back"


def _choices(history: TableHistory, after: Position) -> str:
    return (
        f"set one for the next run: {_full(history.head)}; {_resync_choice(history, after)}; "
        "or set the checkpoint anew by `airflow ips reset` and `airflow ips seed`"
    )


def _full(head: SnapshotFacts | None) -> str:
    files = head.count("total-data-files") if head else 0
    size_bytes = head.count("total-files-size") if head else 0
    return (
        f"on_gap='full' captures the whole table ({_amount(files, 'file')}, {_amount(size_bytes, 'byte')}; no loss; "
        "a superset: with all rows that were processed before)"
    )


def _resync_choice(history: TableHistory, after: Position) -> str:
    try:
        resync = foresee_resync(history, after, history.head)
    except CatalogError as error:  # the gap must be told even if the storage does not answer any more
        return f"on_gap='resync' could not be looked into ({error.problem})"
    if resync.refusal:
        return f"on_gap='resync' is not possible here, for sequence numbers prove nothing ({resync.refusal})"
    return f"on_gap='resync' captures the live files newer than sequence number {after.sequence_number} ({resync})"


def _files(newer: Sequence[ManifestFacts]) -> int | None:
    counts = [(m.added_files, m.existing_files) for m in newer]
    if any(None in pair for pair in counts):
        return None
    return sum((added or 0) + (existing or 0) for added, existing in counts)


def _newer_snapshots(
    history: TableHistory, after: Position, to: SnapshotFacts
) -> tuple[tuple[SnapshotFacts, ...], bool]:
    """Everything that may have made a newer file, and whether that is all of it."""
    newer: list[SnapshotFacts] = []
    for snapshot in walk_past(history, to):
        if snapshot.sequence_number <= after.sequence_number:
            return tuple(newer), True
        newer.append(snapshot)
    return tuple(newer), False


def _bytes(to: SnapshotFacts, added: Sequence[SnapshotFacts] | None) -> int | None:
    """Live files are at most the table, and at most what was added."""
    bounds = [to.count("total-files-size")]
    if added is not None:
        sizes = [s.count("added-files-size") if _adds(s) else 0 for s in added]
        bounds.append(None if None in sizes else sum(size or 0 for size in sizes))
    return min((bound for bound in bounds if bound is not None), default=None)


def _adds(snapshot: SnapshotFacts) -> bool:
    return any(snapshot.count(name) for name in ("added-data-files", "added-delete-files", "added-files-size"))


def _superset(newer: Sequence[SnapshotFacts], *, complete: bool) -> str:
    """Numbers say when a file was added to the table, which is when its rows came only for an append."""
    if not complete:
        return "snapshots in between were expired, and any of them may have given old rows new files"
    picked = next((s for s in newer if "source-snapshot-id" in s.summary), None)
    if picked is not None:
        return f"{picked} was cherry-picked, and may have been processed where it came from"
    other = next((s for s in newer if not _is_plain_append(s)), None)
    return "" if other is None else f"{other} may have given old rows new files"


def _is_plain_append(snapshot: SnapshotFacts) -> bool:
    removed = ("deleted-data-files", "removed-delete-files", "added-delete-files")
    added = snapshot.count("added-data-files") or 0
    return not any(snapshot.count(name) for name in removed) and (
        snapshot.operation == "append" or (snapshot.operation == "replace" and not added)
    )


def _amount(number: int | None, noun: str) -> str:
    return f"an unknown number of {noun}s" if number is None else f"{number} {noun}{'' if number == 1 else 's'}"
