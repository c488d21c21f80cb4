"""Which values of one column something holds: a file by its partition, a chunk of a backfill by its plan.

A chunk carries these and no list of partitions. So it takes what lies there when it is captured, also in partitions
that came into being since: a country that a day did not have yet, or files rewritten into another partition spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_DECIMAL: Final = "decimal"


@dataclass(frozen=True, slots=True)
class Span:
    """From a value to a value, both included; without the upper one if it is open. Without ends: any value."""

    low: Any = None
    high: Any = None
    is_open: bool = False

    @property
    def is_any(self) -> bool:
        """It has no ends."""
        return self.low is None

    def within(self, other: Span) -> bool:
        """Tell whether the other one has all of its values."""
        if self.is_any or other.is_any:
            return other.is_any
        ends_within = self.high < other.high or (self.high == other.high and (self.is_open or not other.is_open))
        return bool(other.low <= self.low and ends_within)

    def meets(self, other: Span) -> bool:
        """Tell whether the two have a value in common."""
        return self.is_any or other.is_any or not (self._ends_before(other) or other._ends_before(self))

    def _ends_before(self, other: Span) -> bool:
        return bool(self.high < other.low or (self.is_open and self.high == other.low))

    def joined(self, other: Span) -> Span:
        """From where the first begins to where the last ends."""
        if self.is_any or other.is_any:
            return ANY
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Span(low, high, all(span.is_open for span in (self, other) if span.high == high))

    def to_json(self) -> list[Any]:
        """As a chunk carries it."""
        return [_encoded(self.low), _encoded(self.high), self.is_open]

    @classmethod
    def from_json(cls, raw: Sequence[Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        low, high, is_open = raw
        return cls(_decoded(low), _decoded(high), bool(is_open))

    def __str__(self) -> str:
        """As errors tell it."""
        if self.is_any:
            return "any value"
        if self.low == self.high:
            return f"{self.low}"
        return f"{self.low} to {'below ' if self.is_open else ''}{self.high}"


ANY: Final = Span()


@dataclass(frozen=True, slots=True)
class Held:
    """What a partition may hold of a column: values of a stretch, rows without a value, or both."""

    span: Span | None
    nulls: bool = False

    @property
    def is_anything(self) -> bool:
        """The partition says nothing about the column."""
        return self.nulls and self.span is not None and self.span.is_any


NULLS: Final = Held(None, nulls=True)
ANY_VALUE: Final = Held(ANY)
"""A bucket: rows without a value are in a bucket of their own."""

ANYTHING: Final = Held(ANY, nulls=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What a chunk is made of: stretches of a column's values, each of them whole, and rows without a value."""

    column: str | None
    """None where the table has no column to tell its rows apart: then it is everything."""

    field_id: int | None
    """What the column is known by when it is renamed."""

    spans: tuple[Span, ...]
    nulls: bool

    @classmethod
    def of(cls, held: Iterable[Held], *, column: str | None, field_id: int | None) -> Self:
        """Put together what partitions hold."""
        listed = list(held)
        spans = [each.span for each in listed if each.span is not None]
        merged = (ANY,) if any(span.is_any for span in spans) else _merged(spans)
        return cls(column=column, field_id=field_id, spans=merged, nulls=any(each.nulls for each in listed))

    @property
    def is_everything(self) -> bool:
        """Nothing is left out."""
        return self.nulls and ANY in self.spans

    def holds(self, held: Held) -> bool | None:
        """Tell whether all that a partition may hold is of these, or nothing; None where it may hold others too."""
        found: set[bool | None] = set()
        if held.nulls:
            found.add(self.nulls)
        if held.span is not None:
            found.add(self._holds(held.span))
        return found.pop() if len(found) == 1 else None

    def _holds(self, span: Span) -> bool | None:
        if any(span.within(mine) for mine in self.spans):
            return True
        return None if any(span.meets(mine) for mine in self.spans) else False

    @property
    def hull(self) -> Span | None:
        """From the lowest value to the highest; None where there is none."""
        whole: Span | None = None
        for span in self.spans:
            whole = span if whole is None else whole.joined(span)
        return whole

    @property
    def comparable(self) -> tuple[tuple[Any, Any], ...] | None:
        """The stretches, ends included, as notes on what backfills are at work on have them; None where unknown."""
        ends = [(span.low, span.high) for span in self.spans]
        return (
            None if self.nulls or not all(isinstance(end, int | str) for pair in ends for end in pair) else tuple(ends)
        )

    def to_json(self) -> dict[str, Any]:
        """Names of columns are values, for Airflow masks values under keys like ``token``."""
        return {
            "column": self.column,
            "field_id": self.field_id,
            "spans": [span.to_json() for span in self.spans],
            "nulls": self.nulls,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        return cls(
            column=raw["column"],
            field_id=raw["field_id"],
            spans=tuple(Span.from_json(span) for span in raw["spans"]),
            nulls=raw["nulls"],
        )


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """In their order; days that follow one another are one stretch, for there is no value between them."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda each: each.low):
        if merged and (span.meets(merged[-1]) or _adjoins(merged[-1], span)):
            merged[-1] = merged[-1].joined(span)
        else:
            merged.append(span)
    return tuple(merged)


def _adjoins(one: Span, other: Span) -> bool:
    if one.is_open:
        return bool(one.high == other.low)
    numbers = (one.high, other.low)
    return all(isinstance(n, int) and not isinstance(n, bool) for n in numbers) and one.high + 1 == other.low


def _encoded(value: Any) -> Any:  # noqa: ANN401 - of the column's type
    return {_DECIMAL: str(value)} if isinstance(value, Decimal) else value


def _decoded(value: Any) -> Any:  # noqa: ANN401 - of the column's type
    return Decimal(value[_DECIMAL]) if isinstance(value, dict) else value
