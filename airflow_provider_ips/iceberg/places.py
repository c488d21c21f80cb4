"""Where ICDC tables are: their namespace in the catalog, and a folder of their own."""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchNamespaceError

from airflow_provider_ips.core.errors import CatalogError, InputError
from airflow_provider_ips.iceberg.faults import describe, foreign_faults, mapped

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.identifiers import TableIdentifier
    from airflow_provider_ips.iceberg.source import IcebergSource


def check_icdc_namespace(catalog: Catalog, namespace: str) -> None:
    """Make sure that ICDC tables can be made there, before anything else is written."""
    parts = tuple(namespace.split("."))
    if any(not re.fullmatch(r"[A-Za-z0-9_\-]+", part) for part in parts):
        raise InputError(
            f"icdc_namespace {namespace!r} is no namespace that every catalog accepts",
            consequence="ICDC tables could not be made in it",
            remedy='use letters, digits, "_" and "-", with dots between levels, for example "icdc"',
        )
    try:
        catalog.load_namespace_properties(parts)
    except NoSuchNamespaceError:
        _create_namespace(catalog, namespace, parts)
    except foreign_faults() as error:
        raise _no_rights(catalog, namespace, error) from error


def _create_namespace(catalog: Catalog, namespace: str, parts: tuple[str, ...]) -> None:
    try:
        catalog.create_namespace(parts)
    except NamespaceAlreadyExistsError:
        return  # another capture was quicker
    except foreign_faults() as error:
        if not _is_there(catalog, parts):  # two that make it at the same moment get errors of all kinds
            raise _no_rights(catalog, namespace, error) from error


def _is_there(catalog: Catalog, parts: tuple[str, ...]) -> bool:
    try:
        catalog.load_namespace_properties(parts)
    except foreign_faults():
        return False
    return True


def _no_rights(catalog: Catalog, namespace: str, error: Exception) -> CatalogError:
    return CatalogError(
        f"the ICDC namespace {namespace!r} cannot be used in catalog {catalog.name!r}: {describe(error)}",
        consequence="No ICDC table can be made, so nothing was captured and no checkpoint moved",
        remedy=f"let the connection's user create tables in {namespace!r}, or name another one by icdc_namespace",
    )


def icdc_location(catalog: Catalog, source: IcebergSource, target: TableIdentifier, wished: str | None) -> str:
    """Give the ICDC table a place of its own: as asked, or below the namespace or warehouse, or beside the source."""
    base = wished or namespace_location(catalog, target)
    if base is None:
        source_home = source.metadata.location.rstrip("/")
        base = f"{source_home.rpartition('/')[0]}/__{'_'.join(target.namespace)}"
    home = f"{base.rstrip('/')}/{target.name}"
    check_apart(home, source)
    return home


def check_apart(home: str, source: IcebergSource) -> None:
    """Refuse a place within the source's."""
    source_home = source.metadata.location.rstrip("/")
    if f"{same_place(home)}/".startswith(f"{same_place(source_home)}/"):
        raise InputError(
            f"the ICDC table's location {home} lies under the source's, {source_home}",
            consequence="The source's orphan clean-up would delete its files, or a drop of one could reach the other",
            remedy="set icdc_location, or the ICDC namespace's location, to a folder outside the source's",
        )


def namespace_location(catalog: Catalog, target: TableIdentifier) -> str | None:
    """Where tables of a namespace are by default, if the catalog tells; it must exist."""
    with mapped(f"reading the properties of namespace {'.'.join(target.namespace)}"):
        location = catalog.load_namespace_properties(target.namespace).get("location")
    if location:
        return str(location)
    warehouse = catalog.properties.get("warehouse", "")
    if "://" in warehouse or warehouse.startswith(("/", "file:")):
        return f"{warehouse.rstrip('/')}/{'.'.join(target.namespace)}"
    return None


def same_place(location: str) -> str:
    """The path without what different writers put before or into it: schemes, doubled slashes, ``..``, links.

    Two locations that differ in this are two places. Two that do not may still be in two storages.
    """
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return os.path.realpath(location)
    path = f"/{path.lstrip('/')}"
    if scheme.lower() == "file":
        return os.path.realpath(f"/{path.removeprefix('/localhost/').lstrip('/')}")
    return posixpath.normpath(path)
