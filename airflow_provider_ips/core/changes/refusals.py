"""What a change capture refuses, because two tables of files cannot show it or metadata cannot tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from airflow_provider_ips.core.changes.effects import SnapshotEffect
from airflow_provider_ips.core.changes.file_histories import FileHistories
from airflow_provider_ips.core.errors import RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.history.files import DataFileIndex, DeleteScope, FileFacts, FileKey, LocatedFile
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory


def superset_error(history: TableHistory, why: str) -> RefusedOperationError:
    """The error for unchanged rows that a job would write again."""
    return RefusedOperationError(
        f"{history.name}: the capture would carry unchanged rows along with changed ones: {why}",
        consequence="A job that inserts what it is given would write them twice; nothing was captured",
        remedy="set on_superset='allow' if the job merges by key or filters by the captured keys, or have the table "
        "written merge-on-read (write.update.mode, write.merge.mode, write.delete.mode)",
    )


def refuse_equality_deletes(history: TableHistory, deletes: Iterable[LocatedFile]) -> None:
    """Refuse deletes that not every engine applies."""
    if any(delete.file.is_equality_delete for delete in deletes):
        raise RefusedOperationError(
            f"{history.name} has equality deletes that apply to what would be captured",
            consequence="An engine that cannot apply them would read deleted rows as live",
            remedy="set equality_deletes='carry' if the engine applies them (Spark does, PyIceberg does not), or "
            "compact the table first (CALL rewrite_data_files with delete-file-threshold 1)",
        )


def refuse_hidden_rows(history: TableHistory, live: Sequence[LocatedFile], withdrawn: Iterable[LocatedFile]) -> None:
    """Refuse a delete file that one captured file needs, and that would hide restored rows of another one.

    1 append a and x, 2 delete a row of each by one delete file, 3 compact a, 4 remove the delete file
    a stands for itself, without the row that 2 deleted; x has its row again
    """
    index = DataFileIndex(located.file for located in live)
    hiding = next((delete for delete in withdrawn if index.has_file_in(DeleteScope.of(delete.file))), None)
    if hiding is not None:
        raise UnsupportedTableError(
            f"{history.name}: {hiding.file.path} deleted rows in several files, one of which was compacted before the "
            "delete file was removed",
            consequence="One table cannot show both the restored rows and the compacted file without its deleted rows; "
            "nothing was captured",
            remedy="process the table in full once, then set the checkpoint to its head by `airflow ips seed`",
        )


def refuse_two_vectors(
    history: TableHistory, at_end: Iterable[LocatedFile], when_compacted: Iterable[LocatedFile]
) -> None:
    """Refuse two deletion vectors for one path, which engines cannot read.

    1 append a, 2 delete a row of a, 3 compact a, 4 add a again by its old path, 5 delete a row of it
    """
    paths = {delete.file.referenced_data_file for delete in at_end} - {None}
    twice = next((d.file.referenced_data_file for d in when_compacted if d.file.referenced_data_file in paths), None)
    if twice is not None:
        raise UnsupportedTableError(
            f"{history.name}: rows were deleted in {twice}, which was compacted, added again by its old path, and had "
            "rows deleted again",
            consequence="One table cannot have a deletion vector for each of the two; nothing was captured",
            remedy="process the table in full once, then set the checkpoint to its head by `airflow ips seed`",
        )


def refuse_missing(
    history: TableHistory, keys: Iterable[FileKey], found: Iterable[LocatedFile], snapshot: SnapshotFacts | None
) -> None:
    """Refuse manifests that name a file and do not list it where it has to be."""
    missing = set(keys) - {located.file.key for located in found}
    if missing:
        raise UnsupportedTableError(
            f"{history.name}: {len(missing)} files that snapshots of the range name are not among the live files of "
            f"{snapshot or 'an empty table'}, for example {min(missing)[0]}",
            consequence="The manifests contradict each other, so rows would be missing from the capture",
            remedy="process the table in full once, then set the checkpoint to its head by `airflow ips seed`",
        )


def refuse_removed_twice(history: TableHistory, effects: Sequence[SnapshotEffect]) -> None:
    """Refuse a path that the range adds where it is live already, if a snapshot then removes one or both files.

    Without sequence numbers both entries look the same, so which of them a snapshot removed is unknown.
    """
    added = {one.file.path for effect in effects for one in effect.added if one.file.sequence_number == 0}
    live: Counter[str] = Counter()
    for effect in effects:
        removed = Counter(one.file.path for one in effect.removed if one.file.path in added)
        twice = next((path for path, times in removed.items() if times > 1 or live[path] > 1), None)
        if twice is not None:
            raise _indistinct(history, twice)
        live -= removed
        live.update(one.file.path for one in effect.added if one.file.path in added)


def refuse_indistinct(
    history: TableHistory, found: Iterable[FileFacts], files: FileHistories, effects: Sequence[SnapshotEffect]
) -> None:
    """Refuse a path that a table without sequence numbers lists for several commits: which entry is new is unknown."""
    for file in found:
        writer = effects[files.live[file.key].step].snapshot.snapshot_id
        if file.sequence_number == 0 and file.snapshot_id != writer:
            raise _indistinct(history, file.path)


def _indistinct(history: TableHistory, path: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{history.name} lists {path} several times, without sequence numbers (format version 1)",
        consequence="Which of the entries are from the range is unknown; nothing was captured",
        remedy="upgrade the table to format version 2, process it in full once, then set the checkpoint to its "
        "head by `airflow ips seed`",
    )
