"""How a source's table is loaded from its catalog, and what is refused: views, tags, encryption, unknown versions.

And who may read a namespace that may not read the source, where the catalog says so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table.refs import SnapshotRefType

from airflow_provider_ips.core.errors import InputError, IpsError, UnsupportedTableError
from airflow_provider_ips.core.identifiers import MAIN_BRANCH, Source, TableIdentifier, did_you_mean
from airflow_provider_ips.iceberg.foreign_errors import foreign_errors, parsing, translate_errors
from airflow_provider_ips.iceberg.gc_pause import gc_paused
from airflow_provider_ips.iceberg.storage.files import write_small_files_at_once
from airflow_provider_ips.redaction import cause_without_secrets, remember_secrets

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


KNOWN_FORMAT_VERSIONS: Final = (1, 2, 3)


def load_table(catalog: Catalog, source: Source) -> Table:
    """Load a source's table from its catalog, and refuse a table that cannot be captured."""
    identifier = TableIdentifier.parse(source.table)
    remember_secrets(catalog.properties)
    with translate_errors(f"loading {source.table}"):
        try:
            with parsing(f"the metadata of {source.table}"), gc_paused():
                table = catalog.load_table(identifier.parts)
        except (NoSuchTableError, NoSuchNamespaceError, NoSuchIcebergTableError) as error:
            raise _missing(catalog, identifier) from cause_without_secrets(error)
    write_small_files_at_once(table.io)
    # What the catalog has sent with the table, such as credentials, is among the properties of its storage.
    remember_secrets({k: v for k, v in table.io.properties.items() if k not in table.metadata.properties})
    _check_supported(table, source.table)
    check_branch(table, source)
    return table


def _missing(catalog: Catalog, identifier: TableIdentifier) -> InputError:
    if is_view(catalog, identifier):
        return InputError(
            f"{identifier} is a view, not a table",
            consequence="A view has no files, so it is not known what was added to it",
            remedy="capture the tables that the view reads",
        )
    found = (row[0] for row in _query_in_sql(catalog, _NAMES_QUERY, identifier))
    if others := sorted(name for name in found if name != catalog.name):
        return InputError(
            f"table {identifier} does not exist in catalog {catalog.name!r}, but the same database has it in catalog "
            f"{' and '.join(map(repr, others))}",
            consequence="A SQL catalog finds only tables that were created under its own name",
            remedy=f'set "catalog_name": "{others[0]}" in the extra of the connection; without it the catalog is named '
            "after the connection's id",
        )
    return InputError(
        f"table {identifier} does not exist in catalog {catalog.name!r}",
        consequence="There is nothing to capture",
        remedy=did_you_mean(
            str(identifier),
            _tables_beside(catalog, identifier),
            otherwise="check the spelling, the namespace and the catalog that iceberg_conn_id names",
        ),
    )


def _tables_beside(catalog: Catalog, identifier: TableIdentifier) -> list[str]:
    """The tables of the same namespace, to suggest one; none if the catalog cannot list them."""
    try:
        return [".".join(found) for found in catalog.list_tables(identifier.namespace)]
    except NotImplementedError:
        return []
    except foreign_errors():
        return []


def _check_supported(table: Table, name: str) -> None:
    metadata = table.metadata
    if metadata.format_version not in KNOWN_FORMAT_VERSIONS:
        raise UnsupportedTableError(
            f"{name} has format version {metadata.format_version}",
            consequence="This release cannot read metadata of that version",
            remedy="upgrade airflow-provider-ips",
        )
    if any("encryption" in key and key.endswith("key-id") for key in metadata.properties):
        raise UnsupportedTableError(
            f"{name} is encrypted",
            consequence="An ICDC table would lack the keys, and its readers would fail",
            remedy="this table cannot be captured; process it in full",
        )


def check_branch(table: Table, source: Source) -> None:
    """Refuse a branch that the table does not have."""
    refs, branch = table.metadata.refs, source.branch
    if branch == MAIN_BRANCH or (branch in refs and refs[branch].snapshot_ref_type is SnapshotRefType.BRANCH):
        return
    branches = {name for name, ref in refs.items() if ref.snapshot_ref_type is SnapshotRefType.BRANCH}
    raise InputError(
        f"{branch!r} is a tag of {source.table}, not a branch"
        if branch in refs
        else f"{source.table} has no branch {branch!r}",
        consequence="A tag never moves, so nothing would ever be new"
        if branch in refs
        else "There is nothing to capture from",
        remedy=f"use one of {sorted(branches | {MAIN_BRANCH})}",
    )


_VIEW_QUERY = (
    "SELECT 1 FROM iceberg_tables WHERE catalog_name = :catalog AND table_namespace = :namespace "
    "AND table_name = :name AND iceberg_type = 'VIEW'"
)


