"""Files with rows in them, and how an engine reads them: by paths, numbers and deletes alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_ips.core.history.files import Content

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_ips.core.history.files import FileFacts

Row = tuple[int, int]
"""A key and the number of its version. No two live rows of a table differ in the version alone."""


class StoredRow(NamedTuple):
    """A row as a file holds it."""

    row: Row
    updated: int | None
    """``_last_updated_sequence_number``; None for a row that the file's own commit brought: then it is the file's."""


class ReadRow(NamedTuple):
    """A row as an engine reads it."""

    row: Row
    updated: int


class DataFile(NamedTuple):
    """A live data file. A path that was added twice is live twice, under two sequence numbers."""

    path: str
    number: int
    place: int
    """Its partition."""


class DeleteFile(NamedTuple):
    """A live delete file."""

    path: str
    number: int
    place: int
    data_file: str | None
    """The one data file that it applies to; None if it may apply to all of its partition."""

    is_equality: bool


class State(NamedTuple):
    """The live files of a table."""

    data: tuple[DataFile, ...] = ()
    deletes: tuple[DeleteFile, ...] = ()

    @classmethod
    def of(cls, files: Iterable[FileFacts]) -> State:
        """Of manifest entries, as an engine resolves them."""
        data, deletes = [], []
        for file in files:
            number, place = file.sequence_number, file.partition[0]
            if file.content is Content.DATA:
                data.append(DataFile(file.path, number, place))
            else:
                is_equality = file.content is Content.EQUALITY_DELETES
                deletes.append(DeleteFile(file.path, number, place, file.referenced_data_file, is_equality))
        return cls(tuple(data), tuple(deletes))


@dataclass(slots=True)
class Warehouse:
    """What files hold, by path. A file never changes, so all tables and all times share it."""

    rows: dict[str, tuple[StoredRow, ...]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    """The partition of a data file's rows."""

    positions: dict[str, frozenset[tuple[str, int]]] = field(default_factory=dict)
    """By position delete file: which row of which data file."""

    keys: dict[str, frozenset[int]] = field(default_factory=dict)
    """By equality delete file: the deleted keys."""

    lost: set[str] = field(default_factory=set)
    """Data files that expiry has deleted from storage."""

    def read(self, state: State) -> list[ReadRow]:
        """Read files by the rules of the Iceberg specification."""
        lost = next((file.path for file in state.data if file.path in self.lost), None)
        if lost is not None:
            raise FileNotFoundError(lost)
        return self.read_even_lost(state)

    def read_even_lost(self, state: State) -> list[ReadRow]:
        """Read what was there when the files were: the truth about a table at an earlier time."""
        rows = []
        for file in state.data:
            positions, keys = self._deleted(file, state.deletes)
            for at, stored in enumerate(self.rows[file.path]):
                if at not in positions and stored.row[0] not in keys:
                    rows.append(ReadRow(stored.row, file.number if stored.updated is None else stored.updated))
        return rows

    def count(self, state: State) -> Counter[Row]:
        """How often each row was there."""
        return Counter(read.row for read in self.read_even_lost(state))

    def _deleted(self, file: DataFile, deletes: Sequence[DeleteFile]) -> tuple[set[int], set[int]]:
        positions: set[int] = set()
        keys: set[int] = set()
        for delete in deletes:
            if delete.data_file not in (None, file.path) or delete.place != file.place:
                continue
            if delete.is_equality:
                if file.number < delete.number:
                    keys |= self.keys[delete.path]
            elif file.number <= delete.number:
                positions |= {at for path, at in self.positions[delete.path] if path == file.path}
        return positions, keys
