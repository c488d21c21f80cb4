"""Which partitions a capture took files from, and which partitions of a target the job then wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.advice.target_evidence import STAMP
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history.files import DATA, Partition
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, ancestors
from airflow_provider_ips.iceberg.partitions.partition_fields import named_values, partitioning
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource, open_captured

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def captured_partitions(catalog: Catalog, *icdc_tables: str | None) -> list[dict[str, Any]]:
    """List the partitions of the captured files, as names of partition fields with values; always in the same order.

    Reads the manifests of the ICDC tables and no data. Values are JSON values: a date is ``"2026-10-01"``, null is
    None.

    :param icdc_tables: the names in a capture's record: ``icdc_table`` and, of a capture of changes, ``before_table``;
        None for one that does not exist.
    """
    found: set[tuple[tuple[str, Any], ...]] = set()
    partitionings: set[tuple[tuple[str, str], ...]] = set()
    for name in icdc_tables:
        if name is not None:
            table = open_captured(catalog, name)
            keys = _partitions_with_data(table)
            found |= {tuple(named_values(table.metadata, *key)) for key in keys}
            partitionings |= {partitioning(table.metadata, spec_id) for spec_id, _ in keys}
    _refuse_mixed(partitionings, icdc_tables)
    return [dict(partition) for partition in sorted(found, key=_order)]


def _partitions_with_data(table: IcebergSource) -> set[tuple[int, Partition]]:
    if table.head is None:
        return set()
    return {
        (file.spec_id, file.partition)
        for manifest in table.reads_manifests(table.head.snapshot_id)
        if manifest.content == DATA
        for file in table.reads_entries(manifest)
        if file.is_live
    }


def _refuse_mixed(partitionings: set[tuple[tuple[str, str], ...]], icdc_tables: tuple[str | None, ...]) -> None:
    """Refuse partitions with different fields, which overlap: one without a field has rows of all its values.

    Of two fields with one name, bucket 3 of 4 and bucket 3 of 8 are not the same rows either.
    """
    names = " with ".join(name for name in icdc_tables if name is not None)
    if () in partitionings:
        raise InputError(
            f"{names} holds files that belong to no partition",
            consequence="Tasks for the other partitions would miss their rows",
            remedy="use another pattern, such as the range or the row filter, or partition the source",
        )
    if len(partitionings) > 1:
        raise InputError(
            f"{names} holds files of several partitionings: {_shown(partitionings)}",
            consequence="Partitions of the one overlap those of the other, and tasks would overwrite each other's rows",
            remedy="process this range as a whole: by another pattern, or by a full refresh in one task",
        )


def _shown(partitionings: set[tuple[tuple[str, str], ...]]) -> str:
    """The fields by name, and what they are of where the name does not tell them apart."""
    what = {
        name: {what for each in partitionings for other, what in each if other == name}
        for each in partitionings
        for name, _ in each
    }
    return "; ".join(
        ", ".join(name if len(what[name]) == 1 else f"{name} ({of})" for name, of in each)
        for each in sorted(partitionings)
    )


def _order(partition: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, bool, str], ...]:
    """By field and value: a mapped task that is cleared finds the same partition under its map index."""
    return tuple((name, value is not None, str(value)) for name, value in partition)


SEPARATOR: Final = "|"
"""What Airflow's mappers for composite keys expect between the values of several partition fields."""

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name that file systems give a partition of nulls; the text "null" may be a value."""


def written_partitions(table: IcebergSource, capture_id: str) -> set[str] | None:
    """The keys of the partitions to which a job's snapshots added files, or from which they removed files.

    None if the table has no snapshot that is stamped with the capture. Reads the manifest lists of stamped snapshots
    and the manifests that those wrote, no others and no data.
    """
    stamped = [s for s in ancestors(table, table.head) if s.summary.get(STAMP) == capture_id]
    if not stamped:
        return None
    written = {key for snapshot in stamped for key in _written_by(table, snapshot)}
    _refuse_namesakes(table, {spec_id for spec_id, _ in written})
    return {_event_key(table, spec_id, partition) for spec_id, partition in written}


def _refuse_namesakes(table: IcebergSource, spec_ids: set[int]) -> None:
    """Refuse fields with one name that are of different columns or by different transforms."""
    partitionings = {partitioning(table.metadata, spec_id) for spec_id in spec_ids}
    fields = {field for each in partitionings for field in each}
    if len({name for name, _ in fields}) < len(fields):
        raise InputError(
            f"{table.name} was written with several partitionings: {_shown(partitionings)}",
            consequence="A key of one would name a partition of the other, so no event was sent",
            remedy="rewrite the older files into the current partitioning (CALL rewrite_data_files with rewrite-all), "
            "rename the partition field, or leave partition_events out",
        )


def _written_by(table: IcebergSource, snapshot: SnapshotFacts) -> Iterator[tuple[int, Partition]]:
    for manifest in table.reads_manifests_written_by(snapshot.snapshot_id, {snapshot.snapshot_id}):
        for file in table.reads_entries(manifest):
            if file.snapshot_id == snapshot.snapshot_id:  # other entries were carried over from earlier snapshots
                yield file.spec_id, file.partition


def _event_key(table: IcebergSource, spec_id: int, partition: Partition) -> str:
    named = named_values(table.metadata, spec_id, partition)
    if not named:
        raise InputError(
            f"{table.name} was written without partitions",
            consequence="There is no partition that an event could name",
            remedy="partition the table, or leave partition_events out",
        )
    return SEPARATOR.join(_escaped(value) for _, value in named)


def _escaped(value: object) -> str:
    """A value without separators, so that a key can be split again."""
    if value is None:
        return NO_VALUE
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text.strip():  # Airflow refuses a key of nothing but space
        return "".join(f"%{byte:02X}" for byte in text.encode()) or "%00"
    return text.replace("%", "%25").replace(SEPARATOR, "%7C")
