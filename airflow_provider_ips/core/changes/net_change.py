"""The net effect of a range on files: which of them hold new and changed rows, and which hold what these rows were.

A change capture makes two tables. ``<source>`` holds the rows that the range added or changed, as of its end;
``<source>.before`` holds the rows that it changed or removed, as of its start. Example: the files ``o`` and ``p`` are
live when a range begins. If the range ends with one of these snapshots, the two tables hold:

    snapshot of the range                        <source>     <source>.before
    1  append    adds a                          a
    2  update    rewrites o into b               a b          o
    3  compact   rewrites a and p into c         a b          o
    4  delete    adds the delete file d for c    b c d        o p

Compaction changes no row. After snapshot 3, ``a`` still has the rows that it brought, although the table reads them
from ``c`` now, and ``p`` did not change. After snapshot 4, nothing says whether the deleted rows came from ``a`` or
from ``p``. So ``c`` with its delete file takes the place of ``a``, and ``p`` counts as changed.

A capture that holds unchanged rows, as ``b`` does after copy-on-write and ``c`` because of ``p``, is a superset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ips.core.changes.file_histories import (
    AddedFile,
    AppliedDelete,
    AppliedDeletes,
    FileHistories,
    RemovedFile,
)
from airflow_provider_ips.core.history.files import FileKey


@dataclass(frozen=True, slots=True, kw_only=True)
class NetChange:
    """Which data files of a range go to which table. Nothing is read for it; some files are still to be found."""

    live_files: Mapping[FileKey, AddedFile]
    """``<source>``: files that the range added and that are live at its end."""

    compacted_files: tuple[AddedFile, ...]
    """``<source>``: files that the range added and compacted, in place of the compaction's output."""

    recapturing_deletes: AppliedDeletes
    """``<source>``: old files that are live at the end and that one of these applied to."""

    removed_files: Mapping[FileKey, RemovedFile]
    """``<source>.before``: old files that the range removed."""

    deletes_of_old_files: AppliedDeletes
    """``<source>.before``: old files that one of these applied to."""

    deletes_of_added_paths: AppliedDeletes
    """Deletes that name a path which the range had already added. If an old file has that path too, it lost rows."""

    withdrawn_files: tuple[AddedFile, ...]
    """Files that the range added and then removed or changed. A capture that ended in between had them in ``<source>``,
    so its run may have written their rows: where it was never committed, they go to ``<source>.before``.
    """


def net_change(files: FileHistories, *, complete: bool) -> NetChange:
    """Decide where every file goes. An old file in which rows were restored is captured again, because they are new.

    With ``complete``, so is one in which rows were deleted, with the rows that are left: then a job may delete the keys
    of both tables from its target and insert the rows of ``<source>``, and needs no other read of the source.
    """
    deletes, of_added_paths = _deletes_of_old_and_added_files(files)
    recapturing = AppliedDeletes(d for d in deletes if d.restores or complete)
    from_outputs = _groups_captured_by_outputs(files, recapturing, complete=complete)
    changed = files.changed_groups | from_outputs
    return NetChange(
        live_files={
            key: file
            for key, file in files.live.items()
            if not file.by_compaction or files.groups[file.step] in from_outputs
        },
        compacted_files=tuple(
            file
            for file in files.ended
            if not file.by_compaction
            and file.compacted_at is not None
            and files.groups[file.compacted_at] not in from_outputs
        ),
        recapturing_deletes=recapturing,
        removed_files={
            key: file
            for key, file in files.removed.items()
            if not file.by_compaction or files.groups[file.step] in changed
        },
        deletes_of_old_files=deletes,
        deletes_of_added_paths=of_added_paths,
        withdrawn_files=tuple(file for file in files.added if _is_withdrawn(files, file, changed)),
    )


def _deletes_of_old_and_added_files(files: FileHistories) -> tuple[AppliedDeletes, AppliedDeletes]:
    """Tell deletes that may apply to old files from those for a path that the range had already added.

    step 0   removes o
    step 1   adds o again, by its old path
    step 2   deletes rows of o               they are rows of the added file
    """
    added_at: dict[str, int] = {}
    for file in files.added:
        path = file.located.file.path
        added_at[path] = min(file.step, added_at.get(path, file.step))
    of_old: list[AppliedDelete] = []
    of_added: list[AppliedDelete] = []
    for delete in files.deletes:
        named = delete.scope.referenced_data_file
        is_of_old = named is None or delete.step < added_at.get(named, delete.step + 1)
        (of_old if is_of_old else of_added).append(delete)
    return AppliedDeletes(of_old), AppliedDeletes(of_added)


def _groups_captured_by_outputs(files: FileHistories, recapturing: AppliedDeletes, *, complete: bool) -> frozenset[int]:
    """The compaction groups whose outputs go to ``<source>``, in place of the files that were added and compacted.

    compact a and o into c                                a goes to <source>
    … then delete rows of c                               c does: which rows of a are left is unknown
    compact o into c, then delete rows of c               neither: nothing new is in c
    … then remove the delete file again                   c does: the rows that were restored are new
    restore rows of o, then compact o into c              c does, for the same reason
    """
    fed = {
        files.groups[file.compacted_at]
        for file in files.ended
        if file.compacted_at is not None and not file.by_compaction
    }
    restored = {
        files.groups[old.step]
        for old in files.removed.values()
        if old.by_compaction and recapturing.apply_to(old.located.file, before=old.step)
    }
    changed = files.changed_groups if complete else files.changed_groups & fed
    return changed | files.restored_groups | restored


def _is_withdrawn(files: FileHistories, file: AddedFile, changed_groups: frozenset[int]) -> bool:
    if file.was_changed or file.has_deletes:
        return True
    return file.compacted_at is not None and files.groups[file.compacted_at] in changed_groups
