"""Partition ranges of what was captured, from the summaries of manifest lists: no manifest is opened for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import PartitionFieldStats, PartitionFieldSummary
from pyiceberg.transforms import DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DateType, PrimitiveType, StructType

from airflow_provider_ips.core.record import ColumnRange
from airflow_provider_ips.iceberg.entries import DATA_FILE, PARTITION
from airflow_provider_ips.iceberg.values import decode_bound, to_json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record


class PartitionTally:
    """The summaries of a spliced manifest, over the entries that it really holds."""

    def __init__(self, manifest_schema: Schema) -> None:
        file_type = manifest_schema.find_field(DATA_FILE).field_type
        partition = file_type.field(PARTITION) if isinstance(file_type, StructType) else None
        fields = partition.field_type.fields if partition and isinstance(partition.field_type, StructType) else ()
        self._stats = [PartitionFieldStats(f.field_type) for f in fields if isinstance(f.field_type, PrimitiveType)]

    def update(self, partition: Record) -> None:
        """Widen by one file."""
        for index, stats in enumerate(self._stats):
            stats.update(partition[index])

    def summaries(self) -> list[PartitionFieldSummary]:
        """As a manifest list holds them."""
        return [stats.to_summary() for stats in self._stats]


def partition_ranges(metadata: TableMetadata, manifests: Sequence[ManifestFile]) -> tuple[ColumnRange, ...]:
    """One range per partition field that any captured file was written with."""
    specs = metadata.specs()
    used = {m.partition_spec_id for m in manifests}
    fields = {
        f.field_id: f for s in sorted(used) for f in specs[s].fields if not isinstance(f.transform, VoidTransform)
    }
    return tuple(_range_of(metadata, field, manifests) for field in fields.values())


def _range_of(metadata: TableMetadata, field: PartitionField, manifests: Iterable[ManifestFile]) -> ColumnRange:
    source_type = _source_type(metadata, field.source_id)
    if source_type is None:
        return _unknown(field, "its source column is in no schema of the table")
    result_type = field.transform.result_type(source_type)
    if not isinstance(result_type, PrimitiveType):
        return _unknown(field, f"values of type {result_type} have no order")
    lows: set[bytes] = set()  # as bytes: thousands of manifests share few values, and decoding costs
    highs: set[bytes] = set()
    places = {
        spec_id: next((i for i, f in enumerate(spec.fields) if f.field_id == field.field_id), None)
        for spec_id, spec in metadata.specs().items()
    }
    for manifest in manifests:
        summary = _summary(manifest, places[manifest.partition_spec_id])
        if summary is None or summary.contains_null or summary.contains_nan:
            return _unknown(field, "some files have no value for it")
        if summary.lower_bound is None or summary.upper_bound is None:
            return _unknown(field, "some files have no value for it")
        lows.add(summary.lower_bound)
        highs.add(summary.upper_bound)
    return ColumnRange(
        column=field.name,
        lower=_shown(field, result_type, min(decode_bound(result_type, raw) for raw in lows)),
        upper=_shown(field, result_type, max(decode_bound(result_type, raw) for raw in highs)),
        known=True,
    )


def _summary(manifest: ManifestFile, place: int | None) -> PartitionFieldSummary | None:
    summaries = manifest.partitions
    return None if place is None or not summaries or place >= len(summaries) else summaries[place]


def _source_type(metadata: TableMetadata, source_id: int) -> PrimitiveType | None:
    """The column may be dropped by now: newer schemas first, then the older ones."""
    for schema in sorted(metadata.schemas, key=lambda s: s.schema_id != metadata.current_schema_id):
        for field in schema._lazy_id_to_field.values():  # noqa: SLF001 - find_field raises for what may be absent
            if field.field_id == source_id and isinstance(field.field_type, PrimitiveType):
                return field.field_type
    return None


def shown_value(metadata: TableMetadata, field: PartitionField, value: Any) -> Any:  # noqa: ANN401 - JSON's own types
    """One value of a partition field as people and SQL write it."""
    source_type = _source_type(metadata, field.source_id)
    result_type = None if source_type is None else field.transform.result_type(source_type)
    return _shown(field, result_type, value) if isinstance(result_type, PrimitiveType) else value


def _shown(field: PartitionField, result_type: PrimitiveType, value: Any) -> Any:  # noqa: ANN401 - JSON's own types
    if isinstance(field.transform, DayTransform):
        return to_json_value(DateType(), value)
    if isinstance(field.transform, IdentityTransform):
        return to_json_value(result_type, value)
    return field.transform.to_human_string(result_type, value)


def _unknown(field: PartitionField, reason: str) -> ColumnRange:
    return ColumnRange(column=field.name, lower=None, upper=None, known=False, reason=reason)
