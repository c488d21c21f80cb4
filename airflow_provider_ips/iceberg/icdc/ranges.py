"""Captures in mode RANGE: nothing is made, and the engine reads the proven range from the source by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.planning.incremental_reads import range_to_read
from airflow_provider_ips.core.results.capture_record import SourceRecord
from airflow_provider_ips.core.settings import OTHER_MODES
from airflow_provider_ips.iceberg.icdc.tables import PreparedIcdc
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.identifiers import CapturedRange


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRange(PreparedIcdc):
    """A checked plan that an engine carries out. Its record has the same figures as that of a table would."""

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
