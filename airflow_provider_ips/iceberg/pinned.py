"""Where an earlier attempt of a detached capture ended, as the table that it made says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from airflow_provider_ips.core.history import position_of
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.iceberg.faults import mapped

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.iceberg.source import IcebergSource


def pinned_end(catalog: Catalog, source: IcebergSource, icdc_table: str, *, capture_id: str) -> Position | None:
    """The end of its range; None where there is no such table, or one that is not of this capture."""
    with mapped(f"looking for {icdc_table}, which an earlier attempt may have made"):
        try:
            properties = catalog.load_table(TableIdentifier.parse(icdc_table).parts).metadata.properties
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
    if properties.get("ips.capture-id") != capture_id:
        return None
    shown = properties["ips.to-snapshot-id"]
    if not shown.isdigit():
        return position_of(source, None)
    snapshot = source.snapshot(int(shown))
    if snapshot is not None and properties["ips.table-uuid"] == source.table_uuid:
        return position_of(source, snapshot)
    return Position(
        table_uuid=properties["ips.table-uuid"], snapshot_id=int(shown), sequence_number=0, committed_at_ms=0
    )
