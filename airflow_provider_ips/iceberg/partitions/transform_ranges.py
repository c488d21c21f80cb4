"""What the value of a partition says about its column: a span, all, some or none of which meets a comparison.

day(ts) = 2026-10-01            ts from 2026-10-01T00:00:00 to 2026-10-01T23:59:59.999999
truncate[10](id) = 20           id from 20 to 29
truncate[2](name) = 'ab'        name from 'ab' up to 'ac', which is not included
bucket[16](id) = 3              any id that has this hash: no span

ts >= '2026-10-01'              all of that day
ts >= '2026-10-01T12:00:00'     some of it, so the day cannot be selected as a whole
id = 9, whose bucket is 7       none of bucket 3
id = 7, whose bucket is 3       some of bucket 3
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, date
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
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, StringType

from airflow_provider_ips.core.backfill.column_values import Span
from airflow_provider_ips.iceberg.partitions.filters import Comparison
from airflow_provider_ips.iceberg.partitions.partition_fields import EPOCH_DAY, units_a_day

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.types import PrimitiveType


_LAST_CHARACTER: Final = 0x10FFFF
_MONTHS: Final = 12
_AFTER_LAST_MONTH: Final = (MAXYEAR + 1 - EPOCH_DAY.year) * _MONTHS
"""Month 1 of the year 10000, where 9999-12 ends: the day 9999-12-31 is a common value for "without an end"."""


@dataclass(frozen=True, slots=True)
class Share:
    """How many of some rows meet a condition: whether any may, and whether all do."""

    some: bool
    all: bool


NOTHING, PART, EVERYTHING = Share(some=False, all=False), Share(some=True, all=False), Share(some=True, all=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldValues:
    """The values of a partition field in one partition, or in all partitions of a manifest."""

    lower: Any = None
    upper: Any = None
    has_null: bool = False

    @property
    def has_values(self) -> bool:
        """Whether not all of them are null."""
        return self.lower is not None

    @classmethod
    def of(cls, value: Any) -> FieldValues:  # noqa: ANN401
        """The one value of a partition."""
        return cls(lower=value, upper=value, has_null=value is None)


def matching_share(
    comparison: Comparison, field: PartitionField, column_type: PrimitiveType, values: FieldValues
) -> Share:
    """How many rows of the partitions with these values of a field meet a comparison of the field's column.

    Null meets neither a comparison nor its opposite, as in SQL: of values with null, never all rows meet it.
    """
    if comparison.operator == "is null":
        return Share(some=values.has_null, all=values.has_null and not values.has_values)
    if not values.has_values:
        return EVERYTHING if comparison.operator == "is not null" and not values.has_null else NOTHING
    if comparison.operator == "is not null":
        share = EVERYTHING
    elif isinstance(field.transform, BucketTransform):
        share = _share_of_buckets(comparison, field.transform, column_type, values)
    else:
        span = column_span(field, column_type, values)
        share = PART if span is None else _share_of_span(comparison.operator, comparison.values, span)
    return Share(some=share.some, all=share.all and not values.has_null)


_OPPOSITES: Final = {">": "<=", ">=": "<", "!=": "=", "not in": "in", "not like": "like"}


def _share_of_span(operator: str, values: Sequence[Any], span: Span) -> Share:
    if operator in _OPPOSITES:
        share = _share_of_span(_OPPOSITES[operator], values, span)
        return Share(some=not share.all, all=not share.some)
    value = values[0]
    match operator:
        case "<":
            return Share(some=span.low < value, all=span.is_below(value))
        case "<=":
            return Share(some=span.low <= value, all=span.high <= value)
        case "like":
            end = _after_prefix(value)
            return Share(
                some=not span.is_below(value) and (end is None or span.low < end),
                all=span.low >= value and (end is None or span.is_below(end)),
            )
    points = [Span(each, each) for each in values]
    return Share(some=any(point.overlaps(span) for point in points), all=span in points)


def _share_of_buckets(
    comparison: Comparison, transform: BucketTransform[Any], column_type: PrimitiveType, values: FieldValues
) -> Share:
    """All rows with one value are in one bucket, which has rows with other values too."""
    if comparison.operator not in ("=", "in", "!=", "not in"):
        return PART
    buckets = [_bucket(transform, column_type, value) for value in comparison.values]
    if any(bucket is None or values.lower <= bucket <= values.upper for bucket in buckets):
        return PART
    return NOTHING if comparison.operator in ("=", "in") else EVERYTHING


def _bucket(transform: BucketTransform[Any], column_type: PrimitiveType, value: Any) -> int | None:  # noqa: ANN401
    if isinstance(column_type, DecimalType) or isinstance(value, Decimal):
        return None
    try:
        return transform.transform(column_type)(value)
    except (OverflowError, struct.error):
        return None


def column_span(field: PartitionField, column_type: PrimitiveType, values: FieldValues) -> Span | None:
    """The values of the column in partitions with these values of a field; None if that is not known."""
    inverse = _inverse(field, column_type)
    if inverse is None:
        return None
    try:
        lowest, highest = inverse(values.lower), inverse(values.upper)
    except (ValueError, OverflowError):  # a year that Python's calendar does not have
        return None
    return Span(lowest.low, highest.high, highest.excludes_high)


def _inverse(field: PartitionField, column_type: PrimitiveType) -> Callable[[Any], Span] | None:
    transform = field.transform
    if isinstance(transform, IdentityTransform):
        return lambda value: Span(value, value)
    if isinstance(transform, TruncateTransform):
        return _inverse_of_truncate(transform.width, column_type)
    if isinstance(transform, DayTransform) and isinstance(column_type, DateType):
        return lambda value: Span(value, value)
    start_of = _STARTS.get(type(transform))
    return None if start_of is None else _inverse_of_time(start_of, units_a_day(column_type))


def _inverse_of_time(start_of: Callable[[int, int], int], units_a_day: int) -> Callable[[int], Span]:
    """A year, month, day or hour, from its start until the next one starts.

    Early writers rounded times before 1970 up instead of down, so that such a partition may hold the one before, too:

        day 3     from 1970-01-04 until 1970-01-05
        day 0     from 1969-12-31 until 1970-01-02
        day -5    from 1969-12-26 until 1969-12-28
    """

    def span(value: int) -> Span:
        try:
            lower = start_of(value - 1 if value <= 0 else value, units_a_day)
        except ValueError:  # there is none before the year 1
            lower = start_of(value, units_a_day)
        return Span(lower, start_of(value + 1, units_a_day) - 1)

    return span


def _start_of_month(months: int, units_a_day: int) -> int:
    if months == _AFTER_LAST_MONTH:
        return ((date.max - EPOCH_DAY).days + 1) * units_a_day
    return (date(EPOCH_DAY.year + months // _MONTHS, months % _MONTHS + 1, 1) - EPOCH_DAY).days * units_a_day


_STARTS: Final[dict[type, Callable[[int, int], int]]] = {
    YearTransform: lambda value, units_a_day: _start_of_month(value * _MONTHS, units_a_day),
    MonthTransform: _start_of_month,
    DayTransform: lambda value, units_a_day: value * units_a_day,
    HourTransform: lambda value, units_a_day: value * (units_a_day // 24),
}


def _inverse_of_truncate(width: int, column_type: PrimitiveType) -> Callable[[Any], Span] | None:
    if isinstance(column_type, IntegerType | LongType):
        return lambda value: Span(value, value + width - 1)
    if isinstance(column_type, DecimalType):
        step = Decimal(width - 1).scaleb(-column_type.scale)
        return lambda value: Span(value, value + step)
    if isinstance(column_type, StringType):
        return lambda value: _texts_with_prefix(value, width)
    return None


def _texts_with_prefix(value: str, width: int) -> Span:
    """A text that is shorter than the width was not truncated, so it is the only one."""
    end = _after_prefix(value) if len(value) == width else None
    return Span(value, value) if end is None else Span(value, end, excludes_high=True)


def _after_prefix(prefix: str) -> str | None:
    """The first text after all that have the prefix; None if there is none."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    return kept[:-1] + chr(ord(kept[-1]) + 1) if kept else None
