"""Partition fields and values of columns: the types they have, how bounds are decoded, and how values are shown."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyiceberg.conversions import from_bytes
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, VoidTransform
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

from airflow_provider_ips.core.history.files import Partition
from airflow_provider_ips.iceberg.foreign_errors import parsing

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType


WITHOUT_ZONE: Final = (TimestampType, TimestampNanoType)
WITH_ZONE: Final = (TimestamptzType, TimestamptzNanoType)
TIMESTAMPS: Final = (*WITHOUT_ZONE, *WITH_ZONE)
IN_NANOSECONDS: Final = (TimestampNanoType, TimestamptzNanoType)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY: Final = EPOCH.date()
FOUR_BYTES: Final = 4
"""The size of an int, a float or a date: a bound from before its column was promoted to a longer type."""

MICROSECONDS_A_DAY: Final = 86_400_000_000
DAYS_IN_400_YEARS: Final = 146_097
LAST_YEAR_OF_FOUR_DIGITS: Final = 9999


def units_a_day(column_type: PrimitiveType) -> int:
    """How much a column counts from one day to the next: dates count days, timestamps micro- or nanoseconds."""
    if isinstance(column_type, DateType):
        return 1
    return MICROSECONDS_A_DAY * (1000 if isinstance(column_type, IN_NANOSECONDS) else 1)


def decode_bound(field_type: PrimitiveType, raw: bytes) -> Any:  # noqa: ANN401 - a bound has its column's type
    """Decode a bound, also one that was written before the column's type was promoted."""
    if len(raw) == FOUR_BYTES:
        if isinstance(field_type, LongType):
            return struct.unpack("<i", raw)[0]
        if isinstance(field_type, DoubleType):
            return struct.unpack("<f", raw)[0]
        if isinstance(field_type, TimestampType):
            return struct.unpack("<i", raw)[0] * MICROSECONDS_A_DAY
        if isinstance(field_type, TimestampNanoType):
            return struct.unpack("<i", raw)[0] * MICROSECONDS_A_DAY * 1000
    with parsing(f"a bound of type {field_type}"):
        return from_bytes(field_type, raw)


def to_json_value(field_type: IcebergType, value: Any) -> Any:  # noqa: ANN401 - JSON's own types
    """A value as SQL takes it between quotes: ISO for dates and times, text for decimals, numbers as they are."""
    for kinds, render in _RENDERERS:
        if isinstance(field_type, kinds) and isinstance(value, int):
            return render(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"  # JSON has no infinity, and SQL casts this text
    return value.hex() if isinstance(value, bytes) else value


def _date(days: int) -> str:
    """A day also beyond the years 1 to 9999 of Python, as ISO and Spark write it: ``+10000-01-01``.

    The calendar repeats every 400 years, so a far day is shown by its twin in the years 1970 to 2369.
    """
    cycles, days = divmod(days, DAYS_IN_400_YEARS)
    twin = EPOCH_DAY + timedelta(days=days)
    year = twin.year + 400 * cycles
    sign = "+" if year > LAST_YEAR_OF_FOUR_DIGITS else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{twin:%m-%d}"


def _timestamp(microseconds: int) -> str:
    days, rest = divmod(microseconds, MICROSECONDS_A_DAY)
    return f"{_date(days)}T{_time(rest)}"


def _timestamptz(microseconds: int) -> str:
    return _timestamp(microseconds) + "+00:00"


def _nanoseconds(value: int) -> str:
    seconds, rest = divmod(value, 1_000_000_000)
    return f"{_timestamp(seconds * 1_000_000)}.{rest:09d}"


def _time(microseconds: int) -> str:
    with parsing(f"a time of day of {microseconds} microseconds"):
        return (EPOCH + timedelta(microseconds=microseconds)).time().isoformat()


_RENDERERS: Final[tuple[tuple[Any, Callable[[int], str]], ...]] = (
    (DateType, _date),
    (TimestamptzType, _timestamptz),
    (TimestampType, _timestamp),
    (TimestampNanoType, _nanoseconds),
    (TimestamptzNanoType, lambda value: _nanoseconds(value) + "+00:00"),
    (TimeType, _time),
)


def is_in_use(field: PartitionField) -> bool:
    """Whether files are partitioned by a field. One that was removed stays in specs of format version 1, as void."""
    return not isinstance(field.transform, VoidTransform)


def column_types(metadata: TableMetadata, column_id: int) -> list[IcebergType]:
    """The type of a column in each schema that has it, the current schema first: it may be dropped or promoted."""
    schemas = sorted(metadata.schemas, key=lambda schema: schema.schema_id != metadata.current_schema_id)
    columns = (schema._lazy_id_to_field.get(column_id) for schema in schemas)  # noqa: SLF001 - find_field raises if it is absent
    return [column.field_type for column in columns if column is not None]


def primitive_type(metadata: TableMetadata, column_id: int) -> PrimitiveType | None:
    """The type of a column, or the last one that it had; None if no schema has it as a simple column."""
    return next((found for found in column_types(metadata, column_id) if isinstance(found, PrimitiveType)), None)


def shown_value(metadata: TableMetadata, field: PartitionField, value: Any) -> Any:  # noqa: ANN401 - JSON's own types
    """A value of a partition field as people and SQL write it: a day as ``2026-10-01``, a month as ``2026-10``."""
    column_type = primitive_type(metadata, field.source_id)
    if column_type is None:
        return value
    result_type = field.transform.result_type(column_type)
    if isinstance(field.transform, DayTransform):
        return to_json_value(DateType(), value)
    if isinstance(field.transform, HourTransform):
        days, hours = divmod(value, 24)
        return f"{_date(days)}-{hours:02d}"
    if isinstance(field.transform, IdentityTransform):
        return to_json_value(result_type, value)
    return field.transform.to_human_string(result_type, value)


def named_values(metadata: TableMetadata, spec_id: int, partition: Partition) -> list[tuple[str, Any]]:
    """The values of a partition as people write them, each with its field's name; None for null."""
    return [
        (field.name, None if value is None else shown_value(metadata, field, value))
        for field, value in zip(metadata.specs()[spec_id].fields, partition, strict=True)
        if is_in_use(field)
    ]


def partitioning(metadata: TableMetadata, spec_id: int) -> tuple[tuple[str, str], ...]:
    """The fields that a spec partitions by, each with its name and what it is of: ``("p", "bucket[4] of column 1")``.

    A name alone does not identify a field: one that was dropped may be followed by another one of the same name.
    """
    fields = metadata.specs()[spec_id].fields
    return tuple((field.name, f"{field.transform} of column {field.source_id}") for field in fields if is_in_use(field))


def partition_path(metadata: TableMetadata, spec_id: int, partition: Partition) -> str:
    """A partition as folders are named, such as ``day=2026-10-01/country=DE``; empty if there are no fields."""
    named = named_values(metadata, spec_id, partition)
    return "/".join(f"{name}={'null' if value is None else value}" for name, value in named)
