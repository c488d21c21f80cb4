"""What a backfill can be cut into, and which partitions then belong to a chunk.

The values of one column that each partition may hold, by any spec of a table that was partitioned by month first:

    day_month = 2026-09                     2026-09-01 to 2026-09-30
    day = 2026-10-01, country = 'DE'        2026-10-01
    no field of the column                  any value, or null

A job replaces or merges by the values of a column, mostly by days. So everything that may hold rows of one day stays
together, and a backfill by ``day`` has these units:

    day=2026-10-01/bucket=0, day=2026-10-01/bucket=1    one unit, of two partitions
    day=2026-10-02/bucket=0                             one unit
    day_month=2026-09, day=2026-09-30/bucket=1          one unit: the month, from an older spec, may hold that day
    no field of the column                              everything is one unit
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimeType,
)

from airflow_provider_ips.core.backfill.chunks import Chunk, Unit
from airflow_provider_ips.core.backfill.column_values import (
    NOT_NULL,
    ONLY_NULLS,
    UNKNOWN,
    ChunkValues,
    PartitionValues,
    Span,
)
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history.files import DATA, Partition
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.partitions.filters import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    comparisons_in,
    parse_filter,
    resolve_filter,
)
from airflow_provider_ips.iceberg.partitions.partition_fields import TIMESTAMPS, column_types, is_in_use, partition_path
from airflow_provider_ips.iceberg.partitions.transform_ranges import FieldValues, column_span
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata


WHOLE_TABLE = "the whole table"
_PLAN_AGAIN = "trigger the backfill again: it is then planned for the table as it is now"
DATES_AND_TIMESTAMPS = (DateType, *TIMESTAMPS)
_ORDERED = (*DATES_AND_TIMESTAMPS, BooleanType, IntegerType, LongType, DecimalType, StringType, TimeType)
"""The types whose values all engines order in the same way, and that can be written as JSON."""


class ColumnSpans:
    """The values of one column by partition. Without a column, every partition may hold anything."""

    def __init__(self, metadata: TableMetadata, column: str | None) -> None:
        self._specs = metadata.specs()
        self._known: dict[tuple[int, Partition], PartitionValues] = {}
        field = None if column is None else metadata.schema().find_field(column)
        self.field_id = None if field is None else field.field_id
        self._type = None if field is None else _comparable_type(metadata, field.field_id, field.field_type)

    def held(self, spec_id: int, partition: Partition) -> PartitionValues:
        """What the files of a partition may hold of the column."""
        place = (spec_id, partition)
        if place not in self._known:
            self._known[place] = self._held(zip(partition, self._specs[spec_id].fields, strict=True))
        return self._known[place]

    def _held(self, values: Iterable[tuple[Any, PartitionField]]) -> PartitionValues:
        if self._type is None:
            return UNKNOWN
        of_column = [(value, field) for value, field in values if field.source_id == self.field_id and is_in_use(field)]
        if not of_column:
            return UNKNOWN
        if any(value is None for value, _ in of_column):
            return ONLY_NULLS
        found = [column_span(field, self._type, FieldValues.of(value)) for value, field in of_column]
        spans = [span for span in found if span is not None]
        # Of several fields of one column, the one that says most: an hour more than its day.
        return PartitionValues(max(spans, key=lambda each: each.low)) if spans else NOT_NULL


def _comparable_type(metadata: TableMetadata, field_id: int, found: object) -> PrimitiveType | None:
    """None if values cannot be compared: the type has no order, or the column once was a date and now is not."""
    was_date = any(isinstance(each, DateType) for each in column_types(metadata, field_id))
    if not isinstance(found, _ORDERED) or (was_date and not isinstance(found, DateType)):
        return None
    return found


class ChunkPartitions:
    """Which partitions belong to a chunk of a backfill, in the table as it is now."""

    def __init__(self, source: IcebergSource, chunk: Chunk, values: ChunkValues) -> None:
        self._source, self._chunk, self._values = source, chunk, values
        _refuse_if_renamed(source, chunk, values)
        self._spans = ColumnSpans(source.metadata, values.column)

    @property
    def enclosing_condition(self) -> Condition:
        """A condition that all of them meet, so that manifests that do not meet it need not be read."""
        values, whole = self._values, self._values.hull
        parts: list[Condition] = []
        if values.nulls:
            parts.append(self._compared("is null"))
        if whole is not None:
            ends = () if whole.is_unbounded else ((">=", whole.low), ("<=", whole.high))
            between = [self._compared(operator, end) for operator, end in ends] or [self._compared("is not null")]
            parts.append(AllOf(parts=tuple(between)))
        return AnyOf(parts=tuple(parts))

    def has(self, spec_id: int, partition: Partition) -> bool:
        """Whether the files of a partition belong to the chunk. Refuse a partition that belongs to it only in part."""
        found = self._values.contains(self._spans.held(spec_id, partition))
        if found is None:
            raise self._in_part(spec_id, partition)
        return found

    def _compared(self, operator: str, *values: Any) -> Comparison:
        column, field_id = str(self._values.column), self._values.field_id
        return Comparison(column=column, field_id=field_id or 0, operator=operator, values=values)

    def _in_part(self, spec_id: int, partition: Partition) -> InputError:
        path = partition_path(self._source.metadata, spec_id, partition)
        return InputError(
            f"{self._source.name} now has files in {path or 'no partition'} (spec {spec_id}), which may hold rows "
            f"of {self._chunk} and of other values of {self._values.column!r}",
            consequence="Files are captured whole: the chunk would get rows of other chunks, or lack rows of its own",
            remedy=_PLAN_AGAIN,
        )


def _refuse_if_renamed(source: IcebergSource, chunk: Chunk, values: ChunkValues) -> None:
    schema = source.metadata.schema()
    name = None if values.field_id is None else schema.find_column_name(values.field_id)
    if name != values.column:
        raise InputError(
            f"{chunk} was cut by column {values.column!r}, which {source.name} "
            f"{'no longer has' if name is None else f'now calls {name!r}'}",
            consequence="It is not known which files belong to the chunk, and its job may not find the column either",
            remedy=_PLAN_AGAIN,
        )


def chunk_column(source: IcebergSource, condition: str | None, requested: str | None) -> str | None:
    """The column to cut by: the requested one, else the first partition column of these; None if there is none.

    1. dates and timestamps that the filter compares
    2. dates and timestamps of the current spec
    3. other columns that the filter compares
    4. other columns of the current spec

    The order within each is the table's, never that of the filter: two backfills that are cut by one column can be
    compared.
    """
    columns = _partition_columns(source)
    if requested is not None:
        if requested not in columns:
            raise InputError(
                f"chunk_by={requested!r} is not a partition column of {source.name}",
                consequence="Chunks could not be cut without opening data files",
                remedy=f"use one of {sorted(columns)}" if columns else "leave it out: the table has no partitions",
            )
        return requested
    schema = source.metadata.schema()
    compared = _compared_columns(source, condition)
    current = [f.source_id for f in source.metadata.spec().fields if is_in_use(f)]
    dated = [name for name in columns if isinstance(schema.find_field(name).field_type, DATES_AND_TIMESTAMPS)]
    choices = (
        [name for name in dated if name in compared],
        [name for name in dated if schema.find_field(name).field_id in current],
        [name for name in columns if name in compared],
        [name for name in columns if schema.find_field(name).field_id in current],
    )
    return next((names[0] for names in choices if names), None)


def _partition_columns(source: IcebergSource) -> list[str]:
    """The columns of the table's partition fields, those of the current spec first."""
    specs = source.metadata.specs()
    newest_first = [source.metadata.spec(), *(specs[spec_id] for spec_id in sorted(specs, reverse=True))]
    schema = source.metadata.schema()
    names = (schema.find_column_name(f.source_id) for spec in newest_first for f in spec.fields if is_in_use(f))
    return list(dict.fromkeys(name for name in names if name is not None))


