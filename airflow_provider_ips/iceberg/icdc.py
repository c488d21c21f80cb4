"""A capture's ICDC tables: prepared without writing anything, then published, and told about in a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.files import Content
from airflow_provider_ips.core.history import DELETES
from airflow_provider_ips.core.identifiers import TableIdentifier
from airflow_provider_ips.core.record import Decision, Kind, SourceRecord, Volume
from airflow_provider_ips.iceberg.access import icdc_access
from airflow_provider_ips.iceberg.building import Build
from airflow_provider_ips.iceberg.collector import paused_collector
from airflow_provider_ips.iceberg.columns import check_columns, column_ranges
from airflow_provider_ips.iceberg.faults import mapped
from airflow_provider_ips.iceberg.metadata import Identity
from airflow_provider_ips.iceberg.moves import weigh_manifest
from airflow_provider_ips.iceberg.partitions import partition_ranges
from airflow_provider_ips.iceberg.places import check_apart, icdc_location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile

    from airflow_provider_ips.core.record import ColumnRange
    from airflow_provider_ips.core.selection import CapturePlan, Selection
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.iceberg.moved import Moved
    from airflow_provider_ips.iceberg.source import IcebergSource


@dataclass(frozen=True, slots=True, kw_only=True)
class IcdcTable:
    """One table to make: its name and place, what it says of itself, and what it takes."""

    name: str
    location: str
    identity: Identity
    selections: tuple[Selection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedIcdc:
    """One plan, checked: whatever can be refused has been, its ranges are known, and nothing is written yet."""

    catalog: Catalog
    source: IcebergSource
    plan: CapturePlan
    table: SourceTable
    ranges: tuple[ColumnRange, ...]
    icdc: IcdcTable | None
    before: IcdcTable | None

    @paused_collector()
    def publish(self) -> SourceRecord:
        """Write the metadata and register it; an earlier attempt of the same capture is taken as it is.

        The rows' origin comes first: whoever finds the captured rows finds what they replace.
        """
        warnings: list[str] = []
        before = [] if self.before is None else self._make(self.before, warnings)
        moved = [] if self.icdc is None else self._make(self.icdc, warnings)
        return _record(self, moved, before, warnings)

    def _make(self, table: IcdcTable, warnings: list[str]) -> list[Moved]:
        target = TableIdentifier.parse(table.name)
        with mapped(f"capturing {self.source.name} into {table.name}"):
            access = icdc_access(self.catalog, self.source, target, table.location)
            check_apart(access.location, self.source)  # the catalog may have chosen another place
            build = Build(self.catalog, self.source, table.identity, access.location, io=access.io)
            moved = build.move(table.selections, _listed(self.source, table.selections))
            build.publish(target, moved)
        warnings += [access.warning] if access.warning and access.warning not in warnings else []
        return moved

    def survey(self) -> SourceRecord:
        """Tell what publishing would, from reading alone."""
        with mapped(f"counting what would be captured of {self.source.name}"):
            moved, before = (self._weighed(selections) for selections in (self.plan.selections, self.plan.before))
        return _record(self, moved, before, ())

    def _weighed(self, selections: Sequence[Selection]) -> list[Moved]:
        to_the_byte = self.plan.only_partitions is not None
        listed = _listed(self.source, selections)
        return [
            weigh_manifest(self.source.table.io, listed[s.manifest.path], s, to_the_byte=to_the_byte)
            for s in selections
        ]


def prepare_icdc(  # noqa: PLR0913 - a capture's parts, by keyword
    catalog: Catalog,
    source: IcebergSource,
    plan: CapturePlan,
    *,
    table: SourceTable,
    settings: CaptureSettings,
    icdc_table: str | None,
    identity: Mapping[str, str],
    before_table: str | None = None,
    location: str | None = None,
    is_survey: bool = False,
) -> PreparedIcdc:
    """Do all of a capture that writes nothing: check it, and read the bounds of its range columns.

    Without ``icdc_table`` there will be no table; with one there will, be the plan empty or not. Where one of several
    sources gained nothing, the job that joins them still needs a table to name; so does one that reads the rows'
    origin from ``before_table``. ``is_survey`` reads and checks as much where no table is to be made.
    """
    check_columns(source.name, source.metadata.schema(), settings.range_columns)
    ranges: tuple[ColumnRange, ...] = ()
    tables: dict[str, IcdcTable] = {}
    if icdc_table is not None or is_survey:
        _refuse_unreadable(source, plan, settings)
        with mapped(f"reading the bounds of {source.name}"):
            ranges = column_ranges(source.name, source.metadata.schema(), source.table.io, plan, settings.range_columns)
        roles = (("", icdc_table, plan.selections), ("before", before_table, plan.before))
        for role, name, selections in roles:
            if name is not None:
                whose = _identity(source, plan, {**identity, **({"role": role} if role else {})})
                home = icdc_location(catalog, source, TableIdentifier.parse(name), location)
                tables[role] = IcdcTable(name=name, location=home, identity=whose, selections=selections)
    return PreparedIcdc(
        catalog=catalog,
        source=source,
        plan=plan,
        table=table,
        ranges=ranges,
        icdc=tables.get(""),
        before=tables.get("before"),
    )


def build_icdc(  # noqa: PLR0913 - the same
    catalog: Catalog,
    source: IcebergSource,
    plan: CapturePlan,
    *,
    table: SourceTable,
    settings: CaptureSettings,
    icdc_table: str,
    identity: Mapping[str, str],
    before_table: str | None = None,
    location: str | None = None,
) -> SourceRecord:
    """Publish one plan as ICDC tables and say what they hold. An empty plan makes no table."""
    return prepare_icdc(
        catalog,
        source,
        plan,
        table=table,
        settings=settings,
        icdc_table=None if plan.is_empty else icdc_table,
        before_table=None if plan.is_empty else before_table,
        identity=identity,
        location=location,
    ).publish()


def _identity(source: IcebergSource, plan: CapturePlan, extra: Mapping[str, str]) -> Identity:
    return Identity(
        source=source.name,
        branch=source.branch,
        kind=plan.kind.value,
        from_exclusive=plan.from_exclusive,
        to_inclusive=plan.to_inclusive,
        extra=extra,
    )


def _listed(source: IcebergSource, selections: Sequence[Selection]) -> dict[str, ManifestFile]:
    """What manifest lists say of the manifests; the lists were read for the plan."""
    return {s.manifest.path: source.listed(s.manifest) for s in selections}


def _refuse_unreadable(source: IcebergSource, plan: CapturePlan, settings: CaptureSettings) -> None:
    selections = (*plan.selections, *plan.before)
    if any(m.key_metadata for m in _listed(source, selections).values()):
        raise UnsupportedTableError(
            f"{source.name} has encrypted manifests",
            consequence="An ICDC table would lack the keys",
            remedy="this table cannot be captured; process it in full",
        )
    if settings.equality_deletes == "fail" and any(_has_equality_deletes(source, s) for s in selections):
        raise UnsupportedTableError(
            f"{source.name} has equality deletes, as streaming writers leave them",
            consequence="Engines that cannot apply them would read deleted rows as live",
            remedy="set equality_deletes='carry' if the engine applies them (Spark does, PyIceberg does not), or "
            "compact the table so that they are applied (CALL rewrite_data_files), then run again",
        )


def _has_equality_deletes(source: IcebergSource, selection: Selection) -> bool:
    if selection.manifest.content != DELETES:
        return False
    return any(
        file.content is Content.EQUALITY_DELETES
        for file in source.reads_entries(selection.manifest)
        if file.is_live and (not selection.chosen or file.key in selection.chosen)
    )


def _record(
    prepared: PreparedIcdc, moved: Sequence[Moved], before: Sequence[Moved], warnings: Sequence[str]
) -> SourceRecord:
    source, plan = prepared.source, prepared.plan
    head = source.head
    return SourceRecord(
        source=source.name,
        branch=source.branch,
        key=prepared.table.xcom_key,
        kind=plan.kind,
        icdc_table=None if prepared.icdc is None else prepared.icdc.name,
        before_table=None if prepared.before is None else prepared.before.name,
        from_exclusive=plan.from_exclusive,
        to_inclusive=plan.to_inclusive,
        captured=_volume(moved, _captured_bytes(source, plan, moved)),
        before=_volume(before, plan.before_bytes) if prepared.before is not None or plan.before else None,
        superset=plan.superset,
        predicate=plan.predicate,
        no_predicate=plan.no_predicate,
        table=Volume(
            files=head.count("total-data-files") if head else 0,
            records=head.count("total-records") if head else 0,
            size_bytes=head.count("total-files-size") if head else 0,
        ),
        verdicts=plan.verdicts,
        ranges=prepared.ranges,
        partitions=partition_ranges(source.metadata, [m.manifest for m in _data((*moved, *before)) if m.manifest]),
        warnings=(*plan.warnings, *warnings),
    )


def _data(moved: Sequence[Moved]) -> Iterator[Moved]:
    return (m for m in moved if m.manifest is not None and m.manifest.content == 0)


def _volume(moved: Sequence[Moved], size_bytes: int | None) -> Volume:
    data = list(_data(moved))
    return Volume(files=sum(m.files for m in data), records=sum(m.records for m in data), size_bytes=size_bytes)


def _captured_bytes(source: IcebergSource, plan: CapturePlan, moved: Sequence[Moved]) -> int | None:
    """From the entries or summaries where those say it, from spliced entries where those were read; else unknown."""
    if plan.is_empty:
        return 0
    if plan.size_bytes is not None:
        return plan.size_bytes
    to_id = plan.to_inclusive.snapshot_id
    if plan.only_partitions is not None:
        weighed = [m.size_bytes for m in _data(moved)]
        return None if None in weighed else sum(size or 0 for size in weighed)
    if plan.kind is Kind.FULL and to_id is not None:
        to = source.snapshot(to_id)
        return to.count("total-files-size") if to else None
    sizes = [v.size_bytes for v in plan.verdicts if v.decision is Decision.CAPTURED]
    sizes = sizes or [m.size_bytes for m in _data(moved)]
    return None if None in sizes else sum(size or 0 for size in sizes)
