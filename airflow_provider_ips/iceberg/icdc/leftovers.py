"""How ICDC tables are found and dropped, and which files captures and drops that did not finish left over.

No file of a source is ever touched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import load_file_io

from airflow_provider_ips.core.identifiers import NAME_DIGEST, Source, TableIdentifier, icdc_table_name
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.icdc.attempt_files import FILE_PATTERN, MANIFEST_LIST, AttemptFiles
from airflow_provider_ips.iceberg.icdc.metadata import CONSUMER, IDENTITY, PREFIX, load_if_exists, refuse_other_table
from airflow_provider_ips.iceberg.icdc.namespace import namespace_location, normalized_path
from airflow_provider_ips.iceberg.manifests.lists import ManifestList
from airflow_provider_ips.iceberg.storage.requests import (
    StoredFile,
    delete_files,
    delete_folder,
    list_files,
    requests_at_once,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


_WORTH_A_LISTING: Final = 4
_NOT_DROPPED: Final = "The table or some of its metadata is still there; no file of the source was touched"


def drop_icdc(catalog: Catalog, icdc_table: str) -> bool:
    """Drop an ICDC table, and delete the metadata files that its capture wrote. False if there is no such table."""
    with translate_errors(f"dropping {icdc_table}", consequence=_NOT_DROPPED):
        table = load_if_exists(catalog, icdc_table)
        if table is None:
            return False
        refuse_other_table(
            icdc_table,
            table.metadata.properties,
            consequence="Dropping it could destroy somebody's data, so it was left alone",
            remedy="drop it yourself if you are sure",
        )
        threads = requests_at_once(catalog.properties)
        attempt = AttemptFiles.of_untouched_table(table.metadata)
        files = (
            [] if attempt else _own_files(table)
        )  # what an engine added is named only by what is about to be deleted
        try:
            # Without purge, which would delete the source's data files.
            catalog.drop_table(TableIdentifier.parse(icdc_table).parts)
        except NoSuchTableError:
            return False
        if attempt is None:
            delete_files(table.io, files, threads=threads)
            return True
        attempt.delete(table.io, lambda: _own_files(table), threads=threads)
        if table.metadata_location != attempt.metadata_file:  # Nessie writes its own
            delete_files(table.io, [table.metadata_location], threads=1)
    return True


def _own_files(table: Table) -> list[str]:
    """Every file of a table's metadata below its own location: metadata.json, manifest lists, manifests."""
    lists = [snapshot.manifest_list for snapshot in table.metadata.snapshots]
    files = [table.metadata_location, *lists, *_listed_manifests(table, lists)]
    folder = f"{table.metadata.location.rstrip('/')}/metadata/"
    return [path for path in files if path.startswith(folder)]


def _listed_manifests(table: Table, lists: Sequence[str]) -> Iterator[str]:
    for path in lists:
        with suppress(FileNotFoundError):  # a clean-up by age has deleted it; the other files are deleted all the same
            yield from (manifest.manifest_path for manifest in ManifestList(table.io, path).all())


@dataclass(frozen=True, slots=True)
class FileNames:
    """Patterns for a table's folder, and for its files below ``metadata/``. No other file is ever deleted."""

    folder: re.Pattern[str]
    file: re.Pattern[str]

    def folder_of(self, location: str, base: str) -> str | None:
        """The folder of the table to which a file belongs by its path and name; None for any other file."""
        match location.removeprefix(f"{base}/").split("/"):
            case [folder, "metadata", *file] if self.folder.fullmatch(folder) and self.file.fullmatch("/".join(file)):
                return folder
        return None


