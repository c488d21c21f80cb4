"""What tables further down hold now of what a backfill asks for, before anything runs.

The backfill may change less of it, and may add what is not there yet: it is what a look beforehand can tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.asked import Asked, Run
from airflow_provider_ips.core.backfill import total
from airflow_provider_ips.core.detached import plan_detached
from airflow_provider_ips.core.errors import InputError, SourceError
from airflow_provider_ips.core.settings import CaptureSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.backfill import Unit
    from airflow_provider_ips.core.selection import CapturePlan
    from airflow_provider_ips.core.spans import Values
    from airflow_provider_ips.iceberg import IcebergSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One table further down: what the filter, or the values of a range, select there, or why that is not known."""

    table: str
    partitions: int | None = None
    files: int | None = None
    records: int | None = None
    size_bytes: int | None = None
    unknown: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the XCom ``backfill`` has it. ``None`` is unknown, never zero."""
        return {
            "table": self.table,
            "partitions": self.partitions,
            "files": self.files,
            "records": self.records,
            "bytes": self.size_bytes,
            "unknown": self.unknown,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Which values of a column the rows of a range are of."""

    column: str
    column_type: str
    values: Values


def foresee(catalog: Catalog, table: str, asked: Asked, reached: Reached | None = None) -> Stage:
    """Count what the filter selects of a table: what is there by now, if it keeps the columns.

    Of a range without a filter it is what may hold the values that the range's rows are of.
    """
    try:
        if asked.partitions is not None or asked.run is Run.FULL:
            return _counted(table, _selected(catalog, table, asked.partitions))
        if reached is not None:
            return _counted(table, _holding(catalog, table, reached))
    except (InputError, SourceError) as error:
        return Stage(table=table, unknown=error.problem)
    return Stage(table=table, unknown="a range without a filter does not say which partitions it will reach")


def _selected(catalog: Catalog, table: str, condition: str | None) -> list[Unit]:
    from airflow_provider_ips.iceberg.narrowing import narrow
    from airflow_provider_ips.iceberg.units import units_of

    source, plan = _live(catalog, table)
    return units_of(source, plan if condition is None else narrow(source, plan, condition), None)


def _holding(catalog: Catalog, table: str, reached: Reached) -> list[Unit]:
    from airflow_provider_ips.iceberg.units import units_of

    source, plan = _live(catalog, table)
    column = next((each for each in source.metadata.schema().fields if each.name == reached.column), None)
    is_same = column is not None and str(column.field_type) == reached.column_type
    units = units_of(source, plan, reached.column if is_same else None)
    if any(unit.held is not None and unit.held.is_anything for unit in units):
        raise InputError(
            f"{table} is not partitioned by {reached.column}, which the rows of the range are told by",
            consequence="Which of its partitions they will reach is not known",
            remedy="ask for partitions",
        )
    return [unit for unit in units if unit.held is not None and reached.values.holds(unit.held) is not False]


def _live(catalog: Catalog, table: str) -> tuple[IcebergSource, CapturePlan]:
    from airflow_provider_ips.iceberg import open_source

    name, _, branch = table.partition("@")
    source = open_source(catalog, name, branch or "main")
    return source, plan_detached(source, Asked(run=Run.FULL), CaptureSettings())


def _counted(table: str, units: Sequence[Unit]) -> Stage:
    return Stage(
        table=table,
        partitions=sum(unit.partitions for unit in units),
        files=total(unit.files for unit in units),
        records=total(unit.records for unit in units),
        size_bytes=total(unit.size_bytes for unit in units),
    )
