"""The partitions that a capture took files of: what a DAG maps its tasks over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import VoidTransform

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.files import Content
from airflow_provider_ips.iceberg.partitions import shown_value
from airflow_provider_ips.iceberg.source import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.files import Partition
    from airflow_provider_ips.iceberg.source import IcebergSource


def captured_partitions(catalog: Catalog, *icdc_tables: str | None) -> list[dict[str, Any]]:
    """
    List the partitions of the captured files, each once and always in the same order, as names of fields with values.

    Reads the manifests of the ICDC tables and no data. Values are what JSON has: a date is ``"2026-10-01"``, a
    partition of nulls has None.

    :param icdc_tables: the names in a capture's record: ``icdc_table`` and, of a capture of changes, ``before_table``;
        None for one that is not there.
    """
    found: dict[tuple[tuple[str, Any], ...], None] = {}
    for name in icdc_tables:
        if name is not None:
            table = open_source(catalog, name)
            found.update(dict.fromkeys(_named(table, *place) for place in sorted(_places(table), key=repr)))
    _refuse_mixed({tuple(name for name, _ in partition) for partition in found}, icdc_tables)
    return [dict(partition) for partition in sorted(found, key=_order)]


def _places(table: IcebergSource) -> set[tuple[int, Partition]]:
    if table.head is None:
        return set()
    manifests = table.reads_manifests(table.head.snapshot_id)
    return {
        (entry.spec_id, entry.partition)
        for manifest in manifests
        for entry in table.reads_entries(manifest)
        if entry.is_live and entry.content is Content.DATA
    }


def _named(table: IcebergSource, spec_id: int, partition: Partition) -> tuple[tuple[str, Any], ...]:
    return tuple(_values(table, spec_id, partition))


def _values(table: IcebergSource, spec_id: int, partition: Partition) -> Iterator[tuple[str, Any]]:
    for field, value in zip(table.metadata.specs()[spec_id].fields, partition, strict=True):
        if not isinstance(field.transform, VoidTransform):
            yield field.name, None if value is None else shown_value(table.metadata, field, value)


def _refuse_mixed(fields: set[tuple[str, ...]], icdc_tables: tuple[str | None, ...]) -> None:
    """A partition without a field that others have stands for all values of it."""
    if () in fields:
        raise InputError(
            f"{_listed(icdc_tables)} holds files that belong to no partition",
            consequence="Tasks for the others would pass their rows over",
            remedy="use another pattern, such as the range or the row filter, or partition the source",
        )
    if len(fields) > 1:
        raise InputError(
            f"{_listed(icdc_tables)} holds files of several partitionings: "
            + "; ".join(", ".join(names) for names in sorted(fields)),
            consequence="Partitions of one overlap those of the other, and tasks would write over each other's work",
            remedy="process this range as a whole: by another pattern, or by a full refresh in one task",
        )


def _listed(icdc_tables: tuple[str | None, ...]) -> str:
    return " with ".join(name for name in icdc_tables if name is not None)


def _order(partition: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, bool, str], ...]:
    """Map indexes of a task that is cleared must mean the same partitions."""
    return tuple((name, value is not None, str(value)) for name, value in partition)
