"""Column ranges of what was captured, from the bounds that manifests hold. Data files are never opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.types import PrimitiveType

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history import DATA
from airflow_provider_ips.core.record import ColumnRange
from airflow_provider_ips.iceberg.avro import Header
from airflow_provider_ips.iceberg.entries import DELETED, LOWER_BOUNDS, NAN_COUNTS, UPPER_BOUNDS, EntryLayout
from airflow_provider_ips.iceberg.moves import open_stream, wants
from airflow_provider_ips.iceberg.values import decode_bound, to_json_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.iceberg.entries import Entry


@dataclass(slots=True)
class _Span:
    """One column's range as it widens."""

    name: str
    field_id: int
    field_type: PrimitiveType
    files: int = 0
    without: int = 0
    lower: Any = None
    upper: Any = None
    missing: list[str] = field(default_factory=list)

    def update(self, entry: Entry) -> None:
        self.files += 1
        low = (entry.file.get(LOWER_BOUNDS) or {}).get(self.field_id)
        high = (entry.file.get(UPPER_BOUNDS) or {}).get(self.field_id)
        if low is None or high is None or (entry.file.get(NAN_COUNTS) or {}).get(self.field_id):
            self.without += 1
            return
        lower, upper = decode_bound(self.field_type, low), decode_bound(self.field_type, high)
        self.lower = lower if self.lower is None else min(self.lower, lower)
        self.upper = upper if self.upper is None else max(self.upper, upper)

    def result(self) -> ColumnRange:
        if self.without or not self.files:
            reason = f"{self.without} of {self.files} captured files have no bounds for it, or NaN beyond them"
            return ColumnRange(column=self.name, lower=None, upper=None, known=False, reason=reason)
        return ColumnRange(
            column=self.name,
            lower=to_json_value(self.field_type, self.lower),
            upper=to_json_value(self.field_type, self.upper),
            known=True,
        )


def check_columns(source: str, schema: Schema, columns: Sequence[str]) -> None:
    """Refuse a range column that has no bounds by nature, before anything is written."""
    for column in columns:
        _span(source, schema, column)


def column_ranges(
    source: str, schema: Schema, io: FileIO, plan: CapturePlan, columns: Sequence[str]
) -> tuple[ColumnRange, ...]:
    """Widen one range per column over every captured file; a file that does not tell makes it unknown."""
    spans = [_span(source, schema, column) for column in columns]
    for selection in plan.selections if spans else ():
        if selection.manifest.content != DATA:
            continue
        wanted = wants(selection)
        with open_stream(io.new_input(selection.manifest.path)) as stream:
            layout = EntryLayout(Header.read(stream), {LOWER_BOUNDS, UPPER_BOUNDS, NAN_COUNTS})
            for entry in layout.entries(stream):
                if entry.sequence_number is None:
                    entry.sequence_number = selection.manifest.sequence_number
                if entry.status != DELETED and wanted(entry):
                    for span in spans:
                        span.update(entry)
    return tuple(span.result() for span in spans)


def _span(source: str, schema: Schema, column: str) -> _Span:
    try:
        found = schema.find_field(column)
    except ValueError as error:
        raise InputError(
            f"range column {column!r} is not a column of {source}",
            consequence="Its bounds cannot be captured",
            remedy=f"use any of {', '.join(schema.column_names[:40])}; a dropped column has no range",
        ) from error
    if not isinstance(found.field_type, PrimitiveType):
        raise InputError(
            f"range column {column!r} of {source} is a {found.field_type}, which has no order",
            consequence="Its bounds cannot be captured",
            remedy="name a column of a simple type; inside a struct, write struct.column",
        )
    return _Span(column, found.field_id, found.field_type)
