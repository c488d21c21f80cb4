"""What a scenario wrote, in plain Python: the oracle. It knows nothing of Iceberg and shares none of its mistakes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Row: TypeAlias = "tuple[object, ...]"
"""A row's values, in the order of the ledger's columns; the first is its id."""

COLUMNS = ("id", "value", "note", "day")


@dataclass(slots=True, kw_only=True)
class State:
    """The table as of one snapshot, and which rows appends have added up to it."""

    rows: dict[int, dict[str, object]] = field(default_factory=dict)
    appended: list[dict[str, object]] = field(default_factory=list)

    def copy(self) -> State:
        """Rows of their own, for later steps change them."""
        return State(
            rows={number: dict(row) for number, row in self.rows.items()}, appended=[dict(row) for row in self.appended]
        )


class Ledger:
    """Every state that a table had, by snapshot."""

    def __init__(self) -> None:
        self.now = State()
        self._states: dict[int, State] = {}

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Rows that were not there before, by an operation that takes nothing away."""
        added = [dict(row) for row in rows]
        self.put(added)
        self.log(added)

    def put(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Rows that take the place of those with the same ids."""
        self.now.rows |= {int(str(row["id"])): dict(row) for row in rows}

    def log(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Rows in files that a snapshot added, and that takes nothing away."""
        self.now.appended += [dict(row) for row in rows]

    def remove(self, ids: Iterable[int]) -> None:
        """Rows that are gone."""
        for number in ids:
            del self.now.rows[number]

    def clear_column(self, name: str) -> None:
        """Drop a column's values everywhere: that is a change of the schema, and of no row."""
        for state in (self.now, *self._states.values()):
            for row in (*state.rows.values(), *state.appended):
                row[name] = None

    def committed(self, snapshot_id: int) -> None:
        """Remember the state under its snapshot."""
        self._states[snapshot_id] = self.now.copy()

    def roll_back(self, snapshot_id: int) -> None:
        """Make a snapshot's state the present one."""
        self.now = self._states[snapshot_id].copy()

    def at(self, snapshot_id: int) -> State:
        """The state as of a snapshot."""
        return self._states[snapshot_id]


def as_row(row: Mapping[str, object]) -> Row:
    """The values in order."""
    return tuple(row[column] for column in COLUMNS)


def bag(rows: Iterable[Mapping[str, object]]) -> Counter[Row]:
    """Rows with how often they occur."""
    return Counter(as_row(row) for row in rows)
