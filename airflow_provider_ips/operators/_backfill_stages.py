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
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One table further down: what the filter selects there, or why that is not known."""

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


def foresee(catalog: Catalog, table: str, asked: Asked) -> Stage:
    """Count what the filter selects of a table: what is there by now, if it keeps the columns."""
    if asked.partitions is None and asked.run is not Run.FULL:
        return Stage(table=table, unknown="a range without a filter does not say which partitions it will reach")
    try:
        return _selected(catalog, table, asked.partitions)
    except (InputError, SourceError) as error:
        return Stage(table=table, unknown=error.problem)


def _selected(catalog: Catalog, table: str, condition: str | None) -> Stage:
    from airflow_provider_ips.iceberg import open_source
    from airflow_provider_ips.iceberg.narrowing import narrow
    from airflow_provider_ips.iceberg.units import units_of

    name, _, branch = table.partition("@")
    source = open_source(catalog, name, branch or "main")
    plan = plan_detached(source, Asked(run=Run.FULL), CaptureSettings())
    units = units_of(source, plan if condition is None else narrow(source, plan, condition), None)
    return Stage(
        table=table,
        partitions=sum(unit.partitions for unit in units),
        files=total(unit.files for unit in units),
        records=total(unit.records for unit in units),
        size_bytes=total(unit.size_bytes for unit in units),
    )
