"""The catalog behind a connection of type ``iceberg``.

Importing the official hook costs about a second, so this module is imported in ``execute`` and never at DAG parse.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook
from airflow.sdk.exceptions import AirflowNotFoundException
from pyiceberg.catalog import load_catalog

from airflow_provider_ips.core.errors import CatalogError, InputError

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from pyiceberg.catalog import Catalog

_WITHOUT_URI = ("glue", "dynamodb", "bigquery")
"""Catalogs that find their service by region or project."""

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class IpsHook(IcebergHook):
    """
    The official Iceberg hook, with the catalog's name taken from the connection.

    A JDBC catalog of Spark and PyIceberg's SQL catalog share one database only under the same catalog *name*, which the
    official hook takes from the connection id. Here it may be set by ``catalog_name`` in the connection's extra.

    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>`.
    """

    hook_name = "Iceberg (IPS)"

    @cached_property
    def catalog(self) -> Catalog:
        """The PyIceberg catalog of the connection."""
        conn = self._checked_connection()
        properties = _properties(conn)
        name = str(properties.pop("catalog_name", "") or self.conn_id)
        _refuse_without_catalog(self.conn_id, properties)
        _mask(properties.get("uri"))
        if properties.get("type") == "rest" and bool(conn.login) != bool(conn.password):
            self.log.warning(
                "Connection %s has only one of client id and client secret; both are needed.", self.conn_id
            )
        try:
            return load_catalog(name, **properties)
        except Exception as error:  # noqa: BLE001 - drivers raise errors of their own
            # `from None`: PyIceberg's message may quote the URI with its password.
            raise CatalogError(
                f"the catalog of connection {self.conn_id!r} cannot be opened: "
                f"{type(error).__name__}: {without_credentials(str(error))}",
                consequence="No table can be read",
                remedy="check the connection's host, type and extra, or run `airflow connections test`",
            ) from None

    def _checked_connection(self) -> Connection:
        try:
            conn = self.get_connection(self.conn_id)
        except AirflowNotFoundException:
            raise InputError(
                f"connection {self.conn_id!r} does not exist",
                consequence="The catalog cannot be found",
                remedy=f"create it by `airflow connections add {self.conn_id} --conn-type iceberg …`, or set "
                "iceberg_conn_id to another",
            ) from None
        if conn.conn_type != self.conn_type:
            raise InputError(
                f"connection {self.conn_id!r} is of type {conn.conn_type!r}",
                consequence="It does not say where an Iceberg catalog is",
                remedy="name a connection of type 'iceberg' by iceberg_conn_id",
            )
        return conn


def without_credentials(text: str) -> str:
    """Cut user and password out of every URI in a text."""
    return _CREDENTIALS.sub("***@", text)


def _properties(conn: Connection) -> dict[str, Any]:
    """Say what the official hook says: the connection's own fields win over its extra."""
    properties: dict[str, Any] = dict(conn.extra_dejson or {})
    if conn.host and conn.host.rstrip("/"):
        properties["uri"] = conn.host.rstrip("/")
    if properties.get("type") or not properties.get("py-catalog-impl"):
        properties["type"] = properties.get("type") or "rest"
    if properties.get("type") == "rest" and conn.login and conn.password:
        properties["credential"] = f"{conn.login}:{conn.password}"
    return properties


def _refuse_without_catalog(conn_id: str, properties: dict[str, Any]) -> None:
    kind = properties.get("type")
    if properties.get("uri") or kind in _WITHOUT_URI or "py-catalog-impl" in properties or kind == "in-memory":
        return
    raise InputError(
        f"connection {conn_id!r} names no catalog: neither a host nor 'uri' in its extra (catalog type {kind!r})",
        consequence="No table can be looked up through it",
        remedy="set the host to the catalog's URI; for a SQL, Hive or Glue catalog add its type to the extra, "
        'for example {"type": "sql", "uri": "…", "warehouse": "…"}',
    )


def _mask(uri: object) -> None:
    """Keep a password inside a URI out of the logs: Airflow masks only what it knows to be one."""
    from airflow.sdk.log import mask_secret

    try:
        password = urlsplit(str(uri or "")).password
    except ValueError:
        return
    if password:
        mask_secret(password)
