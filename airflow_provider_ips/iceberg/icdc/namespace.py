"""Where ICDC tables are made, and with whose credentials.

They are in a namespace of the catalog, and in a folder outside the source's. Their files are opened with the
credentials of the connection, or with those that the catalog vends for each table.
"""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchNamespaceError, RESTError, TableAlreadyExistsError
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType

from airflow_provider_ips.core.errors import CatalogError, InputError
from airflow_provider_ips.core.identifiers import TableIdentifier, namespace_levels
from airflow_provider_ips.iceberg.foreign_errors import foreign_errors, translate_errors
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from airflow_provider_ips.iceberg.storage.files import write_small_files_at_once
from airflow_provider_ips.redaction import cause_without_secrets, redacted_message

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO


def check_icdc_namespace(catalog: Catalog, namespace: str) -> None:
    """Create the namespace if it does not exist. Refuse one that cannot be used, before anything else is written."""
    unusable = "ICDC tables could not be made in it"
    parts = namespace_levels("icdc_namespace", namespace, consequence=unusable, example="icdc")
    if not may_register(catalog):
        raise cannot_register(catalog)
    try:
        catalog.load_namespace_properties(parts)
    except NoSuchNamespaceError:
        _create_namespace(catalog, namespace, parts)
    except foreign_errors() as error:
        raise _unusable(catalog, namespace, error) from cause_without_secrets(error)


_UNABLE: Final = frozenset({"DynamoDbCatalog", "NoopCatalog"})
"""PyIceberg's classes whose ``register_table`` and ``commit_table`` do nothing but raise."""


def may_register(catalog: Catalog) -> bool:
    """Whether the catalog may be able to register a table: a REST catalog can say that it is not."""
    return _may(catalog, "V1_REGISTER_TABLE")


def may_commit(catalog: Catalog) -> bool:
    """Whether the catalog may be able to commit to a table. Those that show tables of other formats only read."""
    return _may(catalog, "V1_UPDATE_TABLE")


def _may(catalog: Catalog, capability: str) -> bool:
    from pyiceberg.catalog.rest import Capability

    if type(catalog).__name__ in _UNABLE:
        return False
    endpoints = getattr(catalog, "_supported_endpoints", None)
    return endpoints is None or getattr(Capability, capability) in endpoints


def cannot_register(catalog: Catalog, reason: str = "") -> InputError:
    """The error for a catalog in which no existing metadata file can become a table."""
    return InputError(
        f"catalog {catalog.name!r} cannot register tables{reason and f': {reason}'}",
        consequence="ICDC tables are made by registering metadata, so nothing was captured and no checkpoint moved",
        remedy="use a catalog that registers tables, see docs/reference/catalogs.md",
    )


def probe_namespace(catalog: Catalog, namespace: str) -> str:
    """Create a table and drop it again, with its only file, and say that this was done."""
    check_icdc_namespace(catalog, namespace)
    identifier = (*namespace.split("."), f"ips_probe_{secrets.token_hex(6)}")
    with translate_errors(f"creating and dropping a table in {namespace}"):
        table = catalog.create_table(identifier, schema=Schema(NestedField(1, "note", StringType(), required=False)))
        catalog.drop_table(identifier)
        table.io.delete(table.metadata_location)
    return "a table was made and dropped"


def _create_namespace(catalog: Catalog, namespace: str, parts: tuple[str, ...]) -> None:
    try:
        catalog.create_namespace(parts)
    except NamespaceAlreadyExistsError:
        return  # another capture has just created it
    except foreign_errors() as error:
        if not _exists(catalog, parts):  # two captures that create it at once get errors of all kinds
            raise _unusable(catalog, namespace, error) from cause_without_secrets(error)
    except ValueError as error:  # PyIceberg's for Glue, Hive and others
        if len(parts) == 1:
            raise
        raise InputError(
            f"icdc_namespace {namespace!r}: catalog {catalog.name!r} does not nest namespaces",
            consequence="No ICDC table can be made in it",
            remedy=f"name one without dots, for example {'_'.join(parts)!r}",
        ) from error


def _exists(catalog: Catalog, parts: tuple[str, ...]) -> bool:
    try:
        catalog.load_namespace_properties(parts)
    except foreign_errors():
        return False
    return True


def _unusable(catalog: Catalog, namespace: str, error: Exception) -> CatalogError:
    return CatalogError(
        f"the ICDC namespace {namespace!r} cannot be used in catalog {catalog.name!r}: {redacted_message(error)}",
        consequence="No ICDC table can be made, so nothing was captured and no checkpoint moved",
        remedy=f"let the connection's user create tables in {namespace!r}, or name another one by icdc_namespace",
    )


def icdc_location(catalog: Catalog, source: IcebergSource, target: TableIdentifier, requested: str | None) -> str:
    """The folder of an ICDC table: below the requested one, the namespace's or warehouse's, or beside the source."""
    base = requested or namespace_location(catalog, target)
    if base is None:
        source_home = source.metadata.location.rstrip("/")
        base = f"{source_home.rpartition('/')[0]}/__{'_'.join(target.namespace)}"
    home = f"{base.rstrip('/')}/{target.name}"
    check_outside_source(home, source)
    return home


