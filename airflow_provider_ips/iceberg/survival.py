"""Whether the files that an ICDC table names still exist: they are the source's, whose maintenance may remove them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from airflow_provider_ips.core.errors import IcdcConflictError
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.core.losses import Losses, LostFile
from airflow_provider_ips.iceberg.avro import Header
from airflow_provider_ips.iceberg.entries import CONTENT, DELETED, FILE_PATH, RECORD_COUNT, EntryLayout
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.manifest_lists import read_manifest_list
from airflow_provider_ips.iceberg.metadata import IDENTITY
from airflow_provider_ips.iceberg.streams import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

PARALLEL_LOOKS: Final = 16


def find_losses(catalog: Catalog, icdc_table: str) -> Losses | None:
    """Look for every file that an ICDC table names. One request a file, so ask only when something has gone wrong.

    None if there is no such table.
    """
    target = TableIdentifier.parse(icdc_table)
    with mapped(f"looking for the files of {icdc_table}"):
        try:
            icdc = catalog.load_table(target.parts)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        if IDENTITY not in icdc.metadata.properties:
            raise IcdcConflictError(
                f"{icdc_table} is not an ICDC table: it carries no {IDENTITY!r} property",
                consequence="Nothing says which source its files belong to",
                remedy="name a table that a capture made",
            )
        source = str(icdc.metadata.properties["ips.source"])
        named = {file.path: file for file in _named(icdc)}
        io = _io_of_source(catalog, source) or icdc.io
        with ThreadPoolExecutor(max_workers=PARALLEL_LOOKS) as pool:
            there = list(pool.map(lambda path: io.new_input(path).exists(), named))
    lost = tuple(file for file, exists in zip(named.values(), there, strict=True) if not exists)
    return Losses(icdc_table=icdc_table, source=source, files=len(named), lost=lost)


def _io_of_source(catalog: Catalog, source: str) -> FileIO | None:
    """The files are the source's, and so are the rights to see them. A source that was dropped has none to give."""
    try:
        return catalog.load_table(TableIdentifier.parse(source).parts).io
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def _named(icdc: Table) -> Iterator[LostFile]:
    snapshot = icdc.metadata.current_snapshot()
    for manifest in read_manifest_list(icdc.io, snapshot.manifest_list) if snapshot else ():
        yield from _files(icdc.io, manifest)


def _files(io: FileIO, manifest: ManifestFile) -> Iterator[LostFile]:
    with open_stream(io.new_input(manifest.manifest_path)) as stream:
        layout = EntryLayout(Header.read(stream), {CONTENT, FILE_PATH, RECORD_COUNT})
        for entry in layout.entries(stream):
            if entry.status != DELETED:
                yield LostFile(
                    path=entry.file[FILE_PATH],
                    snapshot_id=manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id,
                    records=entry.file[RECORD_COUNT],
                    is_delete=bool(entry.file.get(CONTENT)),
                )
