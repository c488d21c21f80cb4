"""One attempt at one ICDC table: built whole, published by one register call."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

from airflow_provider_ips.core.errors import CatalogError, IcdcConflictError
from airflow_provider_ips.core.selection import Take
from airflow_provider_ips.iceberg.copying import is_local
from airflow_provider_ips.iceberg.faults import describe, foreign_faults, may_still_happen, remedy_for, showable
from airflow_provider_ips.iceberg.manifest_lists import write_manifest_list
from airflow_provider_ips.iceberg.metadata import IDENTITY, Identity, icdc_metadata, icdc_snapshot_id
from airflow_provider_ips.iceberg.moves import copy_manifest, splice_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from airflow_provider_ips.core.identifiers import TableIdentifier
    from airflow_provider_ips.core.selection import Selection
    from airflow_provider_ips.iceberg.moved import Moved
    from airflow_provider_ips.iceberg.source import IcebergSource

PARALLEL_COPIES: Final = 8
LOCAL_COPIES: Final = 2
"""Of local files: a third thread only takes the interpreter away from the two that copy."""
HANDED_TOGETHER: Final = 16
"""Manifests that a thread is given at once: handing over costs as much as copying a small one."""


class Build:
    """One attempt at one ICDC table. Its files carry the attempt's own mark, so attempts never share a file."""

    def __init__(
        self, catalog: Catalog, source: IcebergSource, identity: Identity, location: str, *, io: FileIO
    ) -> None:
        self._catalog = catalog
        self._source = source
        self._identity = identity
        self._location = location
        self._io = io
        self._attempt = secrets.token_hex(6)
        self._snapshot_id = icdc_snapshot_id(identity.fingerprint)
        self._written: list[str] = []

    def move(self, selections: Sequence[Selection], listed: Mapping[str, ManifestFile]) -> list[Moved]:
        """Copy or splice every manifest, several at a time; clean up if any fails."""
        jobs = [(s, listed[s.manifest.path], self._path(f"m{i}.avro")) for i, s in enumerate(selections)]
        threads = LOCAL_COPIES if is_local(self._io, self._location) else PARALLEL_COPIES
        few = [jobs[i : i + HANDED_TOGETHER] for i in range(0, len(jobs), HANDED_TOGETHER)]
        together = few if len(few) >= threads else [[job] for job in jobs]
        try:
            with ThreadPoolExecutor(max_workers=max(1, min(threads, len(together)))) as pool:
                moved = list(chain.from_iterable(pool.map(self._move_all, together)))
        except BaseException:
            self._clean()
            raise
        return [m for m in moved if m.manifest is not None]

    def _move_all(self, jobs: Sequence[tuple[Selection, ManifestFile, str]]) -> list[Moved]:
        return [self._move(*job) for job in jobs]

    def _move(self, selection: Selection, manifest: ManifestFile, path: str) -> Moved:
        if selection.take is Take.WHOLE and selection.manifest.volume_known:
            return copy_manifest(self._source.table.io, self._io, manifest, path)
        return splice_manifest(self._source.table.io, self._io, manifest, selection, path)

    def publish(self, target: TableIdentifier, moved: Sequence[Moved]) -> None:
        """Write list and metadata, then register: the table is there complete, or not at all."""
        manifest_list = self._path("snap.avro")
        # Java reads the version up to the first dash, and logs a stack trace at every load if it finds none there.
        metadata_path = self._own(f"00000-{self._attempt}.metadata.json")
        try:
            write_manifest_list(
                self._io.new_output(manifest_list),
                [m.manifest for m in moved if m.manifest is not None],
                format_version=self._source.format_version,
                snapshot_id=self._snapshot_id,
                sequence_number=self._identity.to_inclusive.sequence_number,
            )
            document = icdc_metadata(
                self._source.metadata,
                self._identity,
                location=self._location,
                manifest_list=manifest_list,
                totals=_totals(moved),
            )
            with self._io.new_output(metadata_path).create(overwrite=True) as stream:
                stream.write(document)
        except BaseException:
            self._clean()
            raise
        self._register(target, metadata_path)

    def _register(self, target: TableIdentifier, metadata_path: str) -> None:
        try:
            self._catalog.register_table(target.parts, metadata_path)
        except TableAlreadyExistsError:
            self._settle(target, None)
        except foreign_faults() as error:
            self._settle(target, error)

    def _settle(self, target: TableIdentifier, error: Exception | None) -> None:
        """A register whose outcome is unknown is settled by looking, never by deleting first."""
        try:
            there = self._catalog.load_table(target.parts)
        except (NoSuchTableError, NoSuchNamespaceError):
            raise self._absent(target, error) from showable(error)
        except foreign_faults() as silence:
            raise _unsettled(target, error, silence) from showable(error)
        if self._is_this_attempt(there):
            return
        self._clean()
        if there.metadata.properties.get(IDENTITY) != self._identity.fingerprint:
            raise IcdcConflictError(
                f"{target} exists already and is not this capture of {self._identity.source}",
                consequence="Handing it to the job would process other rows",
                remedy="drop that table if nobody needs it, or set another icdc_namespace",
            ) from error

    def _is_this_attempt(self, there: Table) -> bool:
        """By its files: a catalog may write the metadata anew under another name, but not what that refers to."""
        snapshot = there.current_snapshot()
        return there.metadata_location in self._written or (
            snapshot is not None and snapshot.manifest_list in self._written
        )

    def _absent(self, target: TableIdentifier, error: Exception | None) -> CatalogError:
        """Clean up, unless the catalog may still be at it: it would register a table whose files are gone."""
        if error is None or not may_still_happen(error):
            self._clean()
        return CatalogError(
            f"the catalog did not register {target}: {describe(error) if error else 'it vanished meanwhile'}",
            consequence="Nothing was captured and no checkpoint moved",
            remedy="check that the connection may create tables in the ICDC namespace, then retry the task"
            if error is None or not may_still_happen(error)
            else f"{remedy_for(error)}. A retry takes the table if it is there by then",
        )

    def _path(self, name: str) -> str:
        return self._own(f"{self._attempt}-{name}")

    def _own(self, name: str) -> str:
        path = f"{self._location}/metadata/{name}"
        self._written.append(path)
        return path

    def _clean(self) -> None:
        """Take back what this attempt wrote. What cannot be deleted now is an orphan, not a danger."""
        for path in self._written:
            try:
                self._io.delete(path)
            except foreign_faults():
                continue


def _unsettled(target: TableIdentifier, error: Exception | None, silence: Exception) -> CatalogError:
    first = describe(error) if error else "a table of that name is there already"
    return CatalogError(
        f"it is unknown whether the catalog has registered {target} ({first}), for it does not answer any more: "
        f"{describe(silence)}",
        consequence="No checkpoint moved. Everything that was written stays, for the table may be there",
        remedy="retry the task once the catalog answers: the retry takes the table if it is there, or makes it",
    )


def _totals(moved: Sequence[Moved]) -> dict[str, str]:
    files = str(sum(m.files for m in moved if m.manifest is not None and m.manifest.content == 0))
    records = str(sum(m.records for m in moved if m.manifest is not None and m.manifest.content == 0))
    return {"added-data-files": files, "added-records": records, "total-data-files": files, "total-records": records}
