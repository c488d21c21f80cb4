"""The XComs of a capture: which keys, which values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.identifiers import XCOM_KEY_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.core.record import CaptureRecord, SourceRecord


def xcoms_of(record: CaptureRecord, *, engine_catalog: str | None) -> Iterator[tuple[str, Any]]:
    """Yield what is pushed, one key after the other."""
    for source in record.sources:
        yield source.key, engine_name(source.icdc_table, engine_catalog)
        yield from _bounds(source)
    yield "capture_id", record.capture_id
    yield "capture", jsonable(record.to_json())


def engine_name(icdc_table: str | None, engine_catalog: str | None) -> str | None:
    """Name the ICDC table as the engine knows it."""
    return f"{engine_catalog}.{icdc_table}" if engine_catalog and icdc_table else icdc_table


def jsonable(value: Any) -> Any:
    """Turn a bound into what JSON and an SQL text can both hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return str(value)


def _bounds(source: SourceRecord) -> Iterator[tuple[str, Any]]:
    """Partition ranges come unasked, so one whose name cannot be a key is left to the record."""
    asked = {bound.column for bound in source.ranges}
    for bound in (*source.ranges, *(p for p in source.partitions if p.column not in asked)):
        for side, value in (("lower", bound.lower), ("upper", bound.upper)):
            key = f"{source.key}.{side}.{bound.column}"
            if XCOM_KEY_PATTERN.fullmatch(key):
                yield key, jsonable(value) if bound.known else None
