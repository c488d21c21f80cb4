"""Names a table for OpenLineage, by its naming rules for the catalog of the table's connection."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_ips.assets.uris import SCHEME, TableUri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.sdk import Asset


log = logging.getLogger(__name__)


def convert_asset(asset: Asset, lineage_context: object) -> Dataset:  # noqa: ARG001 - Airflow passes it
    """Translate an asset to a dataset. All branches of a table are one dataset."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    namespace, name = dataset_name(TableUri.parse(asset.uri))
    return Dataset(namespace=namespace, name=name)


def dataset_name(uri: TableUri) -> tuple[str, str]:
    """Return namespace and name of a table, by what its connection says of the catalog."""
    return naming(uri, _connection_facts(uri.iceberg_conn_id))


def naming(uri: TableUri, catalog: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name: as engines report them if OpenLineage has a rule for the catalog, else as the asset.

    :param catalog: The properties of the connection, ``type`` and ``uri`` among them.
    """
    kind, address = catalog.get("type"), _address(catalog.get("uri"))
    region, account = catalog.get("glue.region") or catalog.get("client.region"), catalog.get("glue.id")
    if kind == "glue" and region and account:
        return f"arn:aws:glue:{region}:{account}", "table/" + "/".join(uri.table.parts)
    if kind == "hive" and address:
        return f"hive://{address.partition('://')[2]}", str(uri.table)
    if kind == "rest" and address:
        return address, str(uri.table)
    return f"{SCHEME}://{uri.parts.netloc}", str(uri.table)


def _address(uri: object) -> str:
    """Return a service's address without user and password: lineage is read by others."""
    first = str(uri or "").split(",", maxsplit=1)[0]  # there may be several Hive metastores
    try:
        parts = urlsplit(first)
    except ValueError:
        return ""
    if not parts.hostname:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _connection_facts(conn_id: str) -> dict[str, Any]:
    """Read the catalog's properties. Errors are ignored: lineage comes after the work and must not fail it."""
    from airflow.sdk import Connection

    try:
        conn = Connection.get(conn_id)
        facts = dict(conn.extra_dejson or {})
        return {"type": "rest", **facts, "uri": conn.host or facts.get("uri")}
    except Exception as error:  # noqa: BLE001 - whatever a secrets backend raises
        log.debug("Connection %s cannot be read for lineage: %s", conn_id, type(error).__name__)
        return {}
