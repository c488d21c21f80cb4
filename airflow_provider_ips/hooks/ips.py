"""Opens the catalog of a connection of type ``iceberg``.

Importing the official hook takes about a second, so this module is imported in ``execute`` and never at DAG parse.
"""

from __future__ import annotations

import sys
from functools import cached_property
from importlib.abc import MetaPathFinder
from threading import get_ident
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook
from airflow.sdk.exceptions import AirflowNotFoundException
from pyiceberg.catalog import load_catalog

from airflow_provider_ips import compat as _compat  # noqa: F401 - refuses versions that do not fit
from airflow_provider_ips.core.errors import CatalogError, InputError
from airflow_provider_ips.redaction import redacted_message, remember_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Connection
    from pyiceberg.catalog import Catalog


_WITHOUT_URI = ("glue", "dynamodb", "bigquery")
"""Catalog types that find their service by region or project."""


class IpsHook(IcebergHook):
    """
    The official Iceberg hook, with the catalog's name taken from the connection.

    A JDBC catalog of Spark and PyIceberg's SQL catalog share one database only under the same catalog *name*, which the
    official hook takes from the connection id. Here ``catalog_name`` in the connection's extra can set it.

    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>`.
    """

    hook_name = "Iceberg (IPS)"

    @cached_property
    def catalog(self) -> Catalog:
        conn = self._checked_connection()
        properties = catalog_properties(conn)
        _hide_secrets({**properties, "password": conn.password})
        name = str(properties.pop("catalog_name", "") or self.conn_id)
        _refuse_without_catalog(self.conn_id, properties)
        if properties.get("type") == "rest" and bool(conn.login) != bool(conn.password):
            self.log.warning(
                "Connection %s has only one of client id and client secret; both are needed.", self.conn_id
            )
        if "pyarrow" in str(properties.get("py-io-impl", "pyarrow")):
            import_arrow()
        try:
            return load_catalog(name, **properties)
        except Exception as error:  # noqa: BLE001 - drivers raise errors of their own
            # `from None`: what PyIceberg or a driver shows of a connection is in their messages.
            raise CatalogError(
                f"the catalog of connection {self.conn_id!r} cannot be opened: {redacted_message(error)}",
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
                remedy=f"create it by `airflow connections add {self.conn_id} --conn-type iceberg …`, or name another "
                "by iceberg_conn_id (in a command, by --conn-id)",
            ) from None
        if conn.conn_type != self.conn_type:
            raise InputError(
                f"connection {self.conn_id!r} is of type {conn.conn_type!r}",
                consequence="It does not lead to an Iceberg catalog",
                remedy="name a connection of type 'iceberg' by iceberg_conn_id",
            )
        return conn


def import_arrow() -> None:
    """Import what PyArrowFileIO does, without pandas, which takes twice as long as all the rest and is not used here.

    ``pyarrow.dataset`` makes a constant from a Python value as it is imported, and the first of those looks for pandas.
    Where that fails, nothing is remembered: the next value looks again, and so finds pandas for those who do use it.
    """
    held_off = _WithoutPandas()
    sys.meta_path.insert(0, held_off)
    try:
        import pyarrow.dataset  # noqa: F401
    except ImportError:  # PyIceberg says what is missing when it opens a file
        return
    finally:
        sys.meta_path.remove(held_off)


class _WithoutPandas(MetaPathFinder):
    """Finds that pandas is not installed, in the thread that made it: another one may be importing it just now."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas" and get_ident() == self._thread:
            raise ModuleNotFoundError("pandas is not needed to read and write metadata", name=fullname)


def catalog_properties(conn: Connection) -> dict[str, Any]:
    """Return the catalog's properties as the official hook does: the connection's fields override its extra."""
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
        f"connection {conn_id!r} does not name a catalog: neither a host nor 'uri' in its extra (type {kind!r})",
        consequence="No table can be looked up through it",
        remedy="set the host to the catalog's URI; for a SQL, Hive or Glue catalog add its type to the extra, "
        'for example {"type": "sql", "uri": "…", "warehouse": "…"}',
    )


def _hide_secrets(properties: Mapping[str, object]) -> None:
    """Hide a connection's secrets in our errors and in Airflow's logs, which mask only what is called like a secret."""
    from airflow.sdk.log import mask_secret

    mask_secret([*remember_secrets(properties)])
