"""Which values of one column the partitions of a table hold, whatever spec they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import VoidTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from airflow_provider_ips.core.spans import ANY_VALUE, ANYTHING, NULLS, Held, Span
from airflow_provider_ips.iceberg.intervals import Presence, behind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata

    from airflow_provider_ips.core.files import Partition
    from airflow_provider_ips.iceberg.intervals import Interval

DATED = (DateType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_ORDERED = (*DATED, BooleanType, IntegerType, LongType, DecimalType, StringType, TimeType)
"""Types whose values every engine orders alike, and that travel as JSON."""


class ColumnSpans:
    """Tells of each partition what it may hold of one column; of none, that it may hold anything."""

    def __init__(self, metadata: TableMetadata, column: str | None) -> None:
        self._specs = metadata.specs()
        self._known: dict[tuple[int, Partition], Held] = {}
        field = None if column is None else metadata.schema().find_field(column)
        self.field_id = None if field is None else field.field_id
        self._type = None if field is None else _told_apart(metadata, field.field_id, field.field_type)

    def held(self, spec_id: int, partition: Partition) -> Held:
        """Every file of a partition holds the same, as far as its metadata tells."""
        place = (spec_id, partition)
        if place not in self._known:
            self._known[place] = self._held(zip(partition, self._specs[spec_id].fields, strict=True))
        return self._known[place]

    def _held(self, values: Iterable[tuple[Any, PartitionField]]) -> Held:
        if self._type is None:
            return ANYTHING
        told = [(value, field) for value, field in values if field.source_id == self.field_id and divides(field)]
        if not told:
            return ANYTHING
        if any(value is None for value, _ in told):
            return NULLS
        found = [behind(field, self._type, Presence.of(value)) for value, field in told]
        return _narrowest([interval for interval in found if interval is not None])


def divides(field: PartitionField) -> bool:
    """A field that was taken away stays in a spec of format version 1, and tells nothing."""
    return not isinstance(field.transform, VoidTransform)


def _narrowest(intervals: list[Interval]) -> Held:
    """Fields of the same column each say something: by the hour says more than by the day."""
    if not intervals:
        return ANY_VALUE
    best = max(intervals, key=lambda each: each.lower)
    return Held(Span(best.lower, best.upper, best.is_open))


def _told_apart(metadata: TableMetadata, field_id: int, found: object) -> PrimitiveType | None:
    """None where values cannot be compared: of a type without order, or days that became moments under way."""
    earlier = (schema._lazy_id_to_field.get(field_id) for schema in metadata.schemas)  # noqa: SLF001 - as in partitions
    was_date = any(column is not None and isinstance(column.field_type, DateType) for column in earlier)
    if not isinstance(found, _ORDERED) or (was_date and not isinstance(found, DateType)):
        return None
    return found
