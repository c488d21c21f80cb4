"""ICDC tables: built whole, published by one register call, dropped without touching a source file."""

from __future__ import annotations

import posixpath
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io

from airflow_provider_ips.core.errors import CatalogError, IcdcConflictError, InputError, UnsupportedTableError
from airflow_provider_ips.core.history import DELETES
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.core.record import Decision, Kind, SourceRecord, Volume
from airflow_provider_ips.core.selection import Take
from airflow_provider_ips.iceberg.avro import Header
from airflow_provider_ips.iceberg.columns import check_columns, column_ranges
from airflow_provider_ips.iceberg.entries import CONTENT, DELETED, EntryLayout
from airflow_provider_ips.iceberg.faults import describe, foreign_faults, mapped
from airflow_provider_ips.iceberg.manifest_lists import FIRST_ROW_ID as LISTED_FIRST_ROW_ID
from airflow_provider_ips.iceberg.manifest_lists import read_manifest_list, write_manifest_list
from airflow_provider_ips.iceberg.metadata import IDENTITY, Identity, icdc_metadata, icdc_snapshot_id
from airflow_provider_ips.iceberg.moves import copy_manifest, splice_manifest
from airflow_provider_ips.iceberg.partitions import partition_ranges
from airflow_provider_ips.iceberg.streams import open_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    from airflow_provider_ips.core.record import ColumnRange
    from airflow_provider_ips.core.selection import CapturePlan, Selection
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.iceberg.moved import Moved
    from airflow_provider_ips.iceberg.source import IcebergSource

PARALLEL_COPIES: Final = 8
EQUALITY_DELETES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedIcdc:
    """One plan, checked: whatever can be refused has been, its ranges are known, and nothing is written yet."""

    catalog: Catalog
    source: IcebergSource
    plan: CapturePlan
    table: SourceTable
    ranges: tuple[ColumnRange, ...]
    icdc_table: str | None
    identity: Identity
    location: str
    listed: Mapping[str, ManifestFile]

    def publish(self) -> SourceRecord:
        """Write the metadata and register it; an earlier attempt of the same capture is taken as it is."""
        if self.icdc_table is None:
            return _record(self.source, self.plan, self.table, None, [], self.ranges)
        with mapped(f"capturing {self.source.name} into {self.icdc_table}"):
            build = _Build(self.catalog, self.source, self.identity, self.location)
            moved = build.move(self.plan.selections, self.listed)
            build.publish(TableIdentifier.parse(self.icdc_table), moved)
        return _record(self.source, self.plan, self.table, self.icdc_table, moved, self.ranges)


def prepare_icdc(
    catalog: Catalog,
    source: IcebergSource,
    plan: CapturePlan,
    *,
    table: SourceTable,
    settings: CaptureSettings,
    icdc_table: str | None,
    identity: Mapping[str, str],
    location: str | None = None,
) -> PreparedIcdc:
    """Do all of a capture that writes nothing: check it, and read the bounds of its range columns.

    Without ``icdc_table`` there will be no table; with one there will, be the plan empty or not. Where one of several
    sources gained nothing, the job that joins them still needs a table to name.
    """
    check_columns(source.name, source.metadata.schema(), settings.range_columns)
    listed: Mapping[str, ManifestFile] = {}
    ranges: tuple[ColumnRange, ...] = ()
    home = ""
    if icdc_table is not None:
        listed = _listed(source, plan)
        _refuse_unreadable(source, plan, listed)
        home = _location(catalog, source, TableIdentifier.parse(icdc_table), location)
        with mapped(f"reading the bounds of {source.name}"):
            ranges = column_ranges(source.name, source.metadata.schema(), source.table.io, plan, settings.range_columns)
    whose = Identity(
        source=source.name,
        branch=source.branch,
        kind=plan.kind.value,
        from_exclusive=plan.from_exclusive,
        to_inclusive=plan.to_inclusive,
        extra=identity,
    )
    return PreparedIcdc(
        catalog=catalog,
        source=source,
        plan=plan,
        table=table,
        ranges=ranges,
        icdc_table=icdc_table,
        identity=whose,
        location=home,
        listed=listed,
    )


def build_icdc(
    catalog: Catalog,
    source: IcebergSource,
    plan: CapturePlan,
    *,
    table: SourceTable,
    settings: CaptureSettings,
    icdc_table: str,
    identity: Mapping[str, str],
    location: str | None = None,
) -> SourceRecord:
    """Publish one plan as an ICDC table and say what it holds. An empty plan makes no table."""
    return prepare_icdc(
        catalog,
        source,
        plan,
        table=table,
        settings=settings,
        icdc_table=None if plan.is_empty else icdc_table,
        identity=identity,
        location=location,
    ).publish()


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
        raise _no_rights(catalog, namespace, error) from error


