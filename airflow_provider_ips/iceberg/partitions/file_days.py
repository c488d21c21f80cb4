"""On which days the rows of a file lie, by its partition or by its bounds, and how much of a manifest lies on each.

partition day=2026-10-01                       that day
partition month=2026-10                        1 to 31 October
bounds 2026-09-30T22:00 and 2026-10-01T03:00   both days
no bounds                                      unknown
partition day=null                             none: no condition on the column selects its rows
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import DateType, IntegerType, LongType, PrimitiveType, StringType

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.iceberg.avro.container import Header
from airflow_provider_ips.iceberg.avro.skips import decode_long, read_long
from airflow_provider_ips.iceberg.manifests.counts import checked_blocks
from airflow_provider_ips.iceberg.manifests.entries import (
    FILE_SIZE,
    LOWER_BOUNDS,
    PARTITION,
    RECORD_COUNT,
    STATUS,
    UPPER_BOUNDS,
    EntryLayout,
)
from airflow_provider_ips.iceberg.partitions.partition_fields import EPOCH_DAY, TIMESTAMPS, decode_bound, units_a_day
from airflow_provider_ips.iceberg.storage.files import open_stream

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField

    from airflow_provider_ips.core.history.files import ManifestFacts
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource

Span = tuple[int, int]
"""The first and the last day, in days since 1970."""

NO_DAY: Final[Span] = (-(10**9), -(10**9))
"""Rows without a value."""

_EXISTING: Final = b"\x00"
_ADDED: Final = b"\x02"
"""The status of an entry as Avro encodes it: decoding it a million times would take a second."""

_DATES: Final = (DateType, StringType, IntegerType, LongType)
_LENGTH_OF_DATE: Final = 10


@dataclass(slots=True)
class DayTally:
    """Files, rows and bytes of a manifest's files, by span and by status, as encoded.

    The span is None where nothing says which days a file holds.
    """

    counts: dict[tuple[Span | None, bytes], list[int]] = field(default_factory=dict)

    def live(self, *, only_added: bool = False) -> Iterator[tuple[Span | None, list[int]]]:
        """The counts of live files by span, or only of those that the manifest's own snapshot added."""
        for (span, status), count in self.counts.items():
            if status == _ADDED or (status == _EXISTING and not only_added):
                yield span, count


class DateColumn:
    """The column that a lookback filters by."""

    def __init__(self, source: IcebergSource, column: str | None) -> None:
        self._metadata = source.metadata
        self.name = column or _partitioned_by_time(source)
        self._id, self._type = _date_column(source, self.name)
        self._fields = {
            spec_id: found
            for spec_id, spec in self._metadata.specs().items()
            if (found := _finest(spec.fields, self._id)) is not None
        }

    @property
    def known_by(self) -> str:
        """What says on which days a file's rows lie, in words."""
        specs = [spec_id for spec_id in self._metadata.specs() if spec_id in self._fields]
        if self._metadata.default_spec_id not in self._fields:
            return "bounds" if not specs else "bounds, and partitions of older files"
        _, found = self._fields[self._metadata.default_spec_id]
        return f"partition {found.name} ({found.transform})"

    def tally(self, source: IcebergSource, manifest: ManifestFacts) -> DayTally:
        """Count a manifest's live files by their days. Opens a file; one block of it is in memory at a time."""
        place = self._fields.get(manifest.spec_id)
        wanted = {RECORD_COUNT, FILE_SIZE, *((PARTITION,) if place else (LOWER_BOUNDS, UPPER_BOUNDS))}
        listed = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
        tally = DayTally()
        with open_stream(source.table.io, manifest.path) as stream:
            header = Header.read(stream)
            layout = EntryLayout(header, wanted)
            span_of = _by_partition(layout, *place, self._type) if place else self._by_bounds(layout)
            for count, data in checked_blocks(header.blocks(stream), manifest.path, listed):
                _add(tally, layout, layout.walk(count, data), span_of)
        return tally

    def _by_bounds(self, layout: EntryLayout) -> Callable[[list[Any]], Span | None]:
        lows, highs = layout.index.get(LOWER_BOUNDS), layout.index.get(UPPER_BOUNDS)

        def span_of(raw: list[Any]) -> Span | None:
            if lows is None or highs is None:
                return None
            low, high = _bound(raw[lows], self._id), _bound(raw[highs], self._id)
            if low is None or high is None:
                return None
            first, last = (_day(self._type, decode_bound(self._type, bound)) for bound in (low, high))
            return None if first is None or last is None else (first, last)

        return span_of


def _add(tally: DayTally, layout: EntryLayout, entries: Any, span_of: Callable[[list[Any]], Span | None]) -> None:  # noqa: ANN401 - an iterator of the walker
    """Count the entries of one block. A million of them pass here, so nothing is looked up twice."""
    status, rows, size, counts = layout.index[STATUS], layout.index[RECORD_COUNT], layout.index[FILE_SIZE], tally.counts
    for _, _, raw in entries:
        key = (span_of(raw), raw[status])
        count = counts.get(key)
        if count is None:
            count = counts[key] = [0, 0, 0]
        count[0] += 1
        count[1] += decode_long(raw[rows])
        count[2] += decode_long(raw[size])


