"""How one ICDC table is made: its files are written first, then one call registers it, complete or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

from airflow_provider_ips.core.errors import CatalogError, IcdcConflictError, IpsError
from airflow_provider_ips.core.history.selections import Selection
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.iceberg.foreign_errors import foreign_errors, outcome_is_unknown, remedy_for
from airflow_provider_ips.iceberg.icdc.attempt_files import AttemptFiles
from airflow_provider_ips.iceberg.icdc.metadata import (
    IDENTITY,
    PREFIX,
    WRITTEN,
    Identity,
    changes_since_written,
    icdc_metadata,
    icdc_snapshot_id,
)
from airflow_provider_ips.iceberg.icdc.namespace import cannot_register
from airflow_provider_ips.iceberg.icdc.transfer import measured_copy, move_manifest
from airflow_provider_ips.iceberg.manifests.counts import MovedManifest
from airflow_provider_ips.iceberg.manifests.lists import write_manifest_list
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from airflow_provider_ips.iceberg.storage.files import allow_at_once, is_local
from airflow_provider_ips.iceberg.storage.requests import LOCAL_AT_ONCE, list_files, requests_at_once
from airflow_provider_ips.redaction import cause_without_secrets, redacted_message

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table


LOCAL_MANIFESTS_A_BATCH: Final = 16
"""Manifests that a thread gets at once: handing over one takes as long as copying a small one on a local disk."""

MANIFESTS_WORTH_CONNECTIONS: Final = 500
"""From so many manifests on, more connections than a client opens by itself save more time than opening them takes."""


class Build:
    """One attempt to make one ICDC table."""

    def __init__(
        self, catalog: Catalog, source: IcebergSource, identity: Identity, location: str, *, io: FileIO
    ) -> None:
        self._catalog = catalog
        self._source = source
        self._identity = identity
        self._location = location
        self._io = io
        self._files = AttemptFiles(location)
        self._written: list[str] = []
        self._snapshot_id = icdc_snapshot_id(identity.fingerprint)

    def move(self, selections: Sequence[Selection]) -> list[MovedManifest]:
        """Copy or splice the manifests, several at a time; delete what was written if one fails."""
        jobs = [(selection, self._own(self._files.manifest(i))) for i, selection in enumerate(selections)]
        local = is_local(self._io, self._location)
        threads = LOCAL_AT_ONCE if local else requests_at_once(self._catalog.properties)
        size = LOCAL_MANIFESTS_A_BATCH if local and len(jobs) > threads * LOCAL_MANIFESTS_A_BATCH else 1
        batches = [jobs[i : i + size] for i in range(0, len(jobs), size)]
        if len(jobs) >= MANIFESTS_WORTH_CONNECTIONS:
            allow_at_once(self._io, self._location, threads)
        try:
            with ThreadPoolExecutor(max_workers=max(1, min(threads, len(batches)))) as pool:
                moved = list(chain.from_iterable(pool.map(self._move_batch, batches)))
            moved = self._measured(moved)
        except BaseException:
            self._delete_written()
            raise
        return [m for m in moved if m.manifest is not None]

    def _move_batch(self, jobs: Sequence[tuple[Selection, str]]) -> list[MovedManifest]:
        source, io = self._source, self._source.table.io
        return [move_manifest(io, self._io, source.listed(s.manifest), s, path) for s, path in jobs]

    def _measured(self, moved: Sequence[MovedManifest]) -> list[MovedManifest]:
        """Look up the sizes of what the storage copied by itself, in one listing for a thousand of them."""
        if all(m.copy_of is None for m in moved):
            return list(moved)
        try:
            listed = list_files(self._io, self._files.folder)
        except IpsError:  # not everybody who may read and write files may list them
            listed = []
        sizes = {file.location: file.size_bytes for file in listed if file.size_bytes is not None}
        paths = [m.manifest.manifest_path for m in moved if m.copy_of is not None and m.manifest is not None]
        unlisted = [path for path in paths if path not in sizes]
        with ThreadPoolExecutor(max_workers=requests_at_once(self._catalog.properties)) as pool:
            sizes |= zip(unlisted, pool.map(lambda path: len(self._io.new_input(path)), unlisted), strict=True)
        return [
            m
            if m.copy_of is None or m.manifest is None
            else measured_copy(self._io, m.copy_of, m.manifest.manifest_path, sizes[m.manifest.manifest_path])
            for m in moved
        ]

    def publish(self, target: TableIdentifier, moved: Sequence[MovedManifest], *, equality_deletes: int) -> None:
        """Write manifest list and metadata, then register the table."""
        manifest_list = self._own(self._files.manifest_list)
        manifests = [m.manifest for m in moved if m.manifest is not None]
        metadata_path = self._own(self._files.metadata_file)
        try:
            write_manifest_list(
                self._io.new_output(manifest_list),
                manifests,
                format_version=self._source.format_version,
                snapshot_id=self._snapshot_id,
                sequence_number=self._identity.to_inclusive.sequence_number,
            )
            document = icdc_metadata(
                self._source.metadata,
                self._identity,
                location=self._location,
                manifest_list=manifest_list,
                manifests=manifests,
                totals=table_totals(moved, equality_deletes),
            )
            with self._io.new_output(metadata_path).create(overwrite=True) as stream:
                stream.write(document)
        except BaseException:
            self._delete_written()
            raise
        self._register(target, metadata_path)

    def _register(self, target: TableIdentifier, metadata_path: str) -> None:
        try:
            self._catalog.register_table(target.parts, metadata_path)
        except TableAlreadyExistsError:
            self._settle(target, None)
        except NotImplementedError as error:
            self._delete_written()
            raise cannot_register(self._catalog, str(error)) from error
        except foreign_errors() as error:
            self._settle(target, error)

    def _settle(self, target: TableIdentifier, error: Exception | None) -> None:
        """Find out the outcome of a register call by loading the table, before any file is deleted."""
        try:
            there = self._catalog.load_table(target.parts)
        except (NoSuchTableError, NoSuchNamespaceError):
            raise self._not_registered(target, error) from cause_without_secrets(error)
        except foreign_errors() as second_error:
            raise _unsettled(target, error, second_error) from cause_without_secrets(error)
        if self._is_this_attempt(there):
            return
        self._delete_written()
        refuse_other_capture(target, there, self._identity, error)

    def _is_this_attempt(self, there: Table) -> bool:
        """Compare files: a catalog may write the metadata again under another name, but not what it refers to."""
        snapshot = there.current_snapshot()
        return there.metadata_location in self._written or (
            snapshot is not None and snapshot.manifest_list in self._written
        )

    def _not_registered(self, target: TableIdentifier, error: Exception | None) -> CatalogError:
        """Delete the files, unless the catalog may still register the table, which would then have none."""
        if error is None or not outcome_is_unknown(error):
            self._delete_written()
        return CatalogError(
            f"the catalog did not register {target}: "
            f"{redacted_message(error) if error else 'it was dropped meanwhile'}",
            consequence="Nothing was captured and no checkpoint moved",
            remedy="check that the connection may create tables in the ICDC namespace, then retry the task"
            if error is None or not outcome_is_unknown(error)
            else f"{remedy_for(error)}. A retry uses the table if it exists by then",
        )

    def _own(self, path: str) -> str:
        self._written.append(path)
        return path

    def _delete_written(self) -> None:
        """Delete what this attempt wrote. A file that cannot be deleted now is left over, and does no harm."""
        try:
            self._files.delete(self._io, lambda: self._written, threads=requests_at_once(self._catalog.properties))
        except foreign_errors():
            return


def _unsettled(target: TableIdentifier, error: Exception | None, second_error: Exception) -> CatalogError:
    first = redacted_message(error) if error else "a table of that name exists already"
    return CatalogError(
        f"it is unknown whether the catalog has registered {target} ({first}), because it no longer "
        f"answers: {redacted_message(second_error)}",
        consequence="No checkpoint moved. The files that were written are kept, because the table may exist",
        remedy="retry the task once the catalog answers: the retry uses the table if it exists, or else makes it",
    )


def table_totals(moved: Sequence[MovedManifest], equality_deletes: int) -> dict[str, str]:
    """What the snapshot's summary says of files and records.

    With totals of zero deletes, or without any, some engines answer ``count(*)`` by ``total-records`` alone: deleted
    rows would be counted.
    """
    data, deletes = ([m for m in moved if m.manifest is not None and m.manifest.content == kind] for kind in (0, 1))
    files, records = sum(m.files for m in data), sum(m.records for m in data)
    deleting_files, deleting_records = sum(m.files for m in deletes), sum(m.records for m in deletes)
    totals = {
        "added-data-files": files,
        "added-records": records,
        "total-data-files": files,
        "total-records": records,
        "total-delete-files": deleting_files,
        "total-position-deletes": deleting_records - equality_deletes,
        "total-equality-deletes": equality_deletes,
    }
    return {name: str(total) for name, total in totals.items()}


def refuse_other_capture(
    target: TableIdentifier, there: Table, identity: Identity, error: Exception | None = None
) -> None:
    """Refuse a table of the same name unless it is exactly what this capture writes, and nothing has changed it since.

    the same source, range, settings and selected entries    it is used: an earlier attempt made it
    the same, but a job appended to it                       refused: the next job would read those rows, too
    other settings                                           refused: it has other rows
    """
    found = there.metadata.properties
    if found.get(IDENTITY) != identity.fingerprint:
        wanted = identity.properties()
        differing = sorted(
            key for key in {*wanted, *found} if key.startswith(PREFIX) and key not in (IDENTITY, WRITTEN)
        )
        shown = [f"{key} is {found.get(key)!r} there, {wanted.get(key)!r} here" for key in differing]
        differences = [line for key, line in zip(differing, shown, strict=True) if found.get(key) != wanted.get(key)]
        raise IcdcConflictError(
            f"{target} exists already and is not this capture of {identity.source}: "
            f"{'; '.join(differences) if IDENTITY in found else 'no capture made it'}",
            consequence="A job that reads it would process other rows",
            remedy="drop that table if it is not needed, or choose another name or icdc_namespace",
        ) from cause_without_secrets(error)
    if changed := changes_since_written(there):
        raise IcdcConflictError(
            f"{target} was changed after this capture wrote it: {'; '.join(changed)}",
            consequence="A job that reads it could process other rows than those that were captured",
            remedy=f"let no job write to ICDC tables; drop {target} without purging it, and run the capture again: it "
            "makes the table again",
        ) from cause_without_secrets(error)
