"""An ICDC table that outlived its source's history: handed over as it stands, and told about from its own metadata."""

from __future__ import annotations

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

    from airflow_provider_ips.core.checkpoint import SourceRange
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.iceberg.source import IcebergSource


def kept_record(
    catalog: Catalog,
    source: IcebergSource,
    taken: SourceRange,
    *,
    table: SourceTable,
    settings: CaptureSettings,
    capture_id: str,
) -> SourceRecord | None:
    """The record of an earlier attempt's table; None where there is none of this capture, or it was written to since.

    Captures of changes are not handed over so: which of their rows are unchanged is not in their metadata.
    """
    if taken.icdc_table is None or settings.captures_changes:
        return None
    icdc = open_source(catalog, taken.icdc_table)
    head = icdc.head
    if icdc.metadata.properties.get("ips.capture-id") != capture_id or head is None or len(icdc.retained()) > 1:
        return None
    with mapped(f"reading {taken.icdc_table}, which an earlier attempt made"):
        data = [m for m in icdc.reads_manifests(head.snapshot_id) if m.content == DATA]
        plan = CapturePlan(
            kind=taken.kind,
            from_exclusive=taken.from_exclusive,
            to_inclusive=taken.to_inclusive,
            selections=tuple(Selection(manifest=m, take=Take.WHOLE) for m in data),
        )
        schema = icdc.metadata.schema()
        ranges = column_ranges(source.name, schema, icdc.table.io, plan, settings.range_columns)
        listed = [m for m in icdc.manifests_of(head.snapshot_id) if m.content == 0]
        partitions = partition_ranges(icdc.metadata, listed)
    now = source.head
    warning = (
        f"the history of {source.name} no longer has this range; {taken.icdc_table}, made by an earlier attempt, was "
        "checked file by file and is handed over as it is"
    )
    return SourceRecord(
        source=source.name,
        branch=source.branch,
        key=table.xcom_key,
        kind=taken.kind,
        icdc_table=taken.icdc_table,
        from_exclusive=taken.from_exclusive,
        to_inclusive=taken.to_inclusive,
        captured=Volume(
            files=sum((m.added_files or 0) + (m.existing_files or 0) for m in data),
            records=sum((m.added_rows or 0) + (m.existing_rows or 0) for m in data),
            size_bytes=None,
        ),
        table=Volume(
            files=now.count("total-data-files") if now else 0,
            records=now.count("total-records") if now else 0,
            size_bytes=now.count("total-files-size") if now else 0,
        ),
        ranges=ranges,
        partitions=partitions,
        warnings=(warning,),
    )
