"""The two tables of a change capture: their files found in the table's manifests, with the delete files that apply.

What goes where is decided in ``net_change``. Here the files are looked up: at the end of the range for ``<source>``, at
its start for ``<source>.before``, and at the parent of a compaction for the files that it removed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_ips.core.changes.effects import SnapshotEffect
from airflow_provider_ips.core.changes.file_histories import AppliedDeletes, FileHistories, follow_files
from airflow_provider_ips.core.changes.net_change import NetChange, net_change
from airflow_provider_ips.core.changes.refusals import (
    refuse_equality_deletes,
    refuse_hidden_rows,
    refuse_indistinct,
    refuse_missing,
    refuse_two_vectors,
    superset_error,
)
from airflow_provider_ips.core.errors import GapError, UnsupportedTableError
from airflow_provider_ips.core.history.files import (
    DATA,
    DELETES,
    Content,
    DataFileIndex,
    DeleteScope,
    FileFacts,
    FileKey,
    LocatedFile,
    ManifestFacts,
)
from airflow_provider_ips.core.history.selections import ROW_EXACT, CapturePlan, Selection, Take
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, position_of
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import CaptureSettings

ROW_LINEAGE_VERSION: Final = 3


def plan_change_tables(
    history: TableHistory,
    *,
    after: Position,
    effects: Sequence[SnapshotEffect],
    to: SnapshotFacts,
    settings: CaptureSettings,
    has_uncommitted: bool,
) -> CapturePlan:
    """Plan both tables. ``has_uncommitted``: a run that captured from the same start may have written to the target."""
    files = follow_files(effects)
    net = net_change(files, complete=settings.on_superset == "complete")
    old = _old_files(history, after, net, files)
    live = _live_files(history, to, net, files, effects)
    _refuse_deletes_in_two_files(history, after, to, net.deletes_of_added_paths, files)
    compacted = [file.located for file in net.compacted_files]
    unchanged = _why_superset(live, net, files, effects)
    if unchanged and settings.on_superset == "fail":
        raise superset_error(history, unchanged)
    involved = [*live, *compacted, *old]
    predicate, no_predicate = _predicate(history, after, involved, files, is_superset=bool(unchanged))
    if settings.on_superset == "complete":
        predicate, no_predicate = None, "with on_superset='complete' unchanged rows are captured to be inserted again"
    deletes = _deletes_for(history, to, live)
    at_end = {delete.file.key for delete in deletes}
    when_compacted = [d for d in _deletes_when_compacted(history, net, effects) if d.file.key not in at_end]
    restoring = {delete.file.key for effect in effects for delete in effect.restoring()}
    refuse_hidden_rows(history, live, [delete for delete in when_compacted if delete.file.key in restoring])
    if history.format_version >= ROW_LINEAGE_VERSION:
        refuse_two_vectors(history, deletes, when_compacted)
    deletes += when_compacted
    deletes_of_old = _deletes_for(history, _start(history, after), old) if old else []
    if has_uncommitted:  # its run may have written rows that were live only while these delete files were away
        deletes_of_old = [delete for delete in deletes_of_old if delete.file.key not in restoring]
    if settings.equality_deletes == "fail":
        refuse_equality_deletes(history, [*deletes, *deletes_of_old])
    before = [*old, *(_withdrawn_files(net, old) if has_uncommitted else ())]
    source_files = _selections([*live, *compacted, *deletes])
    before_files = _selections([*before, *deletes_of_old])
    return CapturePlan(
        kind=Kind.RANGE if source_files or before_files else Kind.EMPTY,
        from_exclusive=after,
        to_inclusive=position_of(history, to),
        selections=source_files,
        before=before_files,
        size_bytes=sum(located.file.size_bytes for located in (*live, *compacted)),
        before_bytes=sum(located.file.size_bytes for located in before),
        superset=bool(unchanged),
        predicate=predicate,
        no_predicate=no_predicate,
    )


def _old_files(history: TableHistory, after: Position, net: NetChange, files: FileHistories) -> list[LocatedFile]:
    """Find the old files of ``<source>.before`` at the start of the range."""
    sought = _Sought(keys=net.removed_files.keys(), deletes=net.deletes_of_old_files)
    if sought.is_empty:
        return []
    start = _start(history, after)
    found = [
        located
        for located in (() if start is None else _find(history, start, sought))
        if located.file.key in sought.keys
        or sought.deletes.apply_to(located.file, before=_removed_at(files, located.file.key))
    ]
    refuse_missing(history, sought.keys, found, start)
    return found


def _removed_at(files: FileHistories, key: FileKey) -> int | None:
    """The step that removed an old file: a later delete did not apply to it."""
    removed = files.removed.get(key)
    return None if removed is None else removed.step


def _start(history: TableHistory, after: Position) -> SnapshotFacts | None:
    if after.snapshot_id is None:
        return None
    start = history.snapshot(after.snapshot_id)
    if start is None:
        raise GapError(
            f"{history.name} no longer has {after}, the checkpoint, and rows were changed or removed since",
            consequence="Which rows these were can no longer be read, so a target could not be corrected; nothing was "
            "captured",
            remedy="rebuild the target: `airflow ips reset`, then a run with initial='full'; and keep snapshots longer "
            "than the longest time between two runs (history.expire.max-snapshot-age-ms)",
        )
    return start


def _live_files(
    history: TableHistory,
    to: SnapshotFacts,
    net: NetChange,
    files: FileHistories,
    effects: Sequence[SnapshotEffect],
) -> list[LocatedFile]:
    """Find the files of ``<source>`` that are live at the end of the range, old ones with restored rows included."""
    sought = _Sought(keys=net.live_files.keys(), deletes=net.recapturing_deletes)
    writers = None if sought.deletes else {effect.snapshot.snapshot_id for effect in effects}
    found = [
        located
        for located in _find(history, to, sought, written_by=writers)
        if located.file.key in sought.keys or located.file.key not in files.live
    ]
    refuse_missing(history, sought.keys, found, to)
    refuse_indistinct(history, [one.file for one in found if one.file.key in sought.keys], files, effects)
    return found


def _deletes_when_compacted(
    history: TableHistory, net: NetChange, effects: Sequence[SnapshotEffect]
) -> Iterator[LocatedFile]:
    """For files that were compacted: the delete files that the compaction applied, as its parent lists them."""
    by_step: dict[int, list[LocatedFile]] = defaultdict(list)
    for file in net.compacted_files:
        if file.has_deletes and file.compacted_at is not None:
            by_step[file.compacted_at].append(file.located)
    for step, located in by_step.items():
        parent_id = effects[step].snapshot.parent_id
        parent = None if parent_id is None else history.snapshot(parent_id)
        yield from _deletes_for(history, parent, located)


def _withdrawn_files(net: NetChange, old: Sequence[LocatedFile]) -> Iterator[LocatedFile]:
    """Files that an uncommitted run may have written and that the table no longer has as they were, each once."""
    taken = {located.file.key for located in old}
    for file in net.withdrawn_files:
        if file.located.file.key not in taken:
            taken.add(file.located.file.key)
            yield file.located


def _why_superset(
    live: Sequence[LocatedFile], net: NetChange, files: FileHistories, effects: Sequence[SnapshotEffect]
) -> str:
    """What brought rows that did not change into files of ``<source>``; empty if nothing did."""
    added = [files.live[located.file.key] for located in live if located.file.key in files.live]
    rewritten = next((file for file in (*added, *net.compacted_files) if file.may_hold_old_rows), None)
    if rewritten is not None:
        return f"{effects[rewritten.step].snapshot} rewrote files that held both"
    return "" if len(added) == len(live) else "rows that had been deleted were restored in files that held both"


def _predicate(
    history: TableHistory, after: Position, involved: Sequence[LocatedFile], files: FileHistories, *, is_superset: bool
) -> tuple[str | None, str]:
    """The predicate that leaves out the unchanged rows of a superset, or why there is none.

    Rows of a file without ``first_row_id`` have no ``_last_updated_sequence_number``: the predicate would drop them.
    So it would a row that came back, whose number is from when it was written:

        number 1    row r is written
        number 2    r is deleted
        number 3    the checkpoint
        number 4    the delete file is removed    r is live again, and its number is still 1
    """
    if not is_superset:
        return None, ROW_EXACT
    if history.format_version < ROW_LINEAGE_VERSION:
        return None, f"format version {history.format_version} keeps no row lineage"
    if any(delete.restores for delete in files.deletes):
        return None, "deleted rows came back in the range, and keep the sequence numbers that they had before it"
    paths = [file.located.file.path for file in files.added]
    if len(set(paths)) < len(paths):
        return None, "a file was added several times in the range, and its rows may keep earlier sequence numbers"
    without = sum(not located.file.has_row_id for located in involved)
    if without:
        return None, f"{without} of the files involved are from before the upgrade to format version 3"
    return f"_last_updated_sequence_number > {after.sequence_number}", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sought:
    """Data files to find: those with these keys, and those that a delete applied to."""

    keys: Collection[FileKey]
    deletes: AppliedDeletes

    @property
    def is_empty(self) -> bool:
        return not (self.keys or self.deletes)

    def includes(self, file: FileFacts) -> bool:
        return file.key in self.keys or self.deletes.apply_to(file)


def _find(
    history: TableHistory, snapshot: SnapshotFacts, sought: _Sought, *, written_by: Collection[int] | None = None
) -> Iterator[LocatedFile]:
    """Find live files of a snapshot; ``written_by`` limits the search to the manifests of some snapshots."""
    if sought.is_empty:
        return
    numbers = sorted({number for _, _, number in sought.keys})
    for manifest in history.reads_manifests(snapshot.snapshot_id):
        if manifest.content != DATA or not manifest.may_have_live_files:
            continue
        if not _is_in_range(manifest, numbers) and not sought.deletes.may_apply_to_files_of(manifest):
            continue
        if written_by is not None and manifest.added_snapshot_id not in (*written_by, None):
            continue
        for file in history.reads_entries(manifest):
            if file.is_live and sought.includes(file):
                yield LocatedFile(manifest=manifest, file=file)


def _is_in_range(manifest: ManifestFacts, numbers: Sequence[int]) -> bool:
    """Whether a manifest may list a file with one of these sequence numbers, in order; 0 means unknown (format v1).

    A manifest that a snapshot with number 9 wrote, the oldest of whose files has number 4, may list a file with 4 to 9.
    """
    if numbers and numbers[0] == 0:
        return True
    first = bisect_left(numbers, manifest.min_sequence_number)
    return first < len(numbers) and numbers[first] <= manifest.sequence_number


def _refuse_deletes_in_two_files(
    history: TableHistory, after: Position, to: SnapshotFacts, deletes: AppliedDeletes, files: FileHistories
) -> None:
    """Refuse deletes by path in a file of the range, if an old file with the same path lost rows by them as well."""
    of_old = deletes.up_to(after.sequence_number)
    removed = [old.located.file for old in files.removed.values() if of_old.apply_to(old.located.file, before=old.step)]
    live = [one.file for one in _find(history, to, _Sought(keys=(), deletes=of_old)) if one.file.key not in files.live]
    for file in (*removed, *live):
        raise UnsupportedTableError(
            f"{history.name}: rows were deleted in {file.path}, which the table lists several times: some of its "
            "entries are from the range, others are older",
            consequence="The rows that the older ones lost cannot be captured apart; nothing was captured",
            remedy="compact the table (CALL rewrite_data_files with rewrite-all), process it in full once, then set "
            "the checkpoint to its head by `airflow ips seed`",
        )


def _deletes_for(
    history: TableHistory, snapshot: SnapshotFacts | None, files: Sequence[LocatedFile]
) -> list[LocatedFile]:
    """The live delete files of a snapshot that apply to any of the data files."""
    index = DataFileIndex(located.file for located in files)
    if snapshot is None or index.oldest is None:
        return []
    return [
        LocatedFile(manifest=manifest, file=file)
        for manifest in history.reads_manifests(snapshot.snapshot_id)
        if manifest.content == DELETES and manifest.may_have_live_files and manifest.sequence_number >= index.oldest
        for file in history.reads_entries(manifest)
        if file.is_live and file.content is not Content.DATA and index.has_file_in(DeleteScope.of(file))
    ]


def _selections(located: Iterable[LocatedFile]) -> tuple[Selection, ...]:
    """The files by manifest. A manifest of which every live entry is among them is taken as it is."""
    manifests: dict[str, ManifestFacts] = {}
    chosen: dict[str, set[FileKey]] = defaultdict(set)
    for one in located:
        manifests[one.manifest.path] = one.manifest
        chosen[one.manifest.path].add(one.file.key)
    return tuple(_selection(manifest, frozenset(chosen[path])) for path, manifest in manifests.items())


def _selection(manifest: ManifestFacts, chosen: frozenset[FileKey]) -> Selection:
    if manifest.counts_known and len(chosen) == manifest.live_files:
        return Selection(manifest=manifest, take=Take.WHOLE)
    return Selection(manifest=manifest, take=Take.CHOSEN, chosen=chosen)