def _compared_columns(source: IcebergSource, condition: str | None) -> set[str]:
    if condition is None:
        return set()
    resolved = resolve_filter(parse_filter(condition), source.metadata.schema(), table=source.name)
    return {comparison.column for comparison in comparisons_in(resolved)}


def units_of(source: IcebergSource, plan: CapturePlan, column: str | None) -> list[Unit]:
    """Cut everything that a plan takes by the values of a column: first what has no value, then in order of values."""
    spans = ColumnSpans(source.metadata, column)
    with translate_errors(f"reading which partitions {source.name} has"):
        partitions = _partitions(source, plan, spans)
    if any(partition.held.is_unknown for partition in partitions):
        return [_unit(source, partitions, UNKNOWN)]
    nulls = [partition for partition in partitions if partition.held == ONLY_NULLS]
    units = [_unit(source, nulls, ONLY_NULLS)] if nulls else []
    return units + [_unit(source, group, PartitionValues(span)) for group, span in _disjoint_groups(partitions)]


@dataclass(slots=True)
class _PartitionFiles:
    """The files of one partition, and the values of the column that they may hold."""

    spec_id: int
    partition: Partition
    held: PartitionValues
    files: int = 0
    records: int = 0
    size_bytes: int = 0


def _partitions(source: IcebergSource, plan: CapturePlan, spans: ColumnSpans) -> list[_PartitionFiles]:
    partitions: dict[tuple[int, Partition], _PartitionFiles] = {}
    for selection in plan.selections:
        for file in source.reads_selected(selection) if selection.manifest.content == DATA else ():
            key = (file.spec_id, file.partition)
            if key not in partitions:
                partitions[key] = _PartitionFiles(*key, held=spans.held(*key))
            partition = partitions[key]
            partition.files += 1
            partition.records += file.records
            partition.size_bytes += file.size_bytes
    return list(partitions.values())