def _by_partition(
    layout: EntryLayout, place: int, partition_field: PartitionField, column_type: PrimitiveType
) -> Callable[[list[Any]], Span | None]:
    index, known = layout.index[PARTITION], dict[bytes, Span | None]()

    def span_of(raw: list[Any]) -> Span | None:
        encoded = raw[index]
        if encoded not in known:
            known[encoded] = days_of_partition(partition_field, column_type, layout.value(PARTITION, raw)[place])
        return known[encoded]

    return span_of


def days_of_partition(partition_field: PartitionField, column_type: PrimitiveType, value: Any) -> Span | None:  # noqa: ANN401 - of any type
    """The days of a partition by its value; None if the value names no day."""
    if value is None:
        return NO_DAY
    transform = partition_field.transform
    if isinstance(transform, HourTransform):
        return (value // 24, value // 24)
    if isinstance(transform, MonthTransform):
        year, month = 1970 + value // 12, value % 12 + 1
        first = _since_epoch(date(year, month, 1))
        return (first, first + calendar.monthrange(year, month)[1] - 1)
    if isinstance(transform, YearTransform):
        return (_since_epoch(date(1970 + value, 1, 1)), _since_epoch(date(1970 + value, 12, 31)))
    found = _day(DateType() if isinstance(transform, DayTransform) else column_type, value)
    return None if found is None else (found, found)


def _day(column_type: PrimitiveType, value: Any) -> int | None:  # noqa: ANN401 - of the column's type
    """The day of a value; None if it does not name one. Numbers are read as 20261001, strings as 2026-10-01."""
    if isinstance(value, date):
        return _since_epoch(value)
    if isinstance(column_type, DateType):
        return int(value)
    if isinstance(column_type, TIMESTAMPS):
        return int(value // units_a_day(column_type))
    try:
        return _since_epoch(date.fromisoformat(str(value)[:_LENGTH_OF_DATE]))
    except ValueError:
        return None


def _since_epoch(day: date) -> int:
    return (day - EPOCH_DAY).days


def _finest(fields: Any, column_id: int) -> tuple[int, PartitionField] | None:  # noqa: ANN401 - a tuple of PyIceberg's
    """The field of a spec that says most about the days of a column, with its place; None if none does."""
    order = (IdentityTransform, DayTransform, HourTransform, MonthTransform, YearTransform)
    of_column = [(place, each) for place, each in enumerate(fields) if each.source_id == column_id]
    found = [pair for kind in order for pair in of_column if isinstance(pair[1].transform, kind)]
    return found[0] if found else None


def _partitioned_by_time(source: IcebergSource) -> str:
    metadata = source.metadata
    for each in metadata.spec().fields:
        if isinstance(each.transform, DayTransform | HourTransform | MonthTransform | YearTransform):
            return metadata.schema().find_column_name(each.source_id) or each.name
        column = metadata.schema().find_field(each.source_id)
        if isinstance(each.transform, IdentityTransform) and isinstance(column.field_type, (DateType, *TIMESTAMPS)):
            return metadata.schema().find_column_name(each.source_id) or each.name
    raise InputError(
        f"{source.name} is not partitioned by time",
        consequence="It is not known by which column a lookback selects its rows",
        remedy="name the column of the WHERE clause, for example --column event_date",
    )


def _date_column(source: IcebergSource, column: str) -> tuple[int, PrimitiveType]:
    schema = source.metadata.schema()
    try:
        found = schema.find_field(column)
    except ValueError as error:
        raise InputError(
            f"{column!r} is not a column of {source.name}",
            consequence="What a lookback by it reads is not known",
            remedy=f"use one of {', '.join(schema.column_names[:40])}",
        ) from error
    if not isinstance(found.field_type, PrimitiveType) or not isinstance(found.field_type, (*_DATES, *TIMESTAMPS)):
        raise InputError(
            f"{column!r} of {source.name} is a {found.field_type}, which names no day",
            consequence="What a lookback by it reads is not known",
            remedy="use a date, a timestamp, a string such as 2026-10-01, or a number such as 20261001",
        )
    return found.field_id, found.field_type


def _bound(raw: bytes, column_id: int) -> bytes | None:
    """Find a column's bound in an encoded map. Decoding the bounds of all columns would take ten times as long.

    A map is blocks of items, each a key, a length and so many bytes; a negative count is followed by the block's size.
    """
    at = 1  # past the mark that it is not null
    if not raw or not raw[0]:
        return None
    count, at = read_long(raw, at)
    while count:
        if count < 0:
            _, at = read_long(raw, at)
        for _ in range(abs(count)):
            key, at = read_long(raw, at)
            length, at = read_long(raw, at)
            if key == column_id:
                return raw[at : at + length]
            at += length
        count, at = read_long(raw, at)
    return None