def _no_rights(catalog: Catalog, namespace: str, error: Exception) -> CatalogError:
    return CatalogError(
        f"the ICDC namespace {namespace!r} cannot be used in catalog {catalog.name!r}: {describe(error)}",
        consequence="No ICDC table can be made, so nothing was captured and no checkpoint moved",
        remedy=f"let the connection's user create tables in {namespace!r}, or name another one by icdc_namespace",
    )


def drop_icdc(catalog: Catalog, icdc_table: str) -> bool:
    """Drop an ICDC table and exactly the metadata files that capture wrote. Never purges. False if it was gone."""
    target = TableIdentifier.parse(icdc_table)
    with mapped(f"dropping {icdc_table}"):
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
        files = _own_files(loaded.metadata.location, loaded.io, loaded.metadata_location, loaded.metadata.snapshots)
        try:
            catalog.drop_table(target.parts)
        except NoSuchTableError:
            return False
        _delete(loaded.io, files)
    return True


def _own_files(location: str, io: FileIO, metadata_location: str, snapshots: Sequence[object]) -> list[str]:
    """Everything below the ICDC table's own metadata folder that its metadata names; nothing else, ever."""
    lists = [str(s.manifest_list) for s in snapshots]  # type: ignore[attr-defined]
    files = [metadata_location, *lists]
    for path in lists:
        with suppress(FileNotFoundError):  # a clean-up by age got there first; the rest must go all the same
            files += [m.manifest_path for m in read_manifest_list(io, path)]
    home = f"{location.rstrip('/')}/metadata/"
    return [path for path in files if path.startswith(home)]


def _delete(io: FileIO, files: Sequence[str]) -> None:
    for path in files:
        try:
            io.delete(path)
        except FileNotFoundError:
            continue  # an earlier, interrupted drop got that far


class _Build:
    """One attempt at one ICDC table. Its files carry the attempt's own mark, so attempts never share a file."""

    def __init__(self, catalog: Catalog, source: IcebergSource, identity: Identity, location: str) -> None:
        self._catalog = catalog
        self._source = source
        self._identity = identity
        self._location = location
        self._io = load_file_io(dict(catalog.properties), location)
        self._attempt = secrets.token_hex(6)
        self._snapshot_id = icdc_snapshot_id(identity.fingerprint)
        self._written: list[str] = []

    def move(self, selections: Sequence[Selection], listed: Mapping[str, ManifestFile]) -> list[Moved]:
        """Copy or splice every manifest, several at a time; clean up if any fails."""
        jobs = [(s, listed[s.manifest.path], self._path(f"m{i}.avro")) for i, s in enumerate(selections)]
        try:
            with ThreadPoolExecutor(max_workers=max(1, min(PARALLEL_COPIES, len(jobs)))) as pool:
                moved = list(pool.map(lambda job: self._move(*job), jobs))
        except BaseException:
            self._clean()
            raise
        return [m for m in moved if m.manifest is not None]

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
            self._settle(target, metadata_path, None)
        except foreign_faults() as error:
            self._settle(target, metadata_path, error)

    def _settle(self, target: TableIdentifier, metadata_path: str, error: Exception | None) -> None:
        """A register whose outcome is unknown is settled by looking, never by deleting first."""
        try:
            there = self._catalog.load_table(target.parts)
        except (NoSuchTableError, NoSuchNamespaceError):
            self._clean()
            raise CatalogError(
                f"the catalog did not register {target}: {describe(error) if error else 'it vanished meanwhile'}",
                consequence="Nothing was captured and no checkpoint moved",
                remedy="check that the connection may create tables in the ICDC namespace, then retry the task",
            ) from error
        if there.metadata_location == metadata_path:
            return
        self._clean()
        if there.metadata.properties.get(IDENTITY) != self._identity.fingerprint:
            raise IcdcConflictError(
                f"{target} exists already and is not this capture of {self._identity.source}",
                consequence="Handing it to the job would process other rows",
                remedy="drop that table if nobody needs it, or set another icdc_namespace",
            ) from error

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


def _listed(source: IcebergSource, plan: CapturePlan) -> dict[str, ManifestFile]:
    """Everything that manifest lists say about the plan's manifests, by path; the lists were read for the plan.

    A list from before an upgrade to v3 has no row ids, a later one assigns them to the same manifest.
    """
    listed = (m for manifests in source._lists.values() for m in manifests)  # noqa: SLF001 - one ring
    known: dict[str, ManifestFile] = {}
    for manifest in listed:
        if manifest.manifest_path not in known or manifest[LISTED_FIRST_ROW_ID] is not None:
            known[manifest.manifest_path] = manifest
    return {s.manifest.path: known[s.manifest.path] for s in plan.selections}