ICDC_FILES: Final = FileNames(re.compile(r"[a-z][a-z0-9_]*_[0-9a-f]{20}"), FILE_PATTERN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundIcdcTable:
    """An ICDC table that a capture task made, by its own metadata."""

    name: str
    consumer: str
    made_at_ms: int
    location: str
    files: frozenset[str]
    """Those that say which are in use: a manifest list of ours stands for all files of its folder."""

    gc_enabled: bool


def find_icdc_tables(catalog: Catalog, namespace: str) -> list[FoundIcdcTable]:
    """All ICDC tables of consumers in a namespace. Loads every table there, and leaves out those that are not ours."""
    found = []
    with translate_errors(f"looking through namespace {namespace}"):
        for name in sorted(_listed(catalog, namespace)):
            try:
                table = catalog.load_table(name)
            except NoSuchTableError:
                continue  # it was dropped meanwhile, or is not an Iceberg table
            if IDENTITY in table.metadata.properties and CONSUMER in table.metadata.properties:
                found.append(_found_table(".".join(name), table))
    return found


def _listed(catalog: Catalog, namespace: str) -> Sequence[tuple[str, ...]]:
    """The tables of a namespace; none if it does not exist."""
    try:
        return catalog.list_tables(tuple(namespace.split(".")))
    except NoSuchNamespaceError:
        return ()


def find_newer_table(
    catalog: Catalog,
    namespace: str,
    consumer: str,
    sources: Collection[Source],
    *,
    known: Collection[str],
    after_ms: int,
) -> str | None:
    """Find an ICDC table of a consumer that was made since then and is not known: its checkpoint must have been later.

    Loads tables of these sources only, and no known one.
    """
    with translate_errors(f"looking through namespace {namespace}"):
        names = {".".join(name): name for name in _listed(catalog, namespace)}
        starts = {icdc_table_name(source, "")[:-NAME_DIGEST] for source in sources}
        for label in sorted(names.keys() - set(known)):
            if label.rpartition(".")[2][:-NAME_DIGEST] not in starts:
                continue
            try:
                metadata = catalog.load_table(names[label]).metadata
            except NoSuchTableError:
                continue
            is_theirs = metadata.properties.get(CONSUMER) == consumer and f"{PREFIX}detached" not in metadata.properties
            if is_theirs and metadata.last_updated_ms > after_ms:
                return label
    return None


def find_leftovers(
    catalog: Catalog, namespace: str, tables: Sequence[FoundIcdcTable], location: str | None = None
) -> Iterator[StoredFile]:
    """Files that captures and drops left over: named as captures name theirs, and part of no table."""
    known = {table.name.rpartition(".")[2]: table.location for table in tables}
    referenced = {file for table in tables for file in table.files}
    yield from find_unreferenced_files(catalog, namespace, known, referenced, file_names=ICDC_FILES, location=location)


def find_unreferenced_files(
    catalog: Catalog,
    namespace: str,
    known: Mapping[str, str],
    referenced: Collection[str],
    *,
    file_names: FileNames,
    location: str | None = None,
) -> Iterator[StoredFile]:
    """Files with names of ours that no table refers to: in the folders of the known tables, and in the namespace's.

    :param known: the locations of our tables by name
    :param referenced: the files of these tables
    """
    parents = [table.rpartition("/")[0] for table in sorted(known.values())]
    home = location or _namespace_folder(catalog, namespace)
    in_use = {_path_below_base(file) for file in referenced}
    for base in {normalized_path(each): each.rstrip("/") for each in (*parents, home) if each}.values():
        io = load_file_io(dict(catalog.properties), base)
        is_other_table = dict.fromkeys(known, False)
        for file in list_files(io, base):
            folder = file_names.folder_of(file.location, base)
            if folder is None or not in_use.isdisjoint(_names_of_use(file.location)):
                continue
            if folder not in is_other_table:
                is_other_table[folder] = _is_table(catalog, folder)
            if not is_other_table[folder]:
                yield file


def _names_of_use(location: str) -> tuple[str, str]:
    """What says that a file is in use: itself, or the manifest list of the attempt that wrote it."""
    return _path_below_base(location), _path_below_base(f"{location.rpartition('/')[0]}/{MANIFEST_LIST}")


def _path_below_base(location: str) -> str:
    """The last three parts of a path, which are the same whether a base is spelled ``file:/`` or ``file:///``.

    One of them is random: two files that are the same in all three are one file, or else one is kept that is not used.
    """
    return "/".join(location.split("/")[-3:])


def delete_leftovers(catalog: Catalog, files: Sequence[StoredFile]) -> None:
    """Delete files that :func:`find_leftovers` found: as a folder, where it holds nothing else."""
    folders: dict[str, list[str]] = {}
    for file in files:
        folders.setdefault(file.location.rpartition("/")[0], []).append(file.location)
    threads = requests_at_once(catalog.properties)
    for folder, paths in folders.items():
        with translate_errors(f"deleting {len(paths)} files in {folder}"):
            io = load_file_io(dict(catalog.properties), folder)
            if len(paths) >= _WORTH_A_LISTING and {file.location for file in list_files(io, folder)} == set(paths):
                delete_folder(io, folder, threads=threads)
            else:
                delete_files(io, paths, threads=threads)


def _found_table(name: str, table: Table) -> FoundIcdcTable:
    metadata = table.metadata
    attempt = AttemptFiles.of_untouched_table(metadata)
    own = [attempt.metadata_file, attempt.manifest_list] if attempt else _own_files(table)
    return FoundIcdcTable(
        name=name,
        consumer=metadata.properties[CONSUMER],
        made_at_ms=metadata.last_updated_ms,
        location=metadata.location.rstrip("/"),
        files=frozenset([table.metadata_location, *own]),
        gc_enabled=metadata.properties.get("gc.enabled", "true").lower() != "false",
    )


def _namespace_folder(catalog: Catalog, namespace: str) -> str | None:
    with translate_errors(f"looking for namespace {namespace}"):
        if not catalog.namespace_exists(tuple(namespace.split("."))):
            return None
    return namespace_location(catalog, TableIdentifier.parse(f"{namespace}.any"))


def _is_table(catalog: Catalog, name: str) -> bool:
    """Whether any namespace has a table of that name: several may keep tables in one folder, and some are not ours."""
    with translate_errors(f"looking for {name} in all namespaces"):
        return any(catalog.table_exists((*namespace, name)) for namespace in _namespaces(catalog))


def _namespaces(catalog: Catalog, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in catalog.list_namespaces(parent):
        if len(name) == len(parent) + 1:
            yield name
            yield from _namespaces(catalog, name)
