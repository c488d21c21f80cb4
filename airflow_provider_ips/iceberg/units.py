"""What a backfill can be cut into: the partitions of a plan, kept together where they share values of one column.

A job replaces or merges by the values of a column, days mostly. So all that may hold rows of one day stays together:
its buckets and countries, and what an older partition spec files by the month.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.backfill import Unit
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history import DATA
from airflow_provider_ips.core.spans import ANYTHING, NULLS, Held
from airflow_provider_ips.iceberg.conditions import comparisons_in, parse_condition, resolve
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.narrowing import is_taken
from airflow_provider_ips.iceberg.partitions import shown_value
from airflow_provider_ips.iceberg.spans import DATED, ColumnSpans, divides

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_ips.core.files import FileFacts, Partition
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.core.spans import Span
    from airflow_provider_ips.iceberg.source import IcebergSource


def column_to_cut_by(source: IcebergSource, condition: str | None, wished: str | None) -> str | None:
    """As wished; else a day or moment that the filter compares, or that the table is partitioned by; else the first.

    Jobs replace and merge by the day mostly, and two backfills that were cut by the same column can be compared. So it
    depends on the table first, and never on the order in which a filter names columns.
    """
    divided = _partition_columns(source)
    if wished is not None:
        if wished not in divided:
            raise InputError(
                f"chunk_by={wished!r} is no partition column of {source.name}",
                consequence="Chunks could not be cut without opening data files",
                remedy=f"use one of {sorted(divided)}" if divided else "leave it out: the table has no partitions",
            )
        return wished
    schema = source.metadata.schema()
    compared = _compared(source, condition)
    current = [f.source_id for f in source.metadata.spec().fields if divides(f)]
    dated = [name for name in divided if isinstance(schema.find_field(name).field_type, DATED)]
    choices = (
        [name for name in dated if name in compared],
        [name for name in dated if schema.find_field(name).field_id in current],
        [name for name in divided if name in compared],
        [name for name in divided if schema.find_field(name).field_id in current],
    )
    return next((names[0] for names in choices if names), None)


def _partition_columns(source: IcebergSource) -> list[str]:
    """In the order of the table's partition fields, those of earlier specs last."""
    specs = source.metadata.specs()
    newest_first = [source.metadata.spec(), *(specs[spec_id] for spec_id in sorted(specs, reverse=True))]
    schema = source.metadata.schema()
    names = (schema.find_column_name(f.source_id) for spec in newest_first for f in spec.fields if divides(f))
    return list(dict.fromkeys(name for name in names if name is not None))


def _compared(source: IcebergSource, condition: str | None) -> set[str]:
    if condition is None:
        return set()
    node = resolve(parse_condition(condition), source.metadata.schema(), table=source.name)
    return {test.column for test in comparisons_in(node)}


def units_of(source: IcebergSource, plan: CapturePlan, column: str | None) -> list[Unit]:
    """All that a plan takes, by the values of a column; in their order, what has no value first."""
    spans = ColumnSpans(source.metadata, column)
    with mapped(f"reading which partitions {source.name} has"):
        places = _tallied(source, plan, spans)
    if any(place.held.is_anything for place in places):
        return [_unit(source, places, ANYTHING)]
    nulls = [place for place in places if place.held == NULLS]
    units = [_unit(source, nulls, NULLS)] if nulls else []
    return units + [_unit(source, group, Held(span)) for group, span in _apart(places)]


@dataclass(slots=True)
class _Place:
    """One partition: what lies there, and which values of the column."""

    spec_id: int
    partition: Partition
    held: Held
    files: int = 0
    records: int = 0
    size_bytes: int = 0


def _tallied(source: IcebergSource, plan: CapturePlan, spans: ColumnSpans) -> list[_Place]:
    places: dict[tuple[int, Partition], _Place] = {}
    for file in _files(source, plan):
        where = (file.spec_id, file.partition)
        if where not in places:
            places[where] = _Place(*where, held=spans.held(*where))
        place = places[where]
        place.files += 1
        place.records += file.records
        place.size_bytes += file.size_bytes
    return list(places.values())


def _files(source: IcebergSource, plan: CapturePlan) -> Iterator[FileFacts]:
    for selection in plan.selections:
        if selection.manifest.content == DATA:
            entries = source.reads_entries(selection.manifest)
            yield from (file for file in entries if file.is_live and is_taken(selection, file))


def _apart(places: Iterable[_Place]) -> Iterator[tuple[list[_Place], Span]]:
    """Group what overlaps, so that no value is in two groups. Of rows without a value there is nothing here."""
    valued = [(place.held.span, place) for place in places if place.held.span is not None]
    if any(span.is_any for span, _ in valued):
        valued.sort(key=lambda each: not each[0].is_any)
    else:
        valued.sort(key=lambda each: each[0].low)
    group: list[_Place] = []
    reaches: Span | None = None
    for span, place in valued:
        if reaches is not None and not span.meets(reaches):
            yield group, reaches
            group, reaches = [], None
        group.append(place)
        reaches = span if reaches is None else reaches.joined(span)
    if reaches is not None:
        yield group, reaches


def _unit(source: IcebergSource, places: list[_Place], held: Held) -> Unit:
    return Unit(
        label=_label(source, places, held),
        partitions=len(places),
        held=held,
        files=sum(place.files for place in places),
        records=sum(place.records for place in places),
        size_bytes=sum(place.size_bytes for place in places),
    )


def _label(source: IcebergSource, places: list[_Place], held: Held) -> str:
    """The partition's name as people write it, of one; else how many."""
    if held.span is not None and held.span.is_any:
        return "the whole table" if len(places) > 1 else _shown(source, places[0])
    names = sorted({_shown(source, place) for place in places})
    return names[0] if len(names) == 1 else f"{_common(names)} ({len(names)} partitions)"


def _shown(source: IcebergSource, place: _Place) -> str:
    spec = source.metadata.specs()[place.spec_id]
    parts = [
        f"{part.name}={shown_value(source.metadata, part, value)}"
        for part, value in zip(spec.fields, place.partition, strict=True)
        if divides(part)
    ]
    return "/".join(parts) or "the whole table"


def _common(names: Iterable[str]) -> str:
    """What all of them begin with, up to a slash."""
    parts = [name.split("/") for name in names]
    same = [column[0] for column in zip(*parts, strict=False) if len(set(column)) == 1]
    return "/".join(same) or f"{parts[0][0]} …"
