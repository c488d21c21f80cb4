"""Whether an answer is right: a copy of the table as of the checkpoint, with the answer applied, must be the table.

Each answer is applied as its contender says: rows are inserted, or replace those with the same keys, or are a log of
changes. What the copy should hold comes from the ledger alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from benchmarks.compare.contenders import Changes, Inserts, Replacements
from benchmarks.compare.ledger import COLUMNS, Row, bag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from benchmarks.compare.ledger import State

MAX_LISTED = 20
"""How many rows the detail lists of each kind; the counts are whole."""

INSERTED, REMOVED = ("INSERT", "UPDATE_AFTER"), ("DELETE", "UPDATE_BEFORE")


class Verdict(StrEnum):
    """The four outcomes."""

    RIGHT = "right"
    SUPERSET = "right (superset, said)"
    LOUD = "loud failure"
    SILENT = "silently wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One cell, and what it rests on."""

    verdict: Verdict
    why: str = ""
    log_is_complete: bool = False
    """The rows read are those that appends added, once each: only what was changed or removed is missing."""
    missing: tuple[Row, ...] = ()
    extra: tuple[Row, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the committed file has it."""
        return asdict(self) | {"missing": [list(row) for row in self.missing], "extra": [list(r) for r in self.extra]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What the scenario wrote: the table at the checkpoint and at the end of the range."""

    before: State
    after: State
    filtered_by: tuple[str, ...] = ()

    @property
    def appended(self) -> Counter[Row]:
        """What appends of the range added; one that was rolled back is not in the range."""
        return bag(self.after.appended) - bag(self.before.appended)


@dataclass(slots=True, kw_only=True)
class _Applied:
    """A copy after an answer was applied to it."""

    copy: Counter[Row]
    read: Counter[Row] = field(default_factory=Counter)
    carried: int = 0
    said: str | None = None
    objections: list[str] = field(default_factory=list)


def judge(answer: Inserts | Replacements | Changes, truth: Truth) -> Judgement:
    """Read the answer, apply it, compare."""
    applied = _apply(answer, truth)
    wanted = bag(truth.after.rows.values())
    missing, extra = _minus(wanted, applied.copy), _minus(applied.copy, wanted)
    log_is_complete = isinstance(answer, Inserts) and applied.read == truth.appended
    if missing or extra or applied.objections:
        return Judgement(
            verdict=Verdict.SILENT,
            why="; ".join([*_differences(missing, extra, wanted), *applied.objections]),
            log_is_complete=log_is_complete and not applied.objections,
            missing=_listed(missing),
            extra=_listed(extra),
        )
    if applied.carried and applied.said is None:
        why = f"{_rows(applied.carried)} along that did not change, and nothing says so"
        return Judgement(verdict=Verdict.SILENT, why=why)
    if applied.carried:
        return Judgement(
            verdict=Verdict.SUPERSET, why=f"{_rows(applied.carried)} along that did not change; {applied.said}"
        )
    return Judgement(verdict=Verdict.RIGHT, log_is_complete=log_is_complete)


def _apply(answer: Inserts | Replacements | Changes, truth: Truth) -> _Applied:
    before = bag(truth.before.rows.values())
    if isinstance(answer, Changes):
        return _Applied(copy=_replay(before, answer.log))
    rows = _read(answer.rows)
    objections = _pruned(answer.rows, rows, truth.filtered_by)
    if isinstance(answer, Inserts):
        return _Applied(copy=before + rows, read=rows, objections=objections)
    return _replace(answer, rows, truth, before, objections)


def _replace(
    answer: Replacements, rows: Counter[Row], truth: Truth, before: Counter[Row], objections: list[str]
) -> _Applied:
    """The union of both tables' keys is what is replaced; each table must also be what it says it is."""
    after, where_from = bag(truth.after.rows.values()), _read(answer.before)
    objections = objections + [
        f"{_rows(sum(strange.values()))} {what}"
        for strange, what in (
            (rows - after, "of the capture not in the table at the end of the range"),
            (after - before - rows, "added or changed, and not in the capture"),
            (where_from - before, "of `.before` not in the table at the checkpoint"),
            (before - after - where_from, "changed or removed, and not in `.before`"),
        )
        if strange
    ]
    keys = {row[0] for row in (*rows, *where_from)}
    come = rows if answer.source is None else _with_keys(_read(answer.source), keys)
    copy = before - _with_keys(before, keys) + come
    carried = sum((rows & before).values())
    return _Applied(copy=copy, read=rows, carried=carried, said=answer.superset, objections=objections)


def _with_keys(rows: Counter[Row], keys: set[object]) -> Counter[Row]:
    return Counter({row: times for row, times in rows.items() if row[0] in keys})


def _replay(copy: Counter[Row], log: DataFrame) -> Counter[Row]:
    """Apply a log of changes; a row that is removed without being there counts below zero."""
    replayed = Counter(copy)
    for entry in (row.asDict() for row in log.collect()):
        kind = entry["_change_type"]
        if kind not in (*INSERTED, *REMOVED):
            raise RuntimeError(f"{kind} is a change that the judge does not know")
        replayed.update({_row(entry): 1 if kind in INSERTED else -1})
    return replayed


def _read(rows: DataFrame | None) -> Counter[Row]:
    return Counter() if rows is None else Counter(_row(row.asDict()) for row in rows.collect())


def _row(row: dict[str, Any]) -> Row:
    return tuple(row[column] for column in COLUMNS)


def _pruned(frame: DataFrame | None, rows: Counter[Row], columns: Iterable[str]) -> list[str]:
    """Rows that a job loses, or gains, because it filters."""
    found = []
    for column in columns if frame is not None else ():
        at = COLUMNS.index(column)
        for value in sorted({str(row[at]) for row in rows}):
            expected = Counter({row: times for row, times in rows.items() if row[at] == value})
            if _read(frame.where(f"{column} = '{value}'")) != expected:  # type: ignore[union-attr]
                found.append(f"filtered by {column} = '{value}' it has other rows")
    return found


def _minus(left: Counter[Row], right: Counter[Row]) -> Counter[Row]:
    """Also where a count is below zero, which Counter's own difference forgets."""
    return Counter({row: left[row] - right[row] for row in {*left, *right} if left[row] > right[row]})


def _differences(missing: Counter[Row], extra: Counter[Row], wanted: Counter[Row]) -> list[str]:
    """In words, by id: what the copy has come to."""
    lost, surplus, there = ({row[0] for row in rows} for rows in (missing, extra, wanted))
    return [
        f"{_rows(len(ids))} {what}"
        for ids, what in (
            (lost - surplus, "lost"),
            (lost & surplus, "with other values"),
            ((surplus & there) - lost, "more than once"),
            (surplus - there, "kept that were deleted"),
        )
        if ids
    ]


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _listed(rows: Counter[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows.elements(), key=repr)[:MAX_LISTED])
