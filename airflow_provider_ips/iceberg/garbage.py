"""ICDC tables, and files of theirs, that nobody needs any more: found here, judged by whoever knows the checkpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import load_file_io

from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.iceberg.dropping import named_files
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.folders import StoredFile, list_files
from airflow_provider_ips.iceberg.metadata import IDENTITY
from airflow_provider_ips.iceberg.places import namespace_location, same_place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

CONSUMER: Final = "ips.consumer"


@dataclass(frozen=True, slots=True)
class Shape:
    """How the folder of a table, and a metadata file in it, are called: nothing else is ever deleted."""

    folder: re.Pattern[str]
    file: re.Pattern[str]

    def folder_of(self, location: str, base: str) -> str | None:
        """Name the table whose file this is by its place and name; None for anything else."""
        match location.removeprefix(f"{base}/").split("/"):
            case [folder, "metadata", file] if self.folder.fullmatch(folder) and self.file.fullmatch(file):
                return folder
        return None


ICDC_FILES: Final = Shape(
    re.compile(r"[a-z][a-z0-9_]*_[0-9a-f]{20}"),
    re.compile(r"[0-9a-f]{12}-[a-z0-9\-]+\.avro|00000-[0-9a-f]{12}\.metadata\.json"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcdcFound:
    """An ICDC table that a capture task made, as its own metadata tells."""

    name: str
    consumer: str
    made_at_ms: int
    location: str
    files: frozenset[str]
    gc_enabled: bool


def find_icdc(catalog: Catalog, namespace: str) -> list[IcdcFound]:
    """All ICDC tables of consumers in a namespace. Loads every table there; what is not ours is not even mentioned."""
    found = []
    with mapped(f"looking through namespace {namespace}"):
        try:
            names = catalog.list_tables(tuple(namespace.split(".")))
        except NoSuchNamespaceError:
            return []
        for name in sorted(names):
            try:
                table = catalog.load_table(name)
            except NoSuchTableError:
                continue  # dropped in between, or no Iceberg table
            if IDENTITY in table.metadata.properties and CONSUMER in table.metadata.properties:
                found.append(_found(".".join(name), table))
    return found


def find_leftovers(
    catalog: Catalog, namespace: str, tables: Sequence[IcdcFound], location: str | None = None
) -> Iterator[StoredFile]:
    """Files of captures and drops that died: named as captures name them, and named by no table."""
    known = {table.name.rpartition(".")[2]: table.location for table in tables}
    named = {file for table in tables for file in table.files}
    yield from find_unnamed(catalog, namespace, known, named, shape=ICDC_FILES, location=location)


def find_unnamed(
    catalog: Catalog,
    namespace: str,
    known: Mapping[str, str],
    named: Collection[str],
    *,
    shape: Shape,
    location: str | None = None,
) -> Iterator[StoredFile]:
    """Files of that shape beside the known tables (name and location), and in their namespace's folder."""
    told = [home.rpartition("/")[0] for home in sorted(known.values())]
    home = location or _home(catalog, namespace)
    in_use = {_place_in_base(file) for file in named}
    for base in {same_place(one): one.rstrip("/") for one in (*told, home) if one}.values():
        io = load_file_io(dict(catalog.properties), base)
        is_taken = dict.fromkeys(known, False)
        for file in list_files(io, base):
            folder = shape.folder_of(file.location, base)
            if folder is None or _place_in_base(file.location) in in_use:
                continue
            if folder not in is_taken:
                is_taken[folder] = _is_table(catalog, folder)
            if not is_taken[folder]:
                yield file


def _place_in_base(location: str) -> str:
    """Folder, ``metadata`` and file: what is left of a location when one writes ``file:/`` and another ``file:///``.

    Names of files are drawn at random, so that two which are alike in all three are one file, or one is kept in vain.
    """
    return "/".join(location.split("/")[-3:])


def delete_leftover(catalog: Catalog, file: StoredFile) -> None:
    """Delete one file that :func:`find_leftovers` found."""
    with mapped(f"deleting {file.location}"):
        load_file_io(dict(catalog.properties), file.location).delete(file.location)


def _found(name: str, table: Table) -> IcdcFound:
    metadata = table.metadata
    files = named_files(table.io, table.metadata_location, metadata.snapshots)
    return IcdcFound(
        name=name,
        consumer=metadata.properties[CONSUMER],
        made_at_ms=metadata.last_updated_ms,
        location=metadata.location.rstrip("/"),
        files=frozenset(files),
        gc_enabled=metadata.properties.get("gc.enabled", "true").lower() != "false",
    )


def _home(catalog: Catalog, namespace: str) -> str | None:
    with mapped(f"looking for namespace {namespace}"):
        if not catalog.namespace_exists(tuple(namespace.split("."))):
            return None
    return namespace_location(catalog, TableIdentifier.parse(f"{namespace}.any"))


def _is_table(catalog: Catalog, name: str) -> bool:
    """Any other namespace may keep its tables in the same folder, and this one may hold tables that are not ours."""
    with mapped(f"looking for {name} in all namespaces"):
        return any(catalog.table_exists((*namespace, name)) for namespace in _namespaces(catalog))


def _namespaces(catalog: Catalog, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in catalog.list_namespaces(parent):
        if len(name) == len(parent) + 1:
            yield name
            yield from _namespaces(catalog, name)
