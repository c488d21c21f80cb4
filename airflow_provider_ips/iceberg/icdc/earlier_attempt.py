"""What an earlier attempt of a capture has left: where its range ends, and its tables if the history has expired.

Tables that are intact are handed over as they are. Otherwise a new capture from the checkpoint covers the same rows. If
that is not possible either, the error says which files are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_ips.core.checkpoint.entries import Capture, SourceRange
from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history.files import DATA, ManifestFacts
from airflow_provider_ips.core.history.selections import CapturePlan, Selection, Take
from airflow_provider_ips.core.history.snapshots import position_of
from airflow_provider_ips.core.identifiers import CapturedBranch
from airflow_provider_ips.core.lineage.walk import OLD_ROWS_IN_TARGET
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.icdc.lost_files import LossReport, find_losses
from airflow_provider_ips.iceberg.icdc.metadata import (
    CAPTURE_ID,
    SELECTION,
    TABLE_UUID,
    TO_SNAPSHOT_ID,
    branch_record,
    capture_properties,
    changes_since_written,
    load_capture,
)
from airflow_provider_ips.iceberg.partitions.bounds import column_ranges, partition_ranges
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource, open_captured, open_source

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


def earlier_end(catalog: Catalog, source: IcebergSource, icdc_table: str, *, capture_id: str) -> Position | None:
    """Where the range of an earlier attempt ends, by its ICDC table; None if this capture has made no such table."""
    with translate_errors(f"looking for {icdc_table}, which an earlier attempt may have made"):
        made = load_capture(catalog, icdc_table)
    properties = {} if made is None else made.properties
    if properties.get(CAPTURE_ID) != capture_id:
        return None
    snapshot_id = properties[TO_SNAPSHOT_ID]
    if not snapshot_id.isdigit():
        return position_of(source, None)
    snapshot = source.snapshot(int(snapshot_id))
    if snapshot is not None and properties[TABLE_UUID] == source.table_uuid:
        return position_of(source, snapshot)
    return Position(
        table_uuid=properties[TABLE_UUID], snapshot_id=int(snapshot_id), sequence_number=0, committed_at_ms=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTables:
    """The tables of an earlier attempt. ``records`` is None unless every one of them can still be read completely."""

    losses: tuple[LossReport, ...]
    missing: tuple[str, ...]
    records: tuple[SourceRecord, ...] | None
    changed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What was changed in which table since its capture wrote it."""

    def __str__(self) -> str:
        lines = [
            *map(str, self.losses),
            *(f"{table} was changed since: {', '.join(how)}" for table, how in self.changed.items()),
            *(f"{table} does not exist any more" for table in self.missing),
        ]
        return "; ".join(lines) or "there are no ICDC tables"

    @property
    def _consequence(self) -> str:
        if any(not losses.is_intact for losses in self.losses):
            return "Rows of lost files are in the source if compaction rewrote them, and nowhere if they were deleted"
        return "A table that exists and was not written to can still be read: clear only the tasks that read it"

    def lost(self, gap: GapError) -> GapError:
        """Return the error for a run that can neither read what it captured nor capture a new range."""
        return GapError(
            f"{gap.problem}. Of what this run had captured before, {self}",
            consequence=f"{gap.consequence}. {self._consequence}",
            remedy=gap.remedy,
        )


def find_earlier_tables(
    catalog: Catalog,
    sources: Sequence[tuple[SourceTable, CaptureSettings]],
    before: Capture,
) -> EarlierTables:
    """Look for every file of every table that an earlier attempt made."""
    found = {table: find_losses(catalog, table) for table in before.icdc_tables}
    losses = tuple(each for each in found.values() if each is not None)
    missing = tuple(table for table, each in found.items() if each is None)
    changed = {table: how for table in found if table not in missing and (how := _changes_of(catalog, table))}
    is_intact = bool(found) and not missing and not changed and all(each.is_intact for each in losses)
    records = _records(catalog, sources, before) if is_intact else None
    return EarlierTables(losses=losses, missing=missing, changed=changed, records=records)


def _records(
    catalog: Catalog,
    sources: Sequence[tuple[SourceTable, CaptureSettings]],
    before: Capture,
) -> tuple[SourceRecord, ...] | None:
    ranges = {taken.source: taken for taken in before.ranges}
    found = [
        _earlier_record(catalog, ranges[table.source], before.capture_id, table=table, settings=settings)
        for table, settings in sources
    ]
    records = tuple(record for record in found if record is not None)
    return records if len(records) == len(found) else None


