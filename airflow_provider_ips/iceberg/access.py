"""Whose keys open an ICDC table's files: the connection's own, or what the catalog hands out for that table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import RESTError, TableAlreadyExistsError
from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from airflow_provider_ips.iceberg.faults import foreign_faults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO

    from airflow_provider_ips.core.identifiers import TableIdentifier
    from airflow_provider_ips.iceberg.source import IcebergSource

_KEYS: Final = (
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
)
_CANNOT_ASK: Final = (NotImplementedError, RESTError)
_NO_COLUMNS: Final = Schema(NestedField(1, "nothing", IntegerType(), required=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAccess:
    """Where the ICDC table's files go and what opens them; a warning if its readers may not open the source's."""

    io: FileIO
    location: str
    warning: str = ""


def icdc_access(catalog: Catalog, source: IcebergSource, target: TableIdentifier, location: str) -> FileAccess:
    """Give the ICDC table access of its own: the source's was handed out for the source, and may end there."""
    handed_out = keys_handed_out(catalog.properties, source.table.io.properties)
    if not handed_out:
        return FileAccess(io=load_file_io(dict(catalog.properties), location), location=location)
    try:
        io, given = _handed_out_for(catalog, target, location)
    except _CANNOT_ASK:
        # No way to ask before the table is there. Some catalogs hand out keys for all of their storage.
        return FileAccess(io=load_file_io({**catalog.properties, **handed_out}, location), location=location)
    return FileAccess(io=io, location=given, warning=_warning(io, source))


def keys_handed_out(own: Mapping[str, object], of_table: Mapping[str, object]) -> dict[str, object]:
    """The keys that a table came with, where the connection has none of its own."""
    if any(key.startswith(_KEYS) for key in own):
        return {}
    return {key: value for key, value in of_table.items() if key.startswith(_KEYS)}


def _handed_out_for(catalog: Catalog, target: TableIdentifier, location: str) -> tuple[FileIO, str]:
    """Ask as if to create the table, which creates nothing until it is committed, and this never is.

    The catalog may choose another place than the one asked for (Nessie does), and its keys open that one.
    """
    try:
        asked = catalog.create_table_transaction(target.parts, _NO_COLUMNS, location=location)
        staged = asked._table  # noqa: SLF001 - nothing public tells what the table came with
    except TableAlreadyExistsError:
        staged = catalog.load_table(target.parts)
    return staged.io, staged.metadata.location.rstrip("/")


def _warning(io: FileIO, source: IcebergSource) -> str:
    """Try the ICDC table's keys on a file beside the source's data, as its readers will: the source's own metadata."""
    path = source.table.metadata_location
    try:
        opens = io.new_input(path).exists()
    except foreign_faults():
        opens = False
    if opens:
        return ""
    return (
        f"the catalog hands out keys table by table, and those of the ICDC table do not open {path}: an engine that "
        f"reads it with these keys cannot open the data files of {source.name}. Give the engine keys of its own that do"
    )