def _disjoint_groups(partitions: Iterable[_PartitionFiles]) -> Iterator[tuple[list[_PartitionFiles], Span]]:
    """Group partitions whose values overlap, so that no value is in two groups. Those of nulls are left out."""
    valued = [(partition.held.span, partition) for partition in partitions if partition.held.span is not None]
    if any(span.is_unbounded for span, _ in valued):
        valued.sort(key=lambda each: not each[0].is_unbounded)
    else:
        valued.sort(key=lambda each: each[0].low)
    group: list[_PartitionFiles] = []
    group_span: Span | None = None
    for span, partition in valued:
        if group_span is not None and not span.overlaps(group_span):
            yield group, group_span
            group, group_span = [], None
        group.append(partition)
        group_span = span if group_span is None else group_span.hull(span)
    if group_span is not None:
        yield group, group_span


def _unit(source: IcebergSource, partitions: list[_PartitionFiles], held: PartitionValues) -> Unit:
    return Unit(
        label=_label(source, partitions, held),
        partitions=len(partitions),
        values=held,
        volume=Volume(
            files=sum(partition.files for partition in partitions),
            records=sum(partition.records for partition in partitions),
            size_bytes=sum(partition.size_bytes for partition in partitions),
        ),
    )


def _label(source: IcebergSource, partitions: list[_PartitionFiles], held: PartitionValues) -> str:
    """The path of one partition; of several, what their paths have in common, and their number."""
    paths = sorted({partition_path(source.metadata, p.spec_id, p.partition) or WHOLE_TABLE for p in partitions})
    if held.span is not None and held.span.is_unbounded:
        return WHOLE_TABLE if len(partitions) > 1 else paths[0]
    return paths[0] if len(paths) == 1 else f"{_common_path(paths)} ({len(paths)} partitions)"


def _common_path(paths: Iterable[str]) -> str:
    parts = [path.split("/") for path in paths]
    same = [values[0] for values in zip(*parts, strict=False) if len(set(values)) == 1]
    return "/".join(same) or f"{parts[0][0]} …"
