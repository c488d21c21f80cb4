"""One history in the making: a table, its branches, and the ledger that every step writes into."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.system.histories.lake import CATALOG
from tests.system.histories.ledger import Column, Commit, Effect, Ledger, LedgerError, Row
from tests.system.histories.values import random_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from pyiceberg.table import Table

    from tests.system.histories.lake import Lake
    from tests.system.histories.profile import Profile


class EngineRefusedError(Exception):
    """An engine would not do a step. The history goes on without it."""


class NotNowError(Exception):
    """A step that has nothing to do here: no row to delete, no branch to publish."""


@dataclass(slots=True)
class World:
    """One table and all that is known of it."""

    lake: Lake
    profile: Profile
    name: str
    ledger: Ledger = field(default_factory=Ledger)
    earlier_ledgers: list[Ledger] = field(default_factory=list)
    heads: dict[str, int | None] = field(default_factory=lambda: {"main": None})
    staged: list[int] = field(default_factory=list)
    timeline: list[tuple[int, int | None]] = field(default_factory=list)
    """When main's head was seen to be what."""
    tally: Counter[str] = field(default_factory=Counter)
    format_version: int = 2
    partitioned_by_p_always: bool = False
    has_equality_deletes: bool = False
    has_name_mapping: bool = False
    was_upgraded: bool = False
    must_not_expire: bool = False
    """Iceberg's expiry deletes a file that was removed and brought back: the table would be broken."""
    consumers: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    def number(self) -> int:
        """One that this history has not used: for ids, names and columns."""
        return next(self._numbers)

    @property
    def sql_name(self) -> str:
        return f"{CATALOG}.{self.name}"

    @property
    def columns(self) -> list[Column]:
        return self.ledger.columns

    @property
    def head(self) -> int | None:
        return self.heads["main"]

    def rows(self, branch: str = "main") -> dict[int, Row]:
        """What the ledger says is in the table."""
        return self.ledger.state(self.heads[branch])

    def some_rows(self, rng: Random, *, branch: str = "main", most: int = 3) -> dict[int, Row]:
        """A few of the table's rows, at least one."""
        there = self.rows(branch)
        if not there:
            raise NotNowError
        ids = rng.sample(sorted(there), min(len(there), rng.randint(1, most)))
        return {i: there[i] for i in sorted(ids)}

    def new_rows(self, rng: Random, *, count: int | None = None, **fixed: Any) -> dict[int, Row]:
        """Rows that never were, by id."""
        return dict(self._new_row(rng, fixed) for _ in range(count or rng.randint(1, 3)))

    def _new_row(self, rng: Random, fixed: dict[str, Any]) -> tuple[int, Row]:
        values = {c.uid: fixed.get(c.name, random_value(rng, c.type)) for c in self.columns}
        number = self.number()
        by_name = {c.name: c.uid for c in self.columns}
        return number, Row.of({**values, by_name["id"]: number, by_name["v"]: 0})

    def changed(self, rng: Random, row: Row) -> Row:
        """The same row in its next version: another ``s``, and ``v`` counted up."""
        by_name = {c.name: c.uid for c in self.columns}
        uid = by_name["v"]
        changes = {uid: row.get(uid) + 1, by_name["s"]: random_value(rng, "string")}
        return row.with_values(changes)

    def spelled(self, rows: Sequence[Row]) -> list[list[Any]]:
        """Rows as writers take them: values in the order of today's columns."""
        return [list(row.read(self.columns)) for row in rows]

    def load(self) -> Table:
        return self.lake.catalog.load_table(self.name)

    def spark(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement in which ``{t}`` is the table."""
        with self.engine():
            return self.lake.sql(statement.replace("{t}", self.sql_name))

    def procedure(self, name: str, arguments: str = "") -> list[tuple[Any, ...]]:
        """Call one of Iceberg's procedures on the table."""
        return self.spark(f"call {CATALOG}.system.{name}(table => '{self.name}'{arguments and ', '}{arguments})")

    @contextmanager
    def engine(self) -> Iterator[None]:
        """Whatever an engine throws is its own affair, as long as it then has done nothing: ``settle`` checks that."""
        try:
            yield
        except (LedgerError, NotNowError, EngineRefusedError):
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise EngineRefusedError(f"{type(error).__name__}: {reason}") from error

    def record(
        self, step: str, *effects: Effect, branch: str = "main", moves: bool = True, halves: bool = False
    ) -> None:
        """Write down what the snapshots that are new did.

        With ``halves`` a statement may have been carried out in more snapshots than effects: then the earlier ones
        removed rows, and which is known after the last one only.
        """
        table = self.load()
        new = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in self.ledger.commits]
        half = Effect(is_change=True)
        if len(new) < len(effects) or (len(new) > len(effects) and not halves):
            raise LedgerError(f"{step}: {len(new)} snapshots instead of {len(effects)}")
        every = [half] * (len(new) - len(effects)) + list(effects)
        parent = self.heads.get(branch)
        for number, effect in zip(new, every, strict=True):
            self.ledger.commits[number] = Commit(snapshot_id=number, parent_id=parent, effect=effect, step=step)
            parent = number
        if moves:
            self.heads[branch] = parent
        self.settle()

    def settle(self) -> None:
        """Compare the table's references with the ledger's, and see what was expired."""
        metadata = self.load().metadata
        retained = {s.snapshot_id for s in metadata.snapshots}
        unknown = retained - set(self.ledger.commits)
        if unknown:
            raise LedgerError(f"snapshots that nothing was meant to make: {sorted(unknown)}")
        self.ledger.expired |= set(self.ledger.commits) - retained
        self.staged = [i for i in self.staged if i in retained]
        there = {"main": metadata.current_snapshot_id} | {
            name: ref.snapshot_id for name, ref in metadata.refs.items() if name != "main"
        }
        if there != self.heads:
            raise LedgerError(f"references are {there}, the ledger has {self.heads}")
        self.timeline.append((self.now_ms(), self.head))

    @staticmethod
    def now_ms() -> int:
        """As Iceberg counts commit times."""
        return time.time_ns() // 1_000_000
