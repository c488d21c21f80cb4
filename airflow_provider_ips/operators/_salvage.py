"""A run is tried again, and the source's history no longer has the range that it captured before.

What it captured may still be there: then that is handed over. If not, a new capture from the checkpoint covers the same
rows, as the next run's would. If that cannot be made either, the error says what is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import GapError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint import SourceRange
    from airflow_provider_ips.core.losses import Losses
    from airflow_provider_ips.core.record import SourceRecord
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """What is left of an earlier attempt. ``records`` is None unless every table of it can still be read whole."""

    losses: tuple[Losses, ...]
    missing: tuple[str, ...]
    records: tuple[SourceRecord, ...] | None

    def __str__(self) -> str:
        """What became of each table."""
        told = [str(losses) for losses in self.losses]
        told += [f"{table} does not exist any more" for table in self.missing]
        return "; ".join(told) or "it had made no ICDC table"

    @property
    def _consequence(self) -> str:
        if any(not losses.is_intact for losses in self.losses):
            return (
                "Rows of lost files are in the table still if compaction rewrote them, and nowhere if they were deleted"
            )
        return "A table that is still there, and that nobody wrote to, can be read: clear only the tasks that do"

    def lost(self, gap: GapError) -> GapError:
        """The error for a run that can neither be handed what it had nor capture anew."""
        return GapError(
            f"{gap.problem}. Of what this run had captured before, {self}",
            consequence=f"{gap.consequence}. {self._consequence}",
            remedy=gap.remedy,
        )


def salvage(
    catalog: Catalog,
    sources: Sequence[tuple[SourceTable, CaptureSettings]],
    ranges: Sequence[SourceRange],
    *,
    capture_id: str,
    tables: Sequence[str],
) -> Salvage:
    """Look for every file of every table that an earlier attempt made."""
    from airflow_provider_ips.iceberg import find_losses

    found = {table: find_losses(catalog, table) for table in tables}
    losses = tuple(each for each in found.values() if each is not None)
    missing = tuple(table for table, each in found.items() if each is None)
    intact = bool(tables) and not missing and all(each.is_intact for each in losses)
    records = _records(catalog, sources, ranges, capture_id) if intact else None
    return Salvage(losses=losses, missing=missing, records=records)


def _records(
    catalog: Catalog,
    sources: Sequence[tuple[SourceTable, CaptureSettings]],
    ranges: Sequence[SourceRange],
    capture_id: str,
) -> tuple[SourceRecord, ...] | None:
    from airflow_provider_ips.iceberg import open_source
    from airflow_provider_ips.iceberg.kept import kept_record

    found = [
        kept_record(
            catalog,
            open_source(catalog, table.table, table.branch),
            taken,
            table=table,
            settings=settings,
            capture_id=capture_id,
        )
        for (table, settings), taken in zip(sources, ranges, strict=True)
    ]
    records = tuple(record for record in found if record is not None)
    return records if len(records) == len(found) else None
