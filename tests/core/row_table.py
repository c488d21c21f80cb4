"""An invented table whose files hold rows, and a reader that applies delete files as an engine does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_ips.core.history.files import Content, DeleteScope, FileFacts
from airflow_provider_ips.core.history.selections import Take
from airflow_provider_ips.core.history.snapshots import position_of
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_ips.core.history.selections import Selection
    from airflow_provider_ips.core.positions import Position

Row = tuple[int, int]
"""A key and the number of its version."""

PARTITIONS = 2


@dataclass(slots=True)
class RowTable:
    """Every action commits one snapshot, and records the rows of the table after it."""

    history: InMemoryHistory = field(default_factory=lambda: InMemoryHistory("db.rows"))
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    deleted: dict[str, frozenset[tuple[str, Row]]] = field(default_factory=dict)
    """By delete file: which row of which data file."""
    states: list[tuple[Position, frozenset[Row]]] = field(default_factory=list)
    again: set[Row] = field(default_factory=set)
    """Rows of files that were removed and added again: new to a capture of changes, though they look the same."""
    has_restored: bool = False
    """A delete file was removed, and rows came back by that."""
    next_key: int = 0
    next_version: int = 0

    @property
    def data(self) -> list[FileFacts]:
        """The live data files."""
        return self.history.live_files

    @property
    def deletes(self) -> list[FileFacts]:
        """The live delete files."""
        live = self.history.live_entries(self.history.head_id)
        return [f for f in live if f.content is not Content.DATA]

    def live(self) -> frozenset[Row]:
        """The table's rows now."""
        return frozenset(self.read(self.data, self.deletes))

    def read(self, data: Iterable[FileFacts], deletes: Sequence[FileFacts]) -> list[Row]:
        """Read files as an engine does: a delete file removes positions of the older files in its scope."""
        return [row for file in data for row in self.rows[file.path] if not self._is_deleted(file, row, deletes)]

    def _is_deleted(self, file: FileFacts, row: Row, deletes: Sequence[FileFacts]) -> bool:
        return any(DeleteScope.of(d).covers(file) and (file.path, row) in self.deleted[d.path] for d in deletes)

    def captured(self, selections: Iterable[Selection]) -> list[Row]:
        """Read a captured table."""
        files = [f for s in selections for f in self.history.reads_entries(s.manifest) if f.is_live and _taken(s, f)]
        data = [f for f in files if f.content is Content.DATA]
        return self.read(data, [f for f in files if f.content is not Content.DATA])

    def append(self, count: int, place: int) -> None:
        """New rows in a file of their own."""
        self._commit("append", add=[self._file([self._new_row() for _ in range(count)], place)])

    def copy_on_write(self, which: int, row: int, *, removes: bool, brings: int) -> None:
        """Rewrite a file: one row changed or removed, the others as they were; and new rows, as a merge may have."""
        file = self._pick(which)
        rows = [] if file is None else self.read([file], self.deletes)
        if file is None or not rows:
            return
        hit = rows[row % len(rows)]
        kept = [r for r in rows if r != hit] + [self._new_row() for _ in range(brings)]
        kept += [] if removes else [self._changed(hit)]
        self._commit("overwrite", add=[self._file(kept, file.partition[0])] if kept else [], remove=[file])

    def drop_file(self, which: int) -> None:
        """Delete a whole file."""
        file = self._pick(which)
        if file is not None:
            self._commit("delete", remove=[file])

    def merge_on_read(self, which: int, row: int, *, wide: bool, updates: bool, vector: bool) -> None:
        """Delete a row by a delete file, for one data file or a whole partition; perhaps with its new version."""
        file = self._pick(which)
        rows = [] if file is None else self.read([file], self.deletes)
        if file is None or not rows:
            return
        hit = rows[row % len(rows)]
        gone = {(file.path, hit)}
        old = [d for d in self.deletes if vector and d.referenced_data_file == file.path]
        for delete in old:
            gone |= self.deleted[delete.path]
        delete = self.history.delete_file(None if wide and not vector else file.path, partition=file.partition)
        delete = replace(delete, records=len(gone))
        self.deleted[delete.path] = frozenset(gone)
        new = [self._file([self._changed(hit)], file.partition[0])] if updates else []
        self._commit("overwrite", add=[*new, delete], remove=old)

    def bring_back(self, which: int) -> None:
        """Remove a delete file, which restores rows."""
        if not self.deletes:
            return
        delete = self.deletes[which % len(self.deletes)]
        rows = self.read(self.data, [d for d in self.deletes if d != delete])
        if len({key for key, _ in rows}) == len(rows):
            self.has_restored = True
            self._commit("overwrite", remove=[delete])

    def compact(self, first: int, count: int) -> None:
        """Rewrite some files of one partition into one, applying their deletes and dropping those that name them."""
        file = self._pick(first)
        if file is None:
            return
        files = [f for f in self.data if f.partition == file.partition][: count + 1]
        rows = self.read(files, self.deletes)
        paths = {f.path for f in files}
        done = [d for d in self.deletes if d.referenced_data_file in paths]
        number = max(f.sequence_number for f in [*files, *self._that_apply(files)])
        out = [replace(self._file(rows, file.partition[0]), sequence_number=number)] if rows else []
        self._commit("replace", add=out, remove=[*files, *done])

    def rewrite_manifests(self) -> None:
        """Move entries to other manifests."""
        self.history.commit("replace", merge=True)
        self._remember()

    def add_again(self, which: int) -> None:
        """Add a removed file under its old path, as `add_files` can."""
        gone = sorted(set(self.rows) - {f.path for f in self.data})
        if not gone:
            return
        path = gone[which % len(gone)]
        if {key for key, _ in self.rows[path]} & {key for key, _ in self.live()}:
            return
        self.again |= set(self.rows[path])
        self._commit("append", add=[self.history.data_file(path, partition=(which % PARTITIONS,))])

    def _that_apply(self, files: Iterable[FileFacts]) -> list[FileFacts]:
        return [d for d in self.deletes if any(DeleteScope.of(d).covers(f) for f in files)]

    def _pick(self, which: int) -> FileFacts | None:
        return self.data[which % len(self.data)] if self.data else None

    def _file(self, rows: Sequence[Row], place: int) -> FileFacts:
        file = self.history.data_file(partition=(place % PARTITIONS,), records=len(rows))
        self.rows[file.path] = tuple(rows)
        return file

    def _new_row(self) -> Row:
        self.next_key += 1
        return self._changed((self.next_key, 0))

    def _changed(self, row: Row) -> Row:
        self.next_version += 1
        return (row[0], self.next_version)

    def _commit(self, operation: str, *, add: Sequence[FileFacts] = (), remove: Sequence[FileFacts] = ()) -> None:
        self.history.commit(operation, add=add, remove=[f.path for f in remove])
        self._remember()

    def _remember(self) -> None:
        head = self.history.head
        assert head is not None
        self.states.append((position_of(self.history, head), self.live()))


def _taken(selection: Selection, file: FileFacts) -> bool:
    if selection.take is Take.CHOSEN:
        return file.key in selection.chosen
    return selection.take is Take.WHOLE or file.status.name == "ADDED"
