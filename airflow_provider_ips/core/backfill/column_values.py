"""Values of one column: those that the files of a partition may have, and those that a chunk of a backfill covers.

A chunk names values and not partitions. So it takes everything that has these values when it is captured, also in
partitions that did not exist when it was planned: a country that is new on that day, or files that were rewritten with
another partition spec.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Self

from airflow_provider_ips.core.json_fields import JsonObject


@dataclass(frozen=True, slots=True)
class Span:
    """A range of values, its ends included. Without ends it is the range of all values except null."""

    low: Any = None
    high: Any = None
    excludes_high: bool = False

    @property
    def is_unbounded(self) -> bool:
        return self.low is None

    def is_within(self, other: Span) -> bool:
        """Whether the other range contains all values of this one."""
        if self.is_unbounded or other.is_unbounded:
            return other.is_unbounded
        same_end = self.high == other.high and (self.excludes_high or not other.excludes_high)
        return bool(other.low <= self.low and (self.high < other.high or same_end))

    def overlaps(self, other: Span) -> bool:
        """Whether the two have a value in common."""
        return self.is_unbounded or other.is_unbounded or not (self.is_below(other.low) or other.is_below(self.low))

    def is_below(self, value: Any) -> bool:  # noqa: ANN401 - of the column's type
        """Whether every value in it is less than ``value``."""
        return bool(self.high <= value if self.excludes_high else self.high < value)

    def hull(self, other: Span) -> Span:
        """The smallest range that contains both, with the values between them."""
        if self.is_unbounded or other.is_unbounded:
            return ALL_VALUES
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Span(low, high, all(span.excludes_high for span in (self, other) if span.high == high))

    def to_json(self) -> list[Any]:
        return [_encoded(self.low), _encoded(self.high), self.excludes_high]

    @classmethod
    def from_json(cls, raw: object) -> Self:
        """Parse what :meth:`to_json` wrote."""
        match raw:
            case [low, high, bool(excludes_high)]:
                return cls(_decoded(low), _decoded(high), excludes_high)
        raise TypeError("it is not a list of two ends and a flag")

    def __str__(self) -> str:
        if self.is_unbounded:
            return "any value"
        if self.low == self.high:
            return f"{self.low}"
        return f"{self.low} to {'below ' if self.excludes_high else ''}{self.high}"


ALL_VALUES: Final = Span()


@dataclass(frozen=True, slots=True)
class PartitionValues:
    """The values of a column that the files of a partition may have."""

    span: Span | None
    nulls: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether the partition does not restrict the column at all."""
        return self.nulls and self.span is not None and self.span.is_unbounded


ONLY_NULLS: Final = PartitionValues(None, nulls=True)
NOT_NULL: Final = PartitionValues(ALL_VALUES)
"""Any value except null: a bucket, because nulls have a bucket of their own."""

UNKNOWN: Final = PartitionValues(ALL_VALUES, nulls=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkValues(JsonObject):
    """The values of a column that a chunk covers.

    Example: a chunk that was planned from the partitions of October 1 and October 5 has two spans, and contains

        the partition of October 1              wholly
        the partition of October 3              not at all, though it lies between the two
        a partition of the month of October     in part, so its files cannot be captured for this chunk alone
    """

    column: str | None
    """None if no column of the table separates its rows: then the chunk covers everything."""

    field_id: int | None
    """The id of the column, which stays the same if it is renamed."""

    spans: tuple[Span, ...]
    nulls: bool

    @classmethod
    def of(cls, partitions: Iterable[PartitionValues], *, column: str | None, field_id: int | None) -> Self:
        """The values of all partitions together."""
        listed = list(partitions)
        spans = [each.span for each in listed if each.span is not None]
        merged = (ALL_VALUES,) if any(span.is_unbounded for span in spans) else _merged(spans)
        return cls(column=column, field_id=field_id, spans=merged, nulls=any(each.nulls for each in listed))

    @property
    def is_everything(self) -> bool:
        """Whether all rows of the table are covered."""
        return self.nulls and ALL_VALUES in self.spans

    def contains(self, partition: PartitionValues) -> bool | None:
        """Whether the chunk contains a partition wholly or not at all; None for a part of it."""
        found: set[bool | None] = set()
        if partition.nulls:
            found.add(self.nulls)
        if partition.span is not None:
            found.add(self._contains_span(partition.span))
        return found.pop() if len(found) == 1 else None

    def _contains_span(self, span: Span) -> bool | None:
        if any(span.is_within(mine) for mine in self.spans):
            return True
        return None if any(span.overlaps(mine) for mine in self.spans) else False

    @property
    def hull(self) -> Span | None:
        """From the lowest value to the highest; None if there are only nulls."""
        whole: Span | None = None
        for span in self.spans:
            whole = span if whole is None else whole.hull(span)
        return whole

    @property
    def comparable_ends(self) -> tuple[tuple[Any, Any], ...] | None:
        """The ends of all spans, by which claims are compared; None if there are nulls or values without an order."""
        ends = [(span.low, span.high) for span in self.spans]
        is_comparable = not self.nulls and all(isinstance(end, int | str) for pair in ends for end in pair)
        return tuple(ends) if is_comparable else None


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort spans, and merge those that overlap or adjoin, as two consecutive days do."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda each: each.low):
        if merged and (span.overlaps(merged[-1]) or _adjoins(merged[-1], span)):
            merged[-1] = merged[-1].hull(span)
        else:
            merged.append(span)
    return tuple(merged)


def _adjoins(one: Span, other: Span) -> bool:
    """Whether no value lies between the two. Between two strings there always is one."""
    if one.excludes_high:
        return bool(one.high == other.low)
    numbers = (one.high, other.low)
    return all(isinstance(n, int) and not isinstance(n, bool) for n in numbers) and one.high + 1 == other.low


def _encoded(value: Any) -> Any:  # noqa: ANN401 - of the column's type
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def _decoded(value: Any) -> Any:  # noqa: ANN401 - of the column's type
    match value:
        case {"decimal": str(text)} if str(number := Decimal(text)) == text and number.is_finite():
            return number
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"{reprlib.repr(value)} is not a value of a column")
