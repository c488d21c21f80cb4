"""Whether a name is a view: what a catalog says of a name that is no table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError

from airflow_provider_ips.iceberg.faults import mapped

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.identifiers import TableIdentifier

_ROW = (
    "SELECT 1 FROM iceberg_tables WHERE catalog_name = :catalog AND table_namespace = :namespace "
    "AND table_name = :name AND iceberg_type = 'VIEW'"
)


def is_view(catalog: Catalog, identifier: TableIdentifier) -> bool:
    """Ask the catalog. One that cannot tell is believed: the name is merely absent."""
    with mapped(f"asking whether {identifier} is a view"):
        try:
            return bool(catalog.view_exists(identifier.parts))
        except NoSuchNamespaceError:
            return False
        except NotImplementedError:
            return _is_view_in_sql(catalog, identifier)


def _is_view_in_sql(catalog: Catalog, identifier: TableIdentifier) -> bool:
    """PyIceberg's SQL catalog knows no views, but Spark's JDBC catalog writes them into the same table."""
    engine = getattr(catalog, "engine", None)
    if engine is None:
        return False
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError, ProgrammingError

    values = {"catalog": catalog.name, "namespace": ".".join(identifier.namespace), "name": identifier.name}
    try:
        with engine.connect() as connection:
            return connection.execute(text(_ROW), values).first() is not None
    except (OperationalError, ProgrammingError):
        return False  # a database from before there were views has no such column