def namespace_location(catalog: Catalog, target: TableIdentifier) -> str | None:
    """Where tables of an existing namespace are by default; None if the catalog does not say."""
    with translate_errors(f"reading the properties of namespace {'.'.join(target.namespace)}"):
        location = catalog.load_namespace_properties(target.namespace).get("location")
    if location:
        return str(location)
    warehouse = catalog.properties.get("warehouse", "")
    if "://" in warehouse or warehouse.startswith(("/", "file:")):
        return f"{warehouse.rstrip('/')}/{'.'.join(target.namespace)}"
    return None


def check_outside_source(home: str, source: IcebergSource) -> None:
    """Refuse a location within the source's."""
    source_home = source.metadata.location.rstrip("/")
    if f"{normalized_path(home)}/".startswith(f"{normalized_path(source_home)}/"):
        raise InputError(
            f"the ICDC table's location {home} lies under the source's, {source_home}",
            consequence="Removing orphan files of the source would delete it, and a drop of one could delete the other",
            remedy="set icdc_location, or the ICDC namespace's location, to a folder outside the source's",
        )


def normalized_path(location: str) -> str:
    """The path of a location, without what writers spell differently: scheme, doubled slashes, ``..``, symbolic links.

        file:/lake//t, file:///lake/t, /lake/x/../t    /lake/t
        s3://bucket/t, s3a://bucket/t                  /bucket/t

    Locations with different paths are different places; those with the same path may still be in two storages.
    """
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return os.path.realpath(location)
    path = f"/{path.lstrip('/')}"
    if scheme.lower() == "file":
        return os.path.realpath(f"/{path.removeprefix('/localhost/').lstrip('/')}")
    return posixpath.normpath(path)


_CREDENTIALS: Final = (
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "client.access-key-id",
    "client.secret-access-key",
    "gcs.oauth2.token",
    "adls.sas-token",
    "adls.account-key",
    "adls.connection-string",
    "adls.client-secret",
    "s3.signer",
)
"""Or, in place of credentials, who signs each request to the storage."""
_STORAGE: Final = ("s3.", "client.", "gcs.", "adls.", PY_IO_IMPL)
_NO_STAGED_CREATE: Final = (NotImplementedError, RESTError)
_NO_COLUMNS: Final = Schema(NestedField(1, "nothing", IntegerType(), required=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAccess:
    """Where an ICDC table's files are written, how they are opened, and a warning if that cannot open the source's."""

    io: FileIO
    location: str
    warning: str = ""


def file_access(catalog: Catalog, source: IcebergSource, target: TableIdentifier, location: str) -> FileAccess:
    """Get access to the files of an ICDC table. Credentials that were vended for the source may end at the source."""
    vended = _vended_credentials(catalog.properties, source.table.io.properties)
    if not vended:
        return FileAccess(io=_io(catalog, {}, location), location=location)
    try:
        io, chosen_location = _vended_access(catalog, target, location)
    except _NO_STAGED_CREATE:
        # No credentials can be requested for a table that does not exist. Those of the source may open all storage.
        return FileAccess(io=_io(catalog, vended, location), location=location)
    return FileAccess(io=io, location=chosen_location, warning=_warning(io, source))


def _io(catalog: Catalog, vended: Mapping[str, object], location: str) -> FileIO:
    """Open a place as the catalog would, with the token that it gives to clients that sign requests."""
    io = catalog._load_file_io(dict(vended), location)  # noqa: SLF001 - nothing public has the catalog's token
    return write_small_files_at_once(io)


def _vended_credentials(of_connection: Mapping[str, object], of_table: Mapping[str, object]) -> dict[str, object]:
    """What came with a table to open its storage: credentials, endpoint, region. Nothing if the connection has keys."""
    found = {key: value for key, value in of_table.items() if key.startswith(_STORAGE)}
    has_keys, vends_keys = (any(key.startswith(_CREDENTIALS) for key in given) for given in (of_connection, found))
    return found if vends_keys and not has_keys else {}


def _vended_access(catalog: Catalog, target: TableIdentifier, location: str) -> tuple[FileIO, str]:
    """Request credentials by staging the table's creation, which creates nothing because it is never committed.

    The catalog may choose another location than the requested one (Nessie does), and its credentials are for that one.
    """
    try:
        transaction = catalog.create_table_transaction(target.parts, _NO_COLUMNS, location=location)
        staged = transaction._table  # noqa: SLF001 - nothing public has the staged table's access
    except TableAlreadyExistsError:
        staged = catalog.load_table(target.parts)
    return write_small_files_at_once(staged.io), staged.metadata.location.rstrip("/")


def _warning(io: FileIO, source: IcebergSource) -> str:
    """Try the ICDC table's access on a file of the source, as its readers will: on the source's metadata file."""
    path = source.table.metadata_location
    try:
        opens = io.new_input(path).exists()
    except foreign_errors():
        opens = False
    if opens:
        return ""
    return (
        f"the catalog hands out credentials table by table, and those of the ICDC table do not open {path}: an engine "
        f"that reads it with them cannot open the data files of {source.name}. Give the engine credentials of its own"
    )
