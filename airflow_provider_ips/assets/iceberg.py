"""Makes the Airflow asset of an Iceberg table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_provider_ips.assets.uris import TableUri
from airflow_provider_ips.core.identifiers import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import AssetWatcher


def iceberg_asset(
    table: str,
    *,
    iceberg_conn_id: str = "iceberg_default",
    branch: str = MAIN_BRANCH,
    extra: Mapping[str, Any] | None = None,
    watchers: Sequence[AssetWatcher] = (),
) -> Asset:
    """
    Make the asset of a table and branch: the same asset in every DAG file that names the same table.

    Its name is its URI and cannot be chosen: Airflow takes assets for different ones if name or URI differ, and fails a
    task that uses two names for one URI.

    :param table: ``"db.t"``.
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog.
    :param branch: The table's branch.
    :param extra: Values that Airflow shows with the asset. Everybody can read them, so do not put secrets here.
    :param watchers: Watchers that start DAGs when the table gains rows, such as an ``AssetWatcher`` with an
        :class:`~airflow_provider_ips.triggers.iceberg_append.IcebergAppendTrigger`.
    """
    uri = str(TableUri.of(table, iceberg_conn_id=iceberg_conn_id, branch=branch))
    return Asset(name=uri, uri=uri, extra=dict(extra or {}), watchers=list(watchers))
