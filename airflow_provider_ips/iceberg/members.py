"""Which files belong to a chunk of a backfill: those whose partitions hold its values and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.iceberg.conditions import Comparison, Either, Every
from airflow_provider_ips.iceberg.partitions import shown_value
from airflow_provider_ips.iceberg.spans import ColumnSpans, divides

if TYPE_CHECKING:
    from airflow_provider_ips.core.backfill import Chunk
    from airflow_provider_ips.core.files import Partition
    from airflow_provider_ips.core.spans import Values
    from airflow_provider_ips.iceberg.conditions import Node
    from airflow_provider_ips.iceberg.source import IcebergSource

_ANEW = "trigger the backfill anew: its plan is made of the table as it is now"


class Members:
    """The partitions of a chunk, as the table has them now."""

    def __init__(self, source: IcebergSource, chunk: Chunk, values: Values) -> None:
        self._source, self._chunk, self._values = source, chunk, values
        _refuse_if_renamed(source, chunk, values)
        self._spans = ColumnSpans(source.metadata, values.column)

    @property
    def hull(self) -> Node:
        """What all of them meet, so that manifests beyond it need not be opened."""
        values, whole = self._values, self._values.hull
        parts: list[Node] = []
        if values.nulls:
            parts.append(self._compared("is null"))
        if whole is not None:
            ends = () if whole.is_any else ((">=", whole.low), ("<=", whole.high))
            between = [self._compared(operator, end) for operator, end in ends] or [self._compared("is not null")]
            parts.append(Every(parts=tuple(between)))
        return Either(parts=tuple(parts))

    def has(self, spec_id: int, partition: Partition) -> bool:
        """Tell whether the files of a partition are the chunk's. Files are taken whole, so they are all or none."""
        found = self._values.holds(self._spans.held(spec_id, partition))
        if found is None:
            raise self._in_part(spec_id, partition)
        return found

    def _compared(self, operator: str, *values: Any) -> Comparison:
        column, field_id = str(self._values.column), self._values.field_id
        return Comparison(column=column, field_id=field_id or 0, operator=operator, values=values)

    def _in_part(self, spec_id: int, partition: Partition) -> InputError:
        metadata = self._source.metadata
        fields = zip(metadata.specs()[spec_id].fields, partition, strict=True)
        told = "/".join(f"{f.name}={shown_value(metadata, f, value)}" for f, value in fields if divides(f))
        return InputError(
            f"{self._source.name} has files in {told or 'no partition'} (spec {spec_id}) by now, which may hold rows "
            f"of {self._chunk} and of other values of {self._values.column!r}",
            consequence="Files are captured whole: rows would come that this chunk is not of, or be missing in it",
            remedy=_ANEW,
        )


def _refuse_if_renamed(source: IcebergSource, chunk: Chunk, values: Values) -> None:
    schema = source.metadata.schema()
    name = None if values.field_id is None else schema.find_column_name(values.field_id)
    if name != values.column:
        raise InputError(
            f"{chunk} was cut by column {values.column!r}, which {source.name} "
            f"{'no longer has' if name is None else f'calls {name!r} by now'}",
            consequence="Which files it is made of cannot be told, and its job may not find the column either",
            remedy=_ANEW,
        )
