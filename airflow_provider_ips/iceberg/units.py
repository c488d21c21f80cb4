"""What a backfill can be cut into: the partitions of a plan, kept together where they share values of one column.

A job replaces or merges by the values of a column, days mostly. So all that may hold rows of one day stays together:
its buckets and countries, and what an older partition spec files by the month.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import VoidTransform
from pyiceberg.types import PrimitiveType

from airflow_provider_ips.core.backfill import Unit, partition_name
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history import DATA
from airflow_provider_ips.iceberg.conditions import comparisons_in, parse_condition, resolve
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.intervals import Interval, Presence, behind
from airflow_provider_ips.iceberg.narrowing import is_taken
from airflow_provider_ips.iceberg.partitions import shown_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_ips.core.files import FileFacts, Partition
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.iceberg.source import IcebergSource


def column_to_cut_by(source: IcebergSource, condition: str | None, wished: str | None) -> str | None:
    """As wished; else the first that the filter compares; else the first that the table is partitioned by."""
    schema = source.metadata.schema()
    divided = {f.source_id for spec in source.metadata.specs().values() for f in spec.fields if _divides(f.transform)}
    if wished is not None:
        found = next((f for f in schema.fields if f.name == wished), None)
        if found is None or found.field_id not in divided:
            names = sorted(str(name) for i in divided if (name := schema.find_column_name(i)) is not None)
            raise InputError(
                f"chunk_by={wished!r} is no partition column of {source.name}",
                consequence="Chunks could not be cut without opening data files",
                remedy=f"use one of {names}" if names else "leave it out: the table has no partitions",
            )
        return wished
    if condition is not None:
        node = resolve(parse_condition(condition), schema, table=source.name)
        return next(test.column for test in comparisons_in(node))
    current = (f for f in source.metadata.spec().fields if _divides(f.transform))
    return next((schema.find_column_name(f.source_id) for f in current), None)


def units_of(source: IcebergSource, plan: CapturePlan, column: str | None) -> list[Unit]:
    """All that a plan takes, by the values of a column; in their order, what has no value first."""
    with mapped(f"reading which partitions {source.name} has"):
        places = _tallied(source, plan)
    for place in places:
        place.span = _span(source, place, column)
    if any(place.span is _ANYTHING for place in places):
        return [_unit(source, places, _ANYTHING)]
    known = [place for place in places if place.span is not None]
    nulls = [place for place in places if place.span is None]
    units = [_unit(source, nulls, None)] if nulls else []
    return units + [_unit(source, group, span) for group, span in _apart(known)]


@dataclass(slots=True)
class _Place:
    """One partition: what lies there, and which values of the column."""

    spec_id: int
    partition: Partition
    files: int = 0
    records: int = 0
    size_bytes: int = 0
    span: Interval | None = field(default=None)


def _tallied(source: IcebergSource, plan: CapturePlan) -> list[_Place]:
    places: dict[tuple[int, Partition], _Place] = {}
    for file in _files(source, plan):
        place = places.setdefault((file.spec_id, file.partition), _Place(file.spec_id, file.partition))
        place.files += 1
        place.records += file.records
        place.size_bytes += file.size_bytes
    return list(places.values())


def _files(source: IcebergSource, plan: CapturePlan) -> Iterator[FileFacts]:
    for selection in plan.selections:
        if selection.manifest.content == DATA:
            entries = source.reads_entries(selection.manifest)
            yield from (file for file in entries if file.is_live and is_taken(selection, file))


_ANYTHING = Interval(lower=None, upper=None)
"""A partition of which the column says nothing: it may hold any value, and rows without one."""

_ANY = Interval(lower=None, upper=None)
"""A partition that may hold any value: a bucket. Rows without one are in a bucket of their own."""


def _span(source: IcebergSource, place: _Place, column: str | None) -> Interval | None:
    """Which values of the column are there; None for a partition of nulls."""
    if column is None:
        return _ANYTHING
    source_field = source.metadata.schema().find_field(column)
    spec = source.metadata.specs()[place.spec_id]
    found = _ANYTHING
    for value, part in zip(place.partition, spec.fields, strict=True):
        if part.source_id != source_field.field_id or not _divides(part.transform):
            continue
        if value is None:
            return None
        if isinstance(source_field.field_type, PrimitiveType):
            told = behind(part, source_field.field_type, Presence.of(value))
            found = _narrower(found, told)
    return found


def _narrower(one: Interval, two: Interval | None) -> Interval:
    """Fields of the same column each say something: by the hour says more than by the day."""
    if two is None:
        return _ANY if one is _ANYTHING else one
    if one is _ANYTHING or one is _ANY:
        return two
    return max(one, two, key=lambda each: each.lower)


def _apart(places: list[_Place]) -> Iterator[tuple[list[_Place], Interval]]:
    """Group what overlaps, so that no value is in two groups."""
    if any(place.span is _ANY for place in places):
        yield places, _ANY
        return
    group: list[_Place] = []
    reaches: Interval | None = None
    for place in sorted(places, key=lambda each: each.span.lower):  # type: ignore[union-attr]  # of values only
        span = place.span
        if reaches is not None and span is not None and not reaches.below(span.lower):
            group.append(place)
            reaches = Interval(
                lower=reaches.lower, upper=max(reaches.upper, span.upper), is_open=_is_open(reaches, span)
            )
            continue
        if reaches is not None:
            yield group, reaches
        group, reaches = [place], span
    if reaches is not None:
        yield group, reaches


def _is_open(one: Interval, two: Interval) -> bool:
    """The end of the one that reaches further; of two that end alike, an included one."""
    if one.upper == two.upper:
        return one.is_open and two.is_open
    return max(one, two, key=lambda each: each.upper).is_open


def _unit(source: IcebergSource, places: list[_Place], span: Interval | None) -> Unit:
    return Unit(
        label=_label(source, places, span),
        partitions=frozenset(partition_name(place.spec_id, place.partition) for place in places),
        files=sum(place.files for place in places),
        records=sum(place.records for place in places),
        size_bytes=sum(place.size_bytes for place in places),
        hull=None if span is None or span is _ANY or span is _ANYTHING else (span.lower, span.upper),
    )


def _label(source: IcebergSource, places: list[_Place], span: Interval | None) -> str:
    """The partition's name as people write it, of one; else how many."""
    if span is _ANY or span is _ANYTHING:
        return "the whole table" if len(places) > 1 else _shown(source, places[0])
    names = sorted({_shown(source, place) for place in places})
    return names[0] if len(names) == 1 else f"{_common(names)} ({len(names)} partitions)"


def _shown(source: IcebergSource, place: _Place) -> str:
    spec = source.metadata.specs()[place.spec_id]
    parts = [
        f"{part.name}={shown_value(source.metadata, part, value)}"
        for part, value in zip(spec.fields, place.partition, strict=True)
        if _divides(part.transform)
    ]
    return "/".join(parts) or "the whole table"


def _common(names: Iterable[str]) -> str:
    """What all of them begin with, up to a slash."""
    parts = [name.split("/") for name in names]
    same = [column[0] for column in zip(*parts, strict=False) if len(set(column)) == 1]
    return "/".join(same) or f"{parts[0][0]} …"


def _divides(transform: Any) -> bool:  # noqa: ANN401 - of any of PyIceberg's transforms
    return not isinstance(transform, VoidTransform)
