"""The XComs of a capture: which keys, which values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.identifiers import XCOM_KEY_PATTERN
from airflow_provider_ips.core.record import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.record import CaptureRecord, SourceRecord

SIDES = ("lower", "upper")


def xcoms_of(
    record: CaptureRecord,
    range_columns: Mapping[str, tuple[str, ...]],
    *,
    engine_catalog: str | None,
    with_before: Collection[str] = (),
) -> Iterator[tuple[str, Any]]:
    """
    Yield what is pushed, one key after the other.

    :param range_columns: by source key, the columns asked for; they have their keys even if nothing was captured.
    :param with_before: the keys of sources whose changes are captured.
    """
    for source in record.sources:
        yield source.key, engine_name(source.icdc_table, engine_catalog)
        if source.key in with_before:
            yield f"{source.key}.before", engine_name(source.before_table, engine_catalog)
        yield from positions_of(source)
        bounds = {f"{source.key}.{side}.{column}": None for column in range_columns[source.key] for side in SIDES}
        yield from {**bounds, **dict(_bounds(source))}.items()
    yield "capture_id", record.capture_id
    yield "capture", record.to_json()


def positions_of(source: SourceRecord) -> Iterator[tuple[str, str]]:
    """Between which snapshots the captured rows came, as text that a job's arguments can carry: nothing is empty.

    Rows as of ``from`` and the captured rows are the rows as of ``to``. So a capture of all that is live begins at
    nothing, wherever the checkpoint stands, and one that took nothing without a checkpoint begins where it ends.
    """
    start = source.from_exclusive or (source.to_inclusive if source.kind is Kind.EMPTY else None)
    yield f"{source.key}.from", _snapshot(None if source.kind is Kind.FULL else start)
    yield f"{source.key}.to", _snapshot(source.to_inclusive)


def _snapshot(position: Position | None) -> str:
    return "" if position is None or position.snapshot_id is None else str(position.snapshot_id)


def engine_name(icdc_table: str | None, engine_catalog: str | None) -> str | None:
    """Name the ICDC table as the engine knows it."""
    return f"{engine_catalog}.{icdc_table}" if engine_catalog and icdc_table else icdc_table


def _bounds(source: SourceRecord) -> Iterator[tuple[str, Any]]:
    """Partition ranges come unasked, so one whose name cannot be a key is left to the record."""
    asked = {bound.column for bound in source.ranges}
    for bound in (*source.ranges, *(p for p in source.partitions if p.column not in asked)):
        for side, value in zip(SIDES, (bound.lower, bound.upper), strict=True):
            key = f"{source.key}.{side}.{bound.column}"
            if XCOM_KEY_PATTERN.fullmatch(key):
                yield key, value