def _refuse_unreadable(source: IcebergSource, plan: CapturePlan, listed: Mapping[str, ManifestFile]) -> None:
    if any(m.key_metadata for m in listed.values()):
        raise UnsupportedTableError(
            f"{source.name} has encrypted manifests",
            consequence="An ICDC table would lack the keys",
            remedy="this table cannot be captured; process it in full",
        )
    deletes = [s for s in plan.selections if s.manifest.content == DELETES]
    for selection in deletes:
        with (
            mapped(f"reading {selection.manifest.path}"),
            open_stream(source.table.io.new_input(selection.manifest.path)) as stream,
        ):
            layout = EntryLayout(Header.read(stream), {CONTENT})
            if any(e.file.get(CONTENT) == EQUALITY_DELETES and e.status != DELETED for e in layout.entries(stream)):
                raise UnsupportedTableError(
                    f"{source.name} has equality deletes, as streaming writers leave them",
                    consequence="Engines that cannot apply them would read deleted rows as live",
                    remedy="compact the table so that they are applied (CALL rewrite_data_files), then run again",
                )


def _location(catalog: Catalog, source: IcebergSource, target: TableIdentifier, wished: str | None) -> str:
    """Give the ICDC table a place of its own: as asked, or below the namespace or warehouse, or beside the source."""
    base = wished or _namespace_location(catalog, target)
    source_home = source.metadata.location.rstrip("/")
    if base is None:
        base = f"{source_home.rpartition('/')[0]}/__{'_'.join(target.namespace)}"
    home = f"{base.rstrip('/')}/{target.name}"
    if f"{_plain(home)}/".startswith(f"{_plain(source_home)}/"):
        raise InputError(
            f"the ICDC table's location {home} lies under the source's, {source_home}",
            consequence="The source's orphan clean-up would delete its files, or a drop of one could reach the other",
            remedy="set icdc_location, or the ICDC namespace's location, to a folder outside the source's",
        )
    return home


def _namespace_location(catalog: Catalog, target: TableIdentifier) -> str | None:
    with mapped(f"reading the properties of namespace {'.'.join(target.namespace)}"):
        location = catalog.load_namespace_properties(target.namespace).get("location")
    if location:
        return str(location)
    warehouse = catalog.properties.get("warehouse", "")
    if "://" in warehouse or warehouse.startswith(("/", "file:")):
        return f"{warehouse.rstrip('/')}/{'.'.join(target.namespace)}"
    return None


def _plain(location: str) -> str:
    """The path without what different writers put before or into it: schemes, doubled slashes, ``..``."""
    return posixpath.normpath(re.sub(r"^([a-z0-9]+:)?/*", "/", location))


def _totals(moved: Sequence[Moved]) -> dict[str, str]:
    files = str(sum(m.files for m in moved if m.manifest is not None and m.manifest.content == 0))
    records = str(sum(m.records for m in moved if m.manifest is not None and m.manifest.content == 0))
    return {"added-data-files": files, "added-records": records, "total-data-files": files, "total-records": records}


def _record(
    source: IcebergSource,
    plan: CapturePlan,
    table: SourceTable,
    icdc_table: str | None,
    moved: Sequence[Moved],
    ranges: tuple[ColumnRange, ...],
) -> SourceRecord:
    data = [m.manifest for m in moved if m.manifest is not None and m.manifest.content == 0]
    head = source.head
    return SourceRecord(
        source=source.name,
        branch=source.branch,
        key=table.xcom_key,
        kind=plan.kind,
        icdc_table=icdc_table,
        from_exclusive=plan.from_exclusive,
        to_inclusive=plan.to_inclusive,
        captured=_captured(source, plan, moved),
        table=Volume(
            files=head.count("total-data-files") if head else 0,
            records=head.count("total-records") if head else 0,
            size_bytes=head.count("total-files-size") if head else 0,
        ),
        verdicts=plan.verdicts,
        ranges=ranges,
        partitions=partition_ranges(source.metadata, data),
        warnings=plan.warnings,
    )


def _captured(source: IcebergSource, plan: CapturePlan, moved: Sequence[Moved]) -> Volume:
    data = [m for m in moved if m.manifest is not None and m.manifest.content == 0]
    return Volume(
        files=sum(m.files for m in data),
        records=sum(m.records for m in data),
        size_bytes=_captured_bytes(source, plan, data),
    )


def _captured_bytes(source: IcebergSource, plan: CapturePlan, data: Sequence[Moved]) -> int | None:
    """From summaries where they say it, from spliced entries where those were read; unknown otherwise."""
    if plan.is_empty:
        return 0
    to_id = plan.to_inclusive.snapshot_id
    if plan.kind is Kind.FULL and to_id is not None:
        to = source.snapshot(to_id)
        return to.count("total-files-size") if to else None
    sizes = [v.size_bytes for v in plan.verdicts if v.decision is Decision.CAPTURED] or [m.size_bytes for m in data]
    return None if None in sizes else sum(size or 0 for size in sizes)
