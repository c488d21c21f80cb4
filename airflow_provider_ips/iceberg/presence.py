"""Sources that may not exist yet: what a sensor may wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.iceberg.source import open_source
from airflow_provider_ips.iceberg.views import is_view

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.iceberg.source import IcebergSource


def open_if_there(catalog: Catalog, table: str, branch: str = "main") -> IcebergSource | None:
    """Load a source; None if table, namespace or branch does not exist yet. A view never becomes a table."""
    try:
        return open_source(catalog, table, branch)
    except InputError:
        if is_view(catalog, TableIdentifier.parse(table)):
            raise
        return None
