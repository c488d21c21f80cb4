"""What the value of a partition says of the column behind it: an interval, which a comparison covers or cuts."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from airflow_provider_ips.iceberg.values import EPOCH_DAY, MICROSECONDS_A_DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.partitioning import PartitionField
    from pyiceberg.types import PrimitiveType

    from airflow_provider_ips.iceberg.conditions import Comparison

_LAST_CHARACTER: Final = 0x10FFFF
_MONTHS: Final = 12


@dataclass(frozen=True, slots=True)
class Share:
    """How much meets a condition: some of it or nothing, all of it or not."""

    some: bool
    all: bool


NOTHING, PART, EVERYTHING = Share(some=False, all=False), Share(some=True, all=False), Share(some=True, all=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Between two values, the upper one included or not."""

    lower: Any
    upper: Any
    is_open: bool = False

    def below(self, value: Any) -> bool:  # noqa: ANN401 - of the column's type, here and below
        """Every of it is less than the value."""
        return bool(self.upper <= value if self.is_open else self.upper < value)

    def below_or_at(self, value: Any) -> bool:  # noqa: ANN401
        """None of it is greater than the value."""
        return bool(self.upper <= value)

    def begins_below(self, value: Any) -> bool:  # noqa: ANN401
        """Some of it is less than the value."""
        return bool(self.lower < value)

    def begins_below_or_at(self, value: Any) -> bool:  # noqa: ANN401
        """Not all of it is greater than the value."""
        return bool(self.lower <= value)

    def holds(self, value: Any) -> bool:  # noqa: ANN401
        """The value is in it."""
        return self.begins_below_or_at(value) and not self.below(value)

    def is_just(self, value: Any) -> bool:  # noqa: ANN401
        """It is this value and no other."""
        return bool(not self.is_open and self.lower == self.upper == value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What is there of a partition field: values between two of them, nulls, or both."""

    lower: Any = None
    upper: Any = None
    has_null: bool = False

    @property
    def has_values(self) -> bool:
        """Not all of it is null."""
        return self.lower is not None

    @classmethod
    def of(cls, value: Any) -> Presence:  # noqa: ANN401
        """A single value."""
        return cls(lower=value, upper=value, has_null=value is None)


def share_of(test: Comparison, field: PartitionField, source_type: PrimitiveType, there: Presence) -> Share:
    """Tell how much of what is there meets a comparison."""
    if test.operator == "is null":
        return Share(some=there.has_null, all=there.has_null and not there.has_values)
    if not there.has_values:
        return EVERYTHING if test.operator == "is not null" and not there.has_null else NOTHING
    if test.operator == "is not null":
        found = EVERYTHING
    elif isinstance(field.transform, BucketTransform):
        found = _of_buckets(test, field.transform, source_type, there)
    else:
        interval = behind(field, source_type, there)
        found = PART if interval is None else _of_interval(test, interval)
    return Share(some=found.some, all=found.all and not there.has_null)


def _of_interval(test: Comparison, there: Interval) -> Share:
    if test.operator in _ORDERS:
        some, every = _ORDERS[test.operator](there, test.values[0])
        return Share(some=some, all=every)
    found = _of_prefix(test.values[0], there) if test.operator in ("like", "not like") else _of_values(test, there)
    # Of values: nulls meet neither a comparison nor its opposite.
    return Share(some=not found.all, all=not found.some) if test.operator in ("!=", "not in", "not like") else found


_ORDERS: Final[dict[str, Callable[[Interval, Any], tuple[bool, bool]]]] = {
    "<": lambda there, value: (there.begins_below(value), there.below(value)),
    "<=": lambda there, value: (there.begins_below_or_at(value), there.below_or_at(value)),
    ">": lambda there, value: (not there.below_or_at(value), not there.begins_below_or_at(value)),
    ">=": lambda there, value: (not there.below(value), not there.begins_below(value)),
}


def _of_values(test: Comparison, there: Interval) -> Share:
    return Share(
        some=any(there.holds(value) for value in test.values), all=any(there.is_just(value) for value in test.values)
    )


def _of_prefix(prefix: str, there: Interval) -> Share:
    end = _behind_prefix(prefix)
    return Share(
        some=not there.below(prefix) and (end is None or there.begins_below(end)),
        all=not there.begins_below(prefix) and (end is None or there.below(end)),
    )


def _of_buckets(
    test: Comparison, transform: BucketTransform[Any], source_type: PrimitiveType, there: Presence
) -> Share:
    """A bucket holds all rows of a value, and rows of others too."""
    if test.operator not in ("=", "in", "!=", "not in"):
        return PART
    numbers = [_bucket(transform, source_type, value) for value in test.values]
    if any(n is None or there.lower <= n <= there.upper for n in numbers):
        return PART
    return NOTHING if test.operator in ("=", "in") else EVERYTHING


def _bucket(transform: BucketTransform[Any], source_type: PrimitiveType, value: Any) -> int | None:  # noqa: ANN401
    if isinstance(source_type, DecimalType) or isinstance(value, Decimal):
        return None
    try:
        return transform.transform(source_type)(value)
    except (OverflowError, struct.error):
        return None


def behind(field: PartitionField, source_type: PrimitiveType, there: Presence) -> Interval | None:
    """The values of the column that lie behind those of the partition field; None where that cannot be told."""
    behind = _inverse(field, source_type)
    if behind is None:
        return None
    try:
        low, high = behind(there.lower), behind(there.upper)
    except (ValueError, OverflowError):  # a year that Python's calendar does not have
        return None
    return Interval(lower=low.lower, upper=high.upper, is_open=high.is_open)


def _inverse(field: PartitionField, source_type: PrimitiveType) -> Callable[[Any], Interval] | None:
    transform = field.transform
    if isinstance(transform, IdentityTransform):
        return lambda value: Interval(lower=value, upper=value)
    if isinstance(transform, TruncateTransform):
        return _truncated(transform.width, source_type)
    if isinstance(transform, DayTransform) and isinstance(source_type, DateType):
        return lambda value: Interval(lower=value, upper=value)
    begins = _BEGINS.get(type(transform))
    return None if begins is None else _of_time(begins, _a_day(source_type))


def _of_time(begins: Callable[[int, int], int], a_day: int) -> Callable[[int], Interval]:
    """A unit of time, from its beginning until the next.

    Early writers rounded times before 1970 up: what they called unit -1 began in -2, and 0 began in -1.
    """
    return lambda value: Interval(
        lower=begins(value - 1 if value <= 0 else value, a_day), upper=begins(value + 1, a_day) - 1
    )


def _begin_of_month(months: int, a_day: int) -> int:
    return (date(EPOCH_DAY.year + months // _MONTHS, months % _MONTHS + 1, 1) - EPOCH_DAY).days * a_day


_BEGINS: Final[dict[type, Callable[[int, int], int]]] = {
    YearTransform: lambda value, a_day: _begin_of_month(value * _MONTHS, a_day),
    MonthTransform: _begin_of_month,
    DayTransform: lambda value, a_day: value * a_day,
    HourTransform: lambda value, a_day: value * (a_day // 24),
}


def _a_day(source_type: PrimitiveType) -> int:
    if isinstance(source_type, DateType):
        return 1
    nanoseconds = isinstance(source_type, TimestampNanoType | TimestamptzNanoType)
    return MICROSECONDS_A_DAY * (1000 if nanoseconds else 1)


def _truncated(width: int, source_type: PrimitiveType) -> Callable[[Any], Interval] | None:
    if isinstance(source_type, IntegerType | LongType):
        return lambda value: Interval(lower=value, upper=value + width - 1)
    if isinstance(source_type, DecimalType):
        step = Decimal(width - 1).scaleb(-source_type.scale)
        return lambda value: Interval(lower=value, upper=value + step)
    if isinstance(source_type, StringType):
        return lambda value: _with_prefix(value, width)
    return None


def _with_prefix(value: str, width: int) -> Interval:
    """A shorter text than the width is the whole value."""
    end = _behind_prefix(value) if len(value) == width else None
    return Interval(lower=value, upper=value) if end is None else Interval(lower=value, upper=end, is_open=True)


def _behind_prefix(prefix: str) -> str | None:
    """The first text behind all that begin so; None where there is none."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    return kept[:-1] + chr(ord(kept[-1]) + 1) if kept else None
