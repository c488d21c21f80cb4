"""ICDC tables that outlived their source's history: handed over as they stand, and told about from their metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.history import DATA
from airflow_provider_ips.core.record import SourceRecord, Volume
from airflow_provider_ips.core.selection import CapturePlan, Selection, Take
from airflow_provider_ips.iceberg.columns import column_ranges
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.partitions import partition_ranges
from airflow_provider_ips.iceberg.source import open_source

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile

    from airflow_provider_ips.core.checkpoint import SourceRange
    from airflow_provider_ips.core.history import ManifestFacts
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.iceberg.source import IcebergSource


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """One table of an earlier attempt, as that attempt left it."""

    table: IcebergSource
    data: tuple[ManifestFacts, ...]
    listed: tuple[ManifestFile, ...]

    @property
    def selections(self) -> tuple[Selection, ...]:
        return tuple(Selection(manifest=m, take=Take.WHOLE) for m in self.data)

    @property
    def volume(self) -> Volume:
        return Volume(
            files=sum((m.added_files or 0) + (m.existing_files or 0) for m in self.data),
            records=sum((m.added_rows or 0) + (m.existing_rows or 0) for m in self.data),
            size_bytes=None,
        )


def kept_record(
    catalog: Catalog,
    source: IcebergSource,
    taken: SourceRange,
    *,
    table: SourceTable,
    settings: CaptureSettings,
    capture_id: str,
) -> SourceRecord | None:
    """The record of an earlier attempt's tables; None where one is not of this capture, or was written to since."""
    icdc = _kept(catalog, taken.icdc_table, capture_id)
    before = _kept(catalog, taken.before_table, capture_id)
    if icdc is None or (before is None and taken.before_table is not None):
        return None
    with mapped(f"reading {taken.icdc_table}, which an earlier attempt made"):
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
    head = source.head
    return SourceRecord(
        source=source.name,
        branch=source.branch,
        key=table.xcom_key,
        kind=taken.kind,
        icdc_table=taken.icdc_table,
        before_table=taken.before_table,
        from_exclusive=taken.from_exclusive,
        to_inclusive=taken.to_inclusive,
        captured=icdc.volume,
        before=None if before is None else before.volume,
        # With "fail" the earlier attempt would have been refused; else nothing is left that could tell.
        superset=settings.captures_changes and settings.on_superset != "fail",
        no_predicate=f"the history of {source.name} no longer has this range",
        table=Volume(
            files=head.count("total-data-files") if head else 0,
            records=head.count("total-records") if head else 0,
            size_bytes=head.count("total-files-size") if head else 0,
        ),
        ranges=ranges,
        partitions=partitions,
        warnings=(_warning(source, taken),),
    )


def _kept(catalog: Catalog, name: str | None, capture_id: str) -> _Kept | None:
    if name is None:
        return None
    table = open_source(catalog, name)
    head = table.head
    if table.metadata.properties.get("ips.capture-id") != capture_id or head is None or len(table.retained()) > 1:
        return None
    with mapped(f"reading {name}, which an earlier attempt made"):
        data = tuple(m for m in table.reads_manifests(head.snapshot_id) if m.content == DATA)
        listed = tuple(m for m in table.manifests_of(head.snapshot_id) if m.content == 0)
    return _Kept(table=table, data=data, listed=listed)


def _warning(source: IcebergSource, taken: SourceRange) -> str:
    return (
        f"the history of {source.name} no longer has this range; {taken.icdc_table}, made by an earlier attempt, was "
        "checked file by file and is handed over as it is"
    )
