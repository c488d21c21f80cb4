"""What a capture makes and its record, prepared without writing anything, then published or previewed.

ICDC tables here, nothing in mode RANGE; branches of the source are in ``iceberg.branches.captures``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.history.files import DELETES, FileFacts
from airflow_provider_ips.core.history.selections import CapturePlan, Selection
from airflow_provider_ips.core.identifiers import CapturedRange, Source, TableIdentifier
from airflow_provider_ips.core.planning.incremental_reads import range_to_read
from airflow_provider_ips.core.record import ColumnRange, Decision, Kind, Volume
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.core.settings import OTHER_MODES, CaptureSettings, SourceTable
from airflow_provider_ips.iceberg.foreign_errors import translate_errors
from airflow_provider_ips.iceberg.gc_pause import gc_paused
from airflow_provider_ips.iceberg.icdc.build import Build
from airflow_provider_ips.iceberg.icdc.metadata import Identity, read_as
from airflow_provider_ips.iceberg.icdc.namespace import check_outside_source, file_access, icdc_location
from airflow_provider_ips.iceberg.icdc.transfer import preview_manifest
from airflow_provider_ips.iceberg.manifests.counts import MovedManifest
from airflow_provider_ips.iceberg.partitions.bounds import check_columns, column_ranges, partition_ranges
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedIcdcTable:
    """An ICDC table that is to be made: its name, folder and identity, and what it takes from the source."""

    name: str
    location: str
    identity: Identity
    selections: tuple[Selection, ...]
    equality_deletes: int
    """The records of its equality delete files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedIcdc:
    """A checked plan: whatever can be refused has been, the column ranges are known, and nothing is written yet."""

    catalog: Catalog
    source: IcebergSource
    plan: CapturePlan
    table: SourceTable
    ranges: tuple[ColumnRange, ...]
    icdc: PlannedIcdcTable | None
    before: PlannedIcdcTable | None

    @classmethod
    def place(cls, catalog: Catalog, source: IcebergSource, name: str, requested: str | None) -> str:
        """Choose the folder of one table, and refuse one within the source's."""
        return icdc_location(catalog, source, TableIdentifier.parse(name), requested)

    @gc_paused()
    def publish(self) -> SourceRecord:
        """Make the tables and return their record. A table that an earlier attempt has made is used as it is.

        ``before`` is made first, so that a job that finds the captured rows also finds the rows that they replace.
        """
        warnings: list[str] = []
        before = [] if self.before is None else self._make(self.before, warnings)
        moved = [] if self.icdc is None else self._make(self.icdc, warnings)
        return self.record(moved, before, warnings)

    def _make(self, table: PlannedIcdcTable, warnings: list[str]) -> list[MovedManifest]:
        target = TableIdentifier.parse(table.name)
        with translate_errors(f"capturing {self.source.name} into {table.name}"):
            access = file_access(self.catalog, self.source, target, table.location)
            check_outside_source(access.location, self.source)  # the catalog may have chosen another location
            build = Build(self.catalog, self.source, table.identity, access.location, io=access.io)
            moved = build.move(table.selections)
            build.publish(target, moved, equality_deletes=table.equality_deletes)
        warnings += [access.warning] if access.warning and access.warning not in warnings else []
        return moved

    def preview(self) -> SourceRecord:
        """Return the record that publishing would, without writing anything."""
        with translate_errors(f"counting what would be captured of {self.source.name}"):
            moved, before = (self._previewed(selections) for selections in (self.plan.selections, self.plan.before))
        return self.record(moved, before, ())

    def record(
        self, moved: Sequence[MovedManifest], before: Sequence[MovedManifest], warnings: Sequence[str]
    ) -> SourceRecord:
        """Say what was captured."""
        source, plan = self.source, self.plan
        return SourceRecord(
            source=self.table.source,
            key=self.table.xcom_key,
            kind=plan.kind,
            icdc_table=None if self.icdc is None else self.icdc.name,
            before_table=None if self.before is None else self.before.name,
            from_exclusive=plan.from_exclusive,
            to_inclusive=plan.to_inclusive,
            captured=_volume(moved, _captured_bytes(source, plan, moved)),
            before=_volume(before, plan.before_bytes) if self.before is not None or plan.before else None,
            superset=plan.superset,
            predicate=plan.predicate,
            no_predicate=plan.no_predicate,
            table=source.volume,
            verdicts=plan.verdicts,
            ranges=self.ranges,
            partitions=partition_ranges(source.metadata, [m.manifest for m in _data((*moved, *before)) if m.manifest]),
            warnings=(*plan.warnings, *warnings),
        )

    def _previewed(self, selections: Sequence[Selection]) -> list[MovedManifest]:
        source, with_size = self.source, self.plan.only_partitions is not None
        return [
            preview_manifest(source.table.io, source.listed(s.manifest), s, with_size=with_size) for s in selections
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRange(PreparedIcdc):
    """A checked plan in mode RANGE: nothing is made, and the engine reads the range from the source.

    Its record has the same figures as that of a table would.
    """

    def __post_init__(self) -> None:
        """Refuse what the engine would read otherwise, also in a dry run and when a range is repeated."""
        _refuse_other_schema(self.source, range_to_read(self.source, self.plan))

    @classmethod
    def place(cls, catalog: Catalog, source: IcebergSource, name: str, requested: str | None) -> str:  # noqa: ARG003
        """The range is where its source is."""
        return source.metadata.location.rstrip("/")

    def publish(self) -> SourceRecord:
        """Return the record: there is nothing to make."""
        return self.preview()


def prepare_icdc(  # noqa: PLR0913 - a capture's parts, by keyword
    catalog: Catalog,
    source: IcebergSource,
    plan: CapturePlan,
    *,
    table: SourceTable,
    settings: CaptureSettings,
    icdc_table: str | None,
    identity: Mapping[str, str],
    rules: str | None = None,
    before_table: str | None = None,
    location: str | None = None,
    for_preview: bool = False,
    as_kind: type[PreparedIcdc] = PreparedIcdc,
) -> PreparedIcdc:
    """Check a capture, and read the bounds of its range columns.

    :param icdc_table: the table to make; None for none. It is made even if the plan is empty: where one of several
        sources gained nothing, the job that joins them still needs a table to read
    :param rules: what chose the rows, if it was more than ``settings``; it is part of the tables' identity
    :param before_table: the table to make for the rows before they were changed; None for none
    :param for_preview: check as much as if there were a table to make
    :param as_kind: how the names become something to read: as tables, or as branches of the source
    """
    check_columns(source.name, source.metadata.schema(), settings.range_columns)
    ranges: tuple[ColumnRange, ...] = ()
    if icdc_table is not None or for_preview:
        _refuse_unreadable(source, plan, settings)
        with translate_errors(f"reading the bounds of {source.name}"):
            ranges = column_ranges(source.name, source.metadata.schema(), source.table.io, plan, settings.range_columns)

    def planned(name: str | None, selections: tuple[Selection, ...], **role: str) -> PlannedIcdcTable | None:
        if name is None or icdc_table is None:
            return None
        return PlannedIcdcTable(
            name=name,
            location=as_kind.place(catalog, source, name, location),
            identity=_identity(source, plan, rules or settings.selection_rules, {**identity, **role}),
            selections=selections,
            equality_deletes=0 if settings.equality_deletes == "fail" else _equality_delete_records(source, selections),
        )

    return as_kind(
        catalog=catalog,
        source=source,
        plan=plan,
        table=table,
        ranges=ranges,
        icdc=planned(icdc_table, plan.selections),
        before=planned(before_table, plan.before, role="before"),
    )


def _identity(source: IcebergSource, plan: CapturePlan, rules: str, extra: Mapping[str, str]) -> Identity:
    return Identity(
        source=Source(source.name, source.branch),
        kind=plan.kind.value,
        from_exclusive=plan.from_exclusive,
        to_inclusive=plan.to_inclusive,
        selection=plan.selection,
        settings=rules,
        read_as=read_as(source),
        extra=extra,
    )


def _refuse_unreadable(source: IcebergSource, plan: CapturePlan, settings: CaptureSettings) -> None:
    selections = (*plan.selections, *plan.before)
    if any(source.listed(s.manifest).key_metadata for s in selections):
        raise UnsupportedTableError(
            f"{source.name} has encrypted manifests",
            consequence="An ICDC table would lack the keys",
            remedy="this table cannot be captured; process it in full",
        )
    if settings.equality_deletes == "fail" and any(_equality_deletes(source, s) for s in selections):
        raise UnsupportedTableError(
            f"{source.name} has equality deletes, which streaming writers write",
            consequence="Engines that cannot apply them would read deleted rows as live",
            remedy="set equality_deletes='carry' if the engine applies them (Spark does, PyIceberg does not), or "
            "compact the table so that they are applied (CALL rewrite_data_files), then run again",
        )


def _refuse_other_schema(source: IcebergSource, wanted: CapturedRange) -> None:
    """
    Refuse to read all rows as of a snapshot that was written under another schema: time travel reads by that one.

        append 1; drop column note, add column note     as of 1 shows the old notes, the table itself has none
    """
    if wanted.to is None or wanted.after is not None:
        return
    snapshot = source.metadata.snapshot_by_id(wanted.to)
    schema_id = None if snapshot is None else snapshot.schema_id
    if schema_id not in (None, source.metadata.current_schema_id):
        raise UnsupportedTableError(
            f"{source.name} has another schema now ({source.metadata.current_schema_id}) than its snapshot {wanted.to} "
            f"({schema_id}), as of which all rows were to be read",
            consequence="Engines read a snapshot by its own schema: columns would be missing, or have old values",
            remedy=f"use {OTHER_MODES} for this run, or write to the table once and run again",
        )


def _equality_deletes(source: IcebergSource, selection: Selection) -> list[FileFacts]:
    if selection.manifest.content != DELETES:
        return []
    return [
        file
        for file in source.reads_entries(selection.manifest)
        if file.is_equality_delete and file.is_live and (not selection.chosen or file.key in selection.chosen)
    ]


def _equality_delete_records(source: IcebergSource, selections: Sequence[Selection]) -> int:
    return sum(file.records for selection in selections for file in _equality_deletes(source, selection))


def _data(moved: Sequence[MovedManifest]) -> Iterator[MovedManifest]:
    return (m for m in moved if m.manifest is not None and m.manifest.content == 0)


def _volume(moved: Sequence[MovedManifest], size_bytes: int | None) -> Volume:
    data = list(_data(moved))
    return Volume(files=sum(m.files for m in data), records=sum(m.records for m in data), size_bytes=size_bytes)


def _captured_bytes(source: IcebergSource, plan: CapturePlan, moved: Sequence[MovedManifest]) -> int | None:
    """The size of the captured data files, from wherever it is known without another file read; None if it is not.

    a change capture           the plan, which has read the entries
    a filter or chunk          the entries that were spliced
    all live files             the summary of the last snapshot
    a range of appends         the summaries of its snapshots
    resync                     the entries that were spliced
    """
    if plan.is_empty:
        return 0
    if plan.size_bytes is not None:
        return plan.size_bytes
    sizes = [m.size_bytes for m in _data(moved)]
    if plan.only_partitions is None:
        to_id = plan.to_inclusive.snapshot_id
        if plan.kind is Kind.FULL and to_id is not None:
            to = source.snapshot(to_id)
            return to.count("total-files-size") if to else None
        sizes = [v.size_bytes for v in plan.verdicts if v.decision is Decision.CAPTURED] or sizes
    return None if None in sizes else sum(size or 0 for size in sizes)
