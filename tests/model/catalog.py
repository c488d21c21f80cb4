"""A catalog in memory: sources by name, and ICDC tables that stay under the names that they were registered by.

Captures run as they are, down to the point where PyIceberg would read a table or write one: ``model_catalog`` puts this
catalog in its place.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pyiceberg.exceptions import NoSuchTableError

from airflow_provider_ips.core.errors import IcdcConflictError
from airflow_provider_ips.core.history.files import DATA
from airflow_provider_ips.core.history.selections import Take
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.iceberg.icdc import tables as icdc_tables
from airflow_provider_ips.iceberg.icdc.earlier_attempt import EarlierTables, earlier_warnings
from airflow_provider_ips.iceberg.icdc.metadata import IDENTITY
from tests.model.warehouse import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, PendingCapture, SourceRange
    from airflow_provider_ips.core.history.files import FileFacts
    from airflow_provider_ips.core.history.selections import CapturePlan, Selection
    from airflow_provider_ips.core.history.snapshots import TableHistory
    from airflow_provider_ips.core.identifiers import Source
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.iceberg.icdc.metadata import Identity
    from tests.model.table import Table
    from tests.model.warehouse import ReadRow


UNKNOWN = Volume(files=None, records=None, size_bytes=None)


class Crash(BaseException):
    """The process is killed: no handler of the code under test runs."""


@dataclass(slots=True)
class IcdcTable:
    """What is registered under a name."""

    properties: Mapping[str, str]
    files: State


@dataclass(slots=True)
class Catalog:
    """What a capture and its job see of the warehouse."""

    sources: dict[str, Table] = field(default_factory=dict)
    icdc: dict[str, IcdcTable] = field(default_factory=dict)
    name: str = "model"
    registers_until_crash: int | None = None

    def load_table(self, parts: tuple[str, ...]) -> Any:
        """An ICDC table, as far as captures look at it."""
        found = self.icdc.get(".".join(parts))
        if found is None:
            raise NoSuchTableError(parts)
        return SimpleNamespace(metadata=SimpleNamespace(properties=found.properties))

    def register(self, name: str, identity: Identity, files: State) -> None:
        """Publish a table, or keep the one that is there if it says that it is the same capture."""
        if self.registers_until_crash is not None:
            self.registers_until_crash -= 1
            if self.registers_until_crash < 0:
                raise Crash
        there = self.icdc.get(name)
        if there is None:
            self.icdc[name] = IcdcTable(identity.properties(), files)
        elif there.properties[IDENTITY] != identity.fingerprint:
            raise IcdcConflictError(f"{name} exists already and is not this capture of {identity.source}")

    def read(self, name: str | None, table: Table) -> list[ReadRow]:
        """The rows of an ICDC table, as an engine reads them; none where there is no table."""
        return [] if name is None else table.warehouse.read(self.icdc[name].files)

    def is_readable(self, name: str, table: Table) -> bool:
        """Whether all data files of an ICDC table are still in storage."""
        return not table.warehouse.lost.intersection(file.path for file in self.icdc[name].files.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """In place of `PreparedIcdc`: publishes a plan's selections."""

    catalog: Catalog
    source: TableHistory
    plan: CapturePlan
    table: SourceTable
    names: Mapping[str, str | None]
    identities: Mapping[str, Identity]
    ranges: tuple[()] = ()

    def publish(self) -> SourceRecord:
        """In the order of the real one: first where the rows came from."""
        for role, selections in (("before", self.plan.before), ("", self.plan.selections)):
            if (name := self.names[role]) is not None:
                self.catalog.register(name, self.identities[role], State.of(_selected(self.source, selections)))
        return self.preview()

    def preview(self) -> SourceRecord:
        """The record without its counts."""
        plan = self.plan
        return SourceRecord(
            source=self.table.source,
            key=self.table.xcom_key,
            kind=plan.kind,
            icdc_table=self.names[""],
            before_table=self.names["before"],
            from_exclusive=plan.from_exclusive,
            to_inclusive=plan.to_inclusive,
            captured=UNKNOWN,
            table=UNKNOWN,
            verdicts=plan.verdicts,
            superset=plan.superset,
            predicate=plan.predicate,
            no_predicate=plan.no_predicate,
            warnings=plan.warnings,
        )


def _selected(source: TableHistory, selections: Sequence[Selection]) -> list[FileFacts]:
    """The entries of an ICDC table's manifests, which the real catalog copies or splices."""
    listed = {m.path for s in selections for m in (s.manifest,)}
    assert len(listed) == len(selections), "a manifest is selected twice"
    return [f for s in selections for f in source.reads_entries(s.manifest) if f.is_live and _is_taken(s, f)]