def is_view(catalog: Catalog, identifier: TableIdentifier) -> bool:
    """Whether the catalog has a view of that name. False if the catalog does not know views."""
    with translate_errors(f"looking for a view {identifier}"):
        try:
            return bool(catalog.view_exists(identifier.parts))
        except NoSuchNamespaceError:
            return False
        except NotImplementedError:
            # PyIceberg's SQL catalog does not know views, but Spark's JDBC catalog writes them to the same table.
            return bool(_query_in_sql(catalog, _VIEW_QUERY, identifier))


_NAMES_QUERY = (
    "SELECT DISTINCT catalog_name FROM iceberg_tables WHERE table_namespace = :namespace AND table_name = :name"
)


def _query_in_sql(catalog: Catalog, query: str, identifier: TableIdentifier) -> Sequence[Any]:
    engine = getattr(catalog, "engine", None)
    if engine is None:
        return ()
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError, ProgrammingError

    values = {"catalog": catalog.name, "namespace": ".".join(identifier.namespace), "name": identifier.name}
    used = {name: value for name, value in values.items() if f":{name}" in query}
    try:
        with engine.connect() as connection:
            return list(connection.execute(text(query), used))
    except (OperationalError, ProgrammingError):
        return ()  # an older database has no column iceberg_type


def wider_readers(
    catalog: Catalog, namespace: str, folder: str | None, source: TableIdentifier, source_folder: str
) -> tuple[Sequence[str], bool]:
    """Who may read a namespace and not a source, as far as that is known, and whether all of it is known.

    Folders on this machine have their mode, and Hive's metastore has grants, beside which others may rule. Iceberg's
    REST protocol has no request for grants, and a database that holds names knows no people.

    :param folder: where the namespace's tables are
    """
    by_files = None if folder is None else _wider_by_files(folder, source_folder)
    kind = type(catalog).__name__
    if kind != "HiveCatalog":
        return by_files or (), by_files is not None and kind == "SqlCatalog"
    try:
        of_source = _granted(catalog, source.namespace, None) | _granted(catalog, source.namespace, source.name)
        by_grants = sorted(_granted(catalog, tuple(namespace.split(".")), None) - of_source)
    except IpsError:  # it shows them to its administrators only
        by_grants = []
    return (*(by_files or ()), *by_grants), False


def _wider_by_files(folder: str, source_folder: str) -> Sequence[str] | None:
    """None if one of the two is not a folder of this machine."""
    paths = [Path(unquote(urlsplit(each).path)) for each in (folder, source_folder) if urlsplit(each).scheme in _LOCAL]
    if len(paths) < 2:  # noqa: PLR2004 - both
        return None
    try:
        common = Path(os.path.commonpath(paths))  # who cannot pass it can read neither
        readers, of_source = (_readers_of_folder(path, common) for path in paths)
    except (OSError, ValueError):  # one is not there, or one is relative to a folder that is not known here
        return None
    return () if _EVERYBODY in of_source else sorted(readers - of_source)


_LOCAL: Final = ("", "file")
_EVERYBODY: Final = "every user of this machine"


def _readers_of_folder(folder: Path, common: Path) -> set[str]:
    """Who may list it and open what is in it, besides its owner: that takes a way through the folders above it."""
    above = [parent.stat() for parent in folder.parents if common in parent.parents]
    own = folder.stat()
    found = set()
    if own.st_mode & 0o005 == 0o005 and all(each.st_mode & 0o001 for each in above):  # noqa: PLR2004 - r-x
        found.add(_EVERYBODY)
    passed = all(each.st_mode & 0o001 or (each.st_gid == own.st_gid and each.st_mode & 0o010) for each in above)
    if own.st_mode & 0o050 == 0o050 and passed:  # noqa: PLR2004 - r-x
        found.add(f"the group {own.st_gid} of this machine")
    return found


def _granted(catalog: Catalog, namespace: tuple[str, ...], table: str | None) -> set[str]:
    """The users, groups and roles to which Hive's metastore has granted to read a namespace, or a table of it."""
    hive: Any = import_module("hive_metastore.ttypes")  # PyIceberg's own copy, without types
    kind = hive.HiveObjectType.DATABASE if table is None else hive.HiveObjectType.TABLE
    what = hive.HiveObjectRef(objectType=kind, dbName=".".join(namespace), objectName=table)
    hive_client = cast("Any", catalog)._client  # noqa: SLF001 - nothing public has it
    with translate_errors(f"reading the grants of {what.dbName} from Hive's metastore"), hive_client as client:
        found = client.list_privileges(None, None, what)
    return {
        f"{hive.PrincipalType._VALUES_TO_NAMES[each.principalType].lower()} {each.principalName}"  # noqa: SLF001 - generated
        for each in found
        if each.grantInfo.privilege.upper() in ("ALL", "SELECT")
    }
