"""An Iceberg table as an asset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_provider_ips.assets.uris import MAIN, TableUri

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import AssetWatcher


def iceberg_asset(
    table: str,
    *,
    iceberg_conn_id: str = "iceberg_default",
    branch: str = MAIN,
    extra: Mapping[str, Any] | None = None,
    watchers: Sequence[AssetWatcher] = (),
) -> Asset:
    """
    Make the asset of a table and branch: the same one in every DAG file that names the same table.

    Its name is its URI. Airflow takes assets for different ones if either differs, and fails a task over two names for
    one URI, so there is nothing here to choose.

    :param table: ``"db.t"``.
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog.
    :param branch: The table's branch.
    :param extra: What Airflow shows beside the asset. No secrets: everybody can read it.
    :param watchers: What starts DAGs when the table gains rows, such as an ``AssetWatcher`` with an
        :class:`~airflow_provider_ips.triggers.iceberg_append.IcebergAppendTrigger`.
    """
    uri = str(TableUri.of(table, iceberg_conn_id=iceberg_conn_id, branch=branch))
    return Asset(name=uri, uri=uri, extra=dict(extra or {}), watchers=list(watchers))
