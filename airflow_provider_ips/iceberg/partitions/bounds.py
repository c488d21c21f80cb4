"""Between which values the captured files lie: partitions by manifest lists alone, columns by the files' statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pyiceberg.manifest import PartitionFieldSummary
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history.files import DATA
from airflow_provider_ips.core.history.selections import CapturePlan, Selection
from airflow_provider_ips.core.record import ColumnRange
from airflow_provider_ips.iceberg.avro.container import Header
from airflow_provider_ips.iceberg.manifests.counts import checked_blocks
from airflow_provider_ips.iceberg.manifests.entries import (
    DELETED,
    LOWER_BOUNDS,
    NAN_COUNTS,
    NULL_COUNTS,
    UPPER_BOUNDS,
    EntryLayout,
)
from airflow_provider_ips.iceberg.manifests.splice import entry_filter, fields_to_select_by
from airflow_provider_ips.iceberg.partitions.partition_fields import (
    decode_bound,
    is_in_use,
    primitive_type,
    shown_value,
    to_json_value,
)
from airflow_provider_ips.iceberg.storage.files import open_stream

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata


def partition_ranges(metadata: TableMetadata, manifests: Sequence[ManifestFile]) -> tuple[ColumnRange, ...]:
    """The range of each partition field that any of the manifests is partitioned by. Reads no file."""
    specs = metadata.specs()
    spec_ids = sorted({m.partition_spec_id for m in manifests})
    fields = {f.field_id: f for spec_id in spec_ids for f in specs[spec_id].fields if is_in_use(f)}
    return tuple(_partition_range(metadata, field, manifests) for field in fields.values())


def _partition_range(metadata: TableMetadata, field: PartitionField, manifests: Iterable[ManifestFile]) -> ColumnRange:
    column_type = primitive_type(metadata, field.source_id)
    if column_type is None:
        return _unknown(field.name, "its source column is in no schema of the table")
    result_type = field.transform.result_type(column_type)
    if not isinstance(result_type, PrimitiveType):
        return _unknown(field.name, f"values of type {result_type} have no order")
    lows: set[bytes] = set()  # as bytes: thousands of manifests share few values, and decoding takes time
    highs: set[bytes] = set()
    indexes = {
        spec_id: next((i for i, f in enumerate(spec.fields) if f.field_id == field.field_id), None)
        for spec_id, spec in metadata.specs().items()
    }
    for manifest in manifests:
        summary = _summary(manifest, indexes[manifest.partition_spec_id])
        if not isinstance(summary, PartitionFieldSummary) or summary.contains_null or summary.contains_nan:
            return _unknown(field.name, "some files have no value for it")
        if summary.lower_bound is None or summary.upper_bound is None:
            return _unknown(field.name, "some files have no value for it")
        lows.add(summary.lower_bound)
        highs.add(summary.upper_bound)
    return ColumnRange(
        column=field.name,
        lower=shown_value(metadata, field, min(decode_bound(result_type, raw) for raw in lows)),
        upper=shown_value(metadata, field, max(decode_bound(result_type, raw) for raw in highs)),
        known=True,
    )


def _summary(manifest: ManifestFile, index: int | None) -> PartitionFieldSummary | None:
    summaries = manifest.partitions
    return None if index is None or not summaries or index >= len(summaries) else summaries[index]


def _unknown(column: str, reason: str) -> ColumnRange:
    return ColumnRange(column=column, lower=None, upper=None, known=False, reason=reason)


def check_columns(source: str, schema: Schema, columns: Sequence[str]) -> None:
    """Refuse a range column that cannot have bounds, before anything is written."""
    for column in columns:
        _column_bounds(source, schema, column)


def column_ranges(
    source: str, schema: Schema, io: FileIO, plan: CapturePlan, columns: Sequence[str]
) -> tuple[ColumnRange, ...]:
    """The range of each column over all captured files; unknown if a file has no statistics for the column.

    Costs a read of each manifest with captured data files, if there are columns.
    """
    bounds = [_column_bounds(source, schema, column) for column in columns]
    for selection in (*plan.selections, *plan.before) if bounds else ():
        if selection.manifest.content == DATA:
            with open_stream(io, selection.manifest.path) as stream:
                _widen(bounds, Header.read(stream), stream, selection)
    return tuple(each.as_range() for each in bounds)


_STATISTICS: Final = (LOWER_BOUNDS, UPPER_BOUNDS, NAN_COUNTS, NULL_COUNTS)


def _widen(bounds: Sequence[_ColumnBounds], header: Header, stream: BinaryIO, selection: Selection) -> None:
    manifest = selection.manifest
    layout = EntryLayout(header, {*_STATISTICS, *fields_to_select_by(selection)})
    is_wanted = entry_filter(selection, layout, manifest.sequence_number)
    listed = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    for count, data in checked_blocks(header.blocks(stream), manifest.path, listed):
        for _, _, raw in layout.walk(count, data):
            numbers = layout.numbers(raw)
            if numbers.status == DELETED or not is_wanted(numbers, raw):
                continue
            statistics = {field_id: layout.value(field_id, raw) or {} for field_id in _STATISTICS}
            for each in bounds:
                each.add_file(statistics)


@dataclass(slots=True)
class _ColumnBounds:
    """The bounds of one column over the files so far.

    NaN is beyond both bounds, so a file with NaN counts as one without bounds, and so does one that may have NaN:

        int, bounds 1 and 5                               1 to 5
        float, bounds 1 and 5, no NaN                     1 to 5
        float, bounds 1 and 5, two NaN                    unknown
        float, bounds 1 and 5, NaN not counted            unknown: PyIceberg and ``add_files`` do not count them
    """

    name: str
    field_id: int
    field_type: PrimitiveType
    files: int = 0
    files_without_bounds: int = 0
    files_that_may_have_nan: int = 0
    files_with_nulls: int = 0
    files_that_may_have_nulls: int = 0
    lower: Any = None
    upper: Any = None

    def add_file(self, statistics: dict[int, dict[int, Any]]) -> None:
        self.files += 1
        low, high, nans, nulls = (statistics[kind].get(self.field_id) for kind in _STATISTICS)
        self.files_with_nulls += bool(nulls)
        self.files_that_may_have_nulls += nulls is None
        if low is None or high is None or nans:
            self.files_without_bounds += 1
            return
        if nans is None and isinstance(self.field_type, FloatType | DoubleType):
            self.files_that_may_have_nan += 1
            return
        lower, upper = decode_bound(self.field_type, low), decode_bound(self.field_type, high)
        self.lower = lower if self.lower is None else min(self.lower, lower)
        self.upper = upper if self.upper is None else max(self.upper, upper)

    def as_range(self) -> ColumnRange:
        if self.files_without_bounds or not self.files:
            without = f"{self.files_without_bounds} of {self.files}"
            reason = f"{without} captured files have no bounds for it, or NaN beyond them"
            return replace(_unknown(self.name, reason), has_nulls=self._has_nulls)
        if self.files_that_may_have_nan:
            reason = (
                f"{self.files_that_may_have_nan} of {self.files} captured files do not say whether they hold NaN, "
                "which is beyond bounds"
            )
            return replace(_unknown(self.name, reason), has_nulls=self._has_nulls)
        return ColumnRange(
            column=self.name,
            lower=to_json_value(self.field_type, self.lower),
            upper=to_json_value(self.field_type, self.upper),
            known=True,
            has_nulls=self._has_nulls,
        )

    @property
    def _has_nulls(self) -> bool | None:
        if self.files_with_nulls:
            return True
        return None if self.files_that_may_have_nulls or not self.files else False


def _column_bounds(source: str, schema: Schema, column: str) -> _ColumnBounds:
    try:
        found = schema.find_field(column)
    except ValueError as error:
        raise InputError(
            f"range column {column!r} is not a column of {source}",
            consequence="Its bounds cannot be captured",
            remedy=f"use one of {', '.join(schema.column_names[:40])}; a dropped column has no range",
        ) from error
    if not isinstance(found.field_type, PrimitiveType):
        raise InputError(
            f"range column {column!r} of {source} is a {found.field_type}, which has no order",
            consequence="Its bounds cannot be captured",
            remedy="name a column of a simple type; inside a struct, write struct.column",
        )
    return _ColumnBounds(column, found.field_id, found.field_type)