def _is_taken(selection: Selection, file: FileFacts) -> bool:
    match selection.take:
        case Take.WHOLE:
            return True
        case Take.ADDED:
            return file.status.name == "ADDED"
        case Take.NEWER:
            return selection.manifest.content != DATA or file.sequence_number > (selection.newer_than or 0)
        case Take.CHOSEN:
            return file.key in selection.chosen


def _open_source(catalog: Catalog, source: Source) -> TableHistory:
    return catalog.sources[source.table].view


def _check_namespace(catalog: Catalog, namespace: str) -> None:
    """Every namespace may hold ICDC tables."""


def _drop(catalog: Catalog, name: str) -> bool:
    return catalog.icdc.pop(name, None) is not None


def _read_as(source: object) -> str:
    """The model's tables have one schema."""
    return ""


def _usual_gap_ms(history: object) -> None:
    """No advice about retention."""


def _prepare(
    catalog: Catalog,
    source: TableHistory,
    plan: CapturePlan,
    *,
    table: SourceTable,
    settings: CaptureSettings,
    icdc_table: str | None,
    identity: Mapping[str, str],
    rules: str | None = None,
    before_table: str | None = None,
    **_: Any,
) -> Prepared:
    names = {"": icdc_table, "before": before_table}
    chosen_by = rules or settings.selection_rules
    identities = {
        role: icdc_tables._identity(source, plan, chosen_by, {**identity, **({"role": role} if role else {})})  # type: ignore[arg-type]
        for role in names
    }
    return Prepared(catalog=catalog, source=source, plan=plan, table=table, names=names, identities=identities)


def _find_earlier_tables(
    catalog: Catalog,
    sources: Sequence[tuple[SourceTable, CaptureSettings]],
    before: PendingCapture | CommittedCapture,
) -> EarlierTables:
    """Hand over what an earlier attempt made, if all of it is there and can be read."""
    ranges = {taken.source: taken for taken in before.ranges}
    missing = tuple(name for name in before.icdc_tables if name not in catalog.icdc)
    records = [_earlier_record(catalog, table, settings, ranges[table.source]) for table, settings in sources]
    is_whole = bool(before.icdc_tables) and not missing and None not in records
    found = tuple(record for record in records if record is not None) if is_whole else None
    return EarlierTables(losses=(), missing=missing, records=found)


def _earlier_record(
    catalog: Catalog, table: SourceTable, settings: CaptureSettings, taken: SourceRange
) -> SourceRecord | None:
    source = catalog.sources[table.table]
    names = [name for name in (taken.icdc_table, taken.before_table) if name is not None]
    if taken.icdc_table is None or not all(
        name in catalog.icdc and catalog.is_readable(name, source) for name in names
    ):
        return None
    return SourceRecord(
        source=table.source,
        key=table.xcom_key,
        kind=taken.kind,
        icdc_table=taken.icdc_table,
        before_table=taken.before_table,
        from_exclusive=taken.from_exclusive,
        to_inclusive=taken.to_inclusive,
        captured=UNKNOWN,
        table=UNKNOWN,
        superset=settings.captures_changes and settings.on_superset != "fail",
        no_predicate="the history no longer has this range",
        warnings=tuple(earlier_warnings(table.table, taken, settings)),
    )


@contextmanager
def model_catalog() -> Iterator[None]:
    """Let captures open the model's sources and publish into the model's catalog."""
    replaced = {
        "airflow_provider_ips.iceberg.source.iceberg_source.open_source": _open_source,
        "airflow_provider_ips.iceberg.icdc.tables.prepare_icdc": _prepare,
        "airflow_provider_ips.iceberg.icdc.tables.read_as": _read_as,
        "airflow_provider_ips.iceberg.icdc.metadata.read_as": _read_as,
        "airflow_provider_ips.iceberg.icdc.namespace.check_icdc_namespace": _check_namespace,
        "airflow_provider_ips.iceberg.icdc.leftovers.drop_icdc": _drop,
        "airflow_provider_ips.iceberg.icdc.earlier_attempt.find_earlier_tables": _find_earlier_tables,
        "airflow_provider_ips.runs.pending.usual_gap_ms": _usual_gap_ms,
    }
    with ExitStack() as stack:
        for name, stand_in in replaced.items():
            stack.enter_context(patch(name, stand_in))
        yield
