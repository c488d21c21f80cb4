"""Dropping an ICDC table without touching a source file."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from airflow_provider_ips.core.errors import IcdcConflictError
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.manifest_lists import read_manifest_list
from airflow_provider_ips.iceberg.metadata import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO


_STAYS: Final = "The table or some of its metadata stays behind; no file of the source is touched"


def drop_icdc(catalog: Catalog, icdc_table: str) -> bool:
    """Drop an ICDC table and exactly the metadata files that capture wrote. Never purges. False if it was gone."""
    target = TableIdentifier.parse(icdc_table)
    with mapped(f"dropping {icdc_table}", consequence=_STAYS):
        try:
            loaded = catalog.load_table(target.parts)
        except (NoSuchTableError, NoSuchNamespaceError):
            return False
        if IDENTITY not in loaded.metadata.properties:
            raise IcdcConflictError(
                f"{icdc_table} is not an ICDC table: it carries no {IDENTITY!r} property",
                consequence="Dropping it could destroy somebody's data, so it was left alone",
                remedy="drop it yourself if you are sure",
            )
        files = own_files(loaded.metadata.location, loaded.io, loaded.metadata_location, loaded.metadata.snapshots)
        try:
            catalog.drop_table(target.parts)
        except NoSuchTableError:
            return False
        _delete(loaded.io, files)
    return True


def own_files(location: str, io: FileIO, metadata_location: str, snapshots: Sequence[object]) -> list[str]:
    """Everything below the ICDC table's own metadata folder that its metadata names; nothing else, ever."""
    home = f"{location.rstrip('/')}/metadata/"
    return [path for path in named_files(io, metadata_location, snapshots) if path.startswith(home)]


def named_files(io: FileIO, metadata_location: str, snapshots: Sequence[object]) -> list[str]:
    """Every metadata file that a table consists of, as its metadata spells it."""
    lists = [str(s.manifest_list) for s in snapshots]  # type: ignore[attr-defined]
    files = [metadata_location, *lists]
    for path in lists:
        with suppress(FileNotFoundError):  # a clean-up by age got there first; the rest must go all the same
            files += [m.manifest_path for m in read_manifest_list(io, path)]
    return files


def _delete(io: FileIO, files: Sequence[str]) -> None:
    for path in files:
        try:
            io.delete(path)
        except FileNotFoundError:
            continue  # an earlier, interrupted drop got that far
