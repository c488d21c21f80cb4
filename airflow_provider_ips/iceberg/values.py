"""Iceberg's single values: from the bytes of a bound to what travels as JSON."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyiceberg.conversions import from_bytes
from pyiceberg.types import (
    DateType,
    DoubleType,
    IcebergType,
    LongType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY: Final = EPOCH.date()
SHORT: Final = 4
"""Bytes of an int, a float or a date: what a bound has that was written before its column was promoted."""

MICROSECONDS_A_DAY: Final = 86_400_000_000


def decode_bound(field_type: PrimitiveType, raw: bytes) -> Any:  # noqa: ANN401 - a bound has its column's type
    """Decode a bound, also one that was written before the column's type was promoted."""
    if len(raw) == SHORT:
        if isinstance(field_type, LongType):
            return struct.unpack("<i", raw)[0]
        if isinstance(field_type, DoubleType):
            return struct.unpack("<f", raw)[0]
        if isinstance(field_type, TimestampType):
            return struct.unpack("<i", raw)[0] * MICROSECONDS_A_DAY
        if isinstance(field_type, TimestampNanoType):
            return struct.unpack("<i", raw)[0] * MICROSECONDS_A_DAY * 1000
    return from_bytes(field_type, raw)


def to_json_value(field_type: IcebergType, value: Any) -> Any:  # noqa: ANN401 - JSON's own types
    """What a SQL author can put between quotes: ISO for dates and times, text for decimals, numbers as they are."""
    for kinds, render in _RENDERERS:
        if isinstance(field_type, kinds) and isinstance(value, int):
            return render(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"  # JSON has no such number, and SQL casts this text
    return value.hex() if isinstance(value, bytes) else value


def _date(days: int) -> str:
    return (EPOCH_DAY + timedelta(days=days)).isoformat()


def _timestamp(microseconds: int) -> str:
    return (EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=None).isoformat()


def _timestamptz(microseconds: int) -> str:
    return (EPOCH + timedelta(microseconds=microseconds)).isoformat()


def _nanoseconds(value: int) -> str:
    whole = EPOCH + timedelta(seconds=value // 1_000_000_000)
    return f"{whole.replace(tzinfo=None).isoformat()}.{value % 1_000_000_000:09d}"


def _time(microseconds: int) -> str:
    return (EPOCH + timedelta(microseconds=microseconds)).time().isoformat()


_RENDERERS: Final[tuple[tuple[Any, Callable[[int], str]], ...]] = (
    (DateType, _date),
    (TimestamptzType, _timestamptz),
    (TimestampType, _timestamp),
    (TimestampNanoType, _nanoseconds),
    (TimestamptzNanoType, lambda value: _nanoseconds(value) + "+00:00"),
    (TimeType, _time),
)