def _changes_of(catalog: Catalog, icdc_table: str) -> list[str]:
    """Say what was changed in an ICDC table that exists since its capture wrote it."""
    with translate_errors(f"loading {icdc_table}, which an earlier attempt made"):
        made = load_capture(catalog, icdc_table)
        return [] if made is None else _changes(made.table, icdc_table)


def _changes(table: Table, name: str) -> list[str]:
    """A snapshot never changes, and one that no capture wrote has no properties of ours."""
    return changes_since_written(table) if CapturedBranch.parse(name) is None else []


def _earlier_record(
    catalog: Catalog, taken: SourceRange, capture_id: str, *, table: SourceTable, settings: CaptureSettings
) -> SourceRecord | None:
    """The record of the tables that an earlier attempt made, read from their own metadata.

    None if a table is not what this capture selected, or was changed since.
    """
    source = open_source(catalog, table.source)
    icdc = _earlier_table(catalog, taken.icdc_table, taken.selection, capture_id)
    before = _earlier_table(catalog, taken.before_table, taken.selection, capture_id)
    if icdc is None or (before is None and taken.before_table is not None):
        return None
    with translate_errors(f"reading {taken.icdc_table}, which an earlier attempt made"):
        plan = CapturePlan(
            kind=taken.kind,
            from_exclusive=taken.from_exclusive,
            to_inclusive=taken.to_inclusive,
            selections=icdc.selections,
            before=() if before is None else before.selections,
        )
        schema = icdc.table.metadata.schema()
        ranges = column_ranges(source.name, schema, icdc.table.table.io, plan, settings.range_columns)
        listed = [*icdc.listed, *(() if before is None else before.listed)]
        partitions = partition_ranges(icdc.table.metadata, listed)
    return SourceRecord(
        source=table.source,
        key=table.xcom_key,
        kind=taken.kind,
        icdc_table=taken.icdc_table,
        before_table=taken.before_table,
        from_exclusive=taken.from_exclusive,
        to_inclusive=taken.to_inclusive,
        captured=icdc.volume,
        before=None if before is None else before.volume,
        # With on_superset="fail" a superset would have been refused; otherwise nothing is left that shows it.
        superset=settings.captures_changes and settings.on_superset != "fail",
        no_predicate=f"the history of {source.name} no longer has this range",
        table=source.volume,
        captured_branch=branch_record(icdc.table.metadata, taken.icdc_table),
        before_branch=None if before is None else branch_record(before.table.metadata, taken.before_table),
        ranges=ranges,
        partitions=partitions,
        warnings=tuple(earlier_warnings(source.name, taken, settings)),
    )


def earlier_warnings(source: str, taken: SourceRange, settings: CaptureSettings) -> Iterator[str]:
    """What a job must know of an earlier attempt's tables. After all rows its target is emptied, as the first time."""
    yield (
        f"the history of {source} no longer has this range; {taken.icdc_table}, made by an earlier attempt, was "
        "checked file by file and is used as it is"
    )
    if taken.kind is Kind.FULL and taken.from_exclusive is not None and settings.captures_changes:
        yield OLD_ROWS_IN_TARGET


@dataclass(frozen=True, slots=True, kw_only=True)
class _EarlierTable:
    """A table of an earlier attempt, which has one snapshot, with the data manifests of that."""

    table: IcebergSource
    manifests: tuple[ManifestFacts, ...]
    listed: tuple[ManifestFile, ...]

    @property
    def selections(self) -> tuple[Selection, ...]:
        return tuple(Selection(manifest=m, take=Take.WHOLE) for m in self.manifests)

    @property
    def volume(self) -> Volume:
        return Volume(
            files=sum(m.live_files or 0 for m in self.manifests),
            records=sum(m.live_rows or 0 for m in self.manifests),
            size_bytes=None,
        )


def _earlier_table(catalog: Catalog, name: str | None, mark: str | None, capture_id: str) -> _EarlierTable | None:
    if name is None:
        return None
    table = open_captured(catalog, name)
    head = table.head
    properties = capture_properties(table.metadata, name)
    is_of_capture = properties.get(CAPTURE_ID) == capture_id and (mark or "").endswith(f".{properties.get(SELECTION)}")
    if not is_of_capture or head is None or _changes(table.table, name):
        return None
    with translate_errors(f"reading {name}, which an earlier attempt made"):
        manifests = tuple(m for m in table.reads_manifests(head.snapshot_id) if m.content == DATA)
    return _EarlierTable(table=table, manifests=manifests, listed=tuple(table.listed(m) for m in manifests))
