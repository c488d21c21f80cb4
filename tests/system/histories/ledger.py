"""What every commit of a history did, as the generator meant it: the truth that captures are compared with.

Nothing here asks the package, or Iceberg's metadata, what a snapshot did. A snapshot's number is all that is taken from
the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    State = Mapping[int, "Row"]


class LedgerError(Exception):
    """The table did something that the generator did not mean: a mistake of the generator, or of an engine."""


class HalfwayError(Exception):
    """A snapshot between two halves of one statement: which rows it has is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column through all its names and types. One dropped and added again under its name is another."""

    uid: int
    name: str
    type: str
    default: Any = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row: values by column, whatever the columns are called today."""

    values: tuple[tuple[int, Any], ...]

    @classmethod
    def of(cls, values: Mapping[int, Any]) -> Row:
        return cls(tuple(sorted(values.items())))

    def get(self, uid: int) -> Any:
        return dict(self.values).get(uid)

    def with_values(self, changed: Mapping[int, Any]) -> Row:
        return Row.of({**dict(self.values), **changed})

    def read(self, columns: Iterable[Column]) -> tuple[Any, ...]:
        """As a reader sees it by today's columns. A row from before a column was added has the column's default."""
        mine = dict(self.values)
        return tuple(mine.get(column.uid, column.default) for column in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one snapshot does to the rows. ``appends`` is what a log of appends holds of it."""

    appends: tuple[Row, ...] = ()
    after: State | None = None
    is_change: bool = False
    """It removes or changes rows."""
    is_unclear: bool = False
    """It changes no row, and yet may touch files in a way that a capture is free to refuse, or to take as an append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One snapshot."""

    snapshot_id: int
    parent_id: int | None
    effect: Effect
    step: str


@dataclass(slots=True)
class Ledger:
    """All commits of one table, of whatever branch, and the columns as they are."""

    columns: list[Column] = field(default_factory=list)
    commits: dict[int, Commit] = field(default_factory=dict)
    expired: set[int] = field(default_factory=set)

    def chain(self, head: int | None) -> list[Commit]:
        """A head's ancestors with itself, newest first, expired ones included."""
        chain = []
        while head is not None:
            chain.append(self.commits[head])
            head = self.commits[head].parent_id
        return chain

    def state(self, snapshot_id: int | None) -> dict[int, Row]:
        """The rows at a snapshot, by id."""
        if snapshot_id is None:
            return {}
        after = self.commits[snapshot_id].effect.after
        if after is None:
            raise HalfwayError(snapshot_id)
        return dict(after)

    def since(self, after: int | None, to: int | None) -> list[Commit] | None:
        """The commits of a range, oldest first; None if ``after`` is no ancestor of ``to``."""
        found: list[Commit] = []
        for commit in self.chain(to):
            if commit.snapshot_id == after:
                return found[::-1]
            found.append(commit)
        return found[::-1] if after is None else None

    def is_provable(self, after: int | None, to: int | None) -> bool:
        """Whether what is retained connects the two: each snapshot behind ``after`` is still there."""
        commits = self.since(after, to)
        return commits is not None and not any(c.snapshot_id in self.expired for c in commits)
