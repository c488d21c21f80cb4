"""The partitions that a job wrote, told by the snapshots that carry its capture's stamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.transforms import VoidTransform

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history import ancestors
from airflow_provider_ips.core.stamps import STAMP
from airflow_provider_ips.iceberg.partitions import shown_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_ips.core.files import Partition
    from airflow_provider_ips.core.history import SnapshotFacts
    from airflow_provider_ips.iceberg.source import IcebergSource

SEPARATOR: Final = "|"
"""Between the values of several partition fields, as Airflow's mappers for composite keys expect it."""

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""A partition of nulls, by the name that file systems give it; the text "null" may be a value."""


def touched_partitions(table: IcebergSource, capture_id: str) -> set[str] | None:
    """Name every partition that the stamped snapshots added files to or removed files from; None if there are none.

    Reads their manifest lists and the manifests that they wrote, no others and no data.
    """
    stamped = [s for s in ancestors(table, table.head) if s.summary.get(STAMP) == capture_id]
    if not stamped:
        return None
    touched = {place for snapshot in stamped for place in _places(table, snapshot)}
    return {_key(table, spec_id, partition) for spec_id, partition in touched}


def _places(table: IcebergSource, snapshot: SnapshotFacts) -> Iterator[tuple[int, Partition]]:
    for manifest in table.reads_manifests_written_by(snapshot.snapshot_id, {snapshot.snapshot_id}):
        for entry in table.reads_entries(manifest):
            if entry.snapshot_id == snapshot.snapshot_id:  # added or removed by it; the others were carried over
                yield entry.spec_id, entry.partition


def _key(table: IcebergSource, spec_id: int, partition: Partition) -> str:
    fields = table.metadata.specs()[spec_id].fields
    named = [
        (field, None if value is None else shown_value(table.metadata, field, value))
        for field, value in zip(fields, partition, strict=True)
        if not isinstance(field.transform, VoidTransform)
    ]
    if not named:
        raise InputError(
            f"{table.name} was written without partitions",
            consequence="There is no partition that an event could name",
            remedy="partition the table, or leave partition_events out",
        )
    return SEPARATOR.join(_escaped(value) for _, value in named)


def _escaped(value: object) -> str:
    """Text that holds no separator, so that a key can be taken apart again."""
    if value is None:
        return NO_VALUE
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text.strip():  # Airflow refuses a key that is only space
        return "".join(f"%{byte:02X}" for byte in text.encode()) or "%00"
    return text.replace("%", "%25").replace(SEPARATOR, "%7C")
