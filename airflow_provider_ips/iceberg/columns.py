"""Column ranges of what was captured, from the bounds that manifests hold. Data files are never opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pyiceberg.types import PrimitiveType

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history import DATA
from airflow_provider_ips.core.record import ColumnRange
from airflow_provider_ips.iceberg.avro import Header
from airflow_provider_ips.iceberg.counting import counted
from airflow_provider_ips.iceberg.entries import DELETED, LOWER_BOUNDS, NAN_COUNTS, UPPER_BOUNDS, EntryLayout
from airflow_provider_ips.iceberg.splicing import needs, wants
from airflow_provider_ips.iceberg.streams import open_stream
from airflow_provider_ips.iceberg.values import decode_bound, to_json_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from airflow_provider_ips.core.selection import CapturePlan, Selection

_BOUNDS: Final = (LOWER_BOUNDS, UPPER_BOUNDS, NAN_COUNTS)


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

    def update(self, bounds: dict[int, dict[int, Any]]) -> None:
        self.files += 1
        low, high = bounds[LOWER_BOUNDS].get(self.field_id), bounds[UPPER_BOUNDS].get(self.field_id)
        if low is None or high is None or bounds[NAN_COUNTS].get(self.field_id):
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
    for selection in (*plan.selections, *plan.before) if spans else ():
        if selection.manifest.content == DATA:
            with open_stream(io.new_input(selection.manifest.path)) as stream:
                _widen(spans, Header.read(stream), stream, selection)
    return tuple(span.result() for span in spans)


def _widen(spans: Sequence[_Span], header: Header, stream: BinaryIO, selection: Selection) -> None:
    layout = EntryLayout(header, {*_BOUNDS, *needs(selection)})
    wanted = wants(selection, layout, selection.manifest.sequence_number)
    listed = selection.manifest
    counts = (listed.added_files, listed.existing_files, listed.deleted_files)
    for count, data in counted(header.blocks(stream), listed.path, counts):
        for _, _, found in layout.walk(count, data):
            own = layout.numbers(found)
            if own.status == DELETED or not wanted(own, found):
                continue
            bounds = {field_id: layout.value(field_id, found) or {} for field_id in _BOUNDS}
            for span in spans:
                span.update(bounds)


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
