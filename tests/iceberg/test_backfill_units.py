"""What a backfill is cut into, held against the rows themselves: every file once, and no value in two parts."""

from __future__ import annotations

from datetime import date
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_ips.core.backfill.chunks import Chunk, ChunkLimits, Unit, cut_into_chunks
from airflow_provider_ips.core.backfill.column_values import ChunkValues
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.iceberg.partitions.backfill_units import chunk_column, units_of
from airflow_provider_ips.iceberg.partitions.narrowing import narrow, narrow_to_chunk
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from tests.iceberg.test_partition_filters import BLIND, LAYOUTS, filed, opened, selected
from tests.kit.local_tables import append, new_catalog, new_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_ips.core.history.files import FileFacts, ManifestFacts
    from airflow_provider_ips.core.history.selections import CapturePlan

__all__ = ["filed", "opened"]  # the fixtures

COLUMNS = [(layout, column) for layout, (_, columns) in LAYOUTS.items() for column in columns]
WHOLE = {*((name, "day") for name in BLIND), ("buckets", "id"), ("buckets", "name")}
"""Of these only the whole table keeps a value together: some files say nothing about it, or only its bucket."""


def taken(source: IcebergSource, plan: CapturePlan, units: tuple[Unit, ...], column: str, **requested: Any) -> set[str]:
    """The files that a chunk of these units takes."""
    return selected(source, narrow_to_chunk(source, plan, chunk_of(source, units, column, **requested)))


def chunk_of(source: IcebergSource, units: tuple[Unit, ...], column: str, **requested: Any) -> Chunk:
    """A chunk as a plan makes it."""
    held = [unit.values for unit in units if unit.values is not None]
    field_id = source.metadata.schema().find_field(column).field_id
    return Chunk(
        number=1,
        of=1,
        label="",
        source=Source(source.name),
        request=RunRequest(**requested) if requested else RunRequest(kind=RunKind.FULL),
        values=ChunkValues.of(held, column=column, field_id=field_id),
        partitions=sum(unit.partitions for unit in units),
        volume=Volume(files=None, records=None, size_bytes=None),
    )


@pytest.mark.parametrize(("layout", "column"), COLUMNS)
def test_chunks_hold_every_file_once_and_no_value_twice(layout: str, column: str, filed: Any, opened: Any) -> None:
    """Whatever the table is partitioned by, now or earlier, with manifests merged or not."""
    source, plan = opened[layout]
    files = filed[layout].files

    units = units_of(source, plan, column)
    parts = [taken(source, plan, group, column) for group in cut_into_chunks(units, ChunkLimits(max_units=2))]

    assert sorted(path for part in parts for path in part) == sorted(files)
    values = [{row[column] for path in part for row in files[path]} for part in parts]
    assert all(not one & two for one, two in combinations(values, 2))
    counted = Volume.total(unit.volume for unit in units)
    assert (counted.files, counted.records) == (len(files), sum(map(len, files.values())))
    real = [
        unit for unit in units if None not in {row[column] for row in files_rows(source, plan, unit, column, files)}
    ]
    assert len(real) <= 1 if (layout, column) in WHOLE else len(real) > 1


def files_rows(source: Any, plan: Any, unit: Unit, column: str, files: Any) -> list[Any]:
    return [row for path in taken(source, plan, (unit,), column) for row in files[path]]


@pytest.mark.parametrize(
    ("layout", "condition"),
    [
        ("identities", "day >= '2026-10-01' and name in ('a', 'ab', 'b')"),
        ("days", "ts >= '2026-10-01' or ts is null"),
        ("hours", "tz < '2026-10-02'"),
        ("months", "day >= '2026-01-01'"),
        ("truncated", "name like 'a%'"),
    ],
)
def test_chunks_of_a_filter_are_what_it_selects(layout: str, condition: str, opened: Any) -> None:
    """Nothing beside it, though a chunk's partitions may be found in manifests that hold others too."""
    source, plan = opened[layout]
    wanted = selected(source, narrow(source, plan, condition))

    column = chunk_column(source, condition, None)
    units = units_of(source, narrow(source, plan, condition), column)
    requested: dict[str, Any] = {"kind": RunKind.PARTITIONS, "partitions": condition}
    parts = [taken(source, plan, (unit,), str(column), **requested) for unit in units]

    assert sorted(path for part in parts for path in part) == sorted(wanted)
    assert len(units) > 1


class Watched(IcebergSource):
    """A source that notes which manifests are opened."""

    def reads_entries(self, manifest: ManifestFacts) -> Iterator[FileFacts]:
        self.opened = [*getattr(self, "opened", []), manifest.path]
        return super().reads_entries(manifest)


def test_manifests_beyond_a_chunk_stay_closed(tmp_path: Path) -> None:
    """A chunk of one day costs what the day's manifests cost, not what the table's do."""
    table = new_table(new_catalog(tmp_path))
    with table.update_spec() as update:
        update.add_identity("day")
    for day in (1, 2, 3):
        append(table, day, day=date(2026, 10, day))
    source = Watched(table.refresh(), "db.t", "main")
    plan = plan_capture(source, committed=None, settings=CaptureSettings())
    last = units_of(source, plan, "day")[-1]
    source.opened = []

    narrowed = narrow_to_chunk(source, plan, chunk_of(source, (last,), "day"))

    assert [s.manifest.path for s in narrowed.selections] == source.opened
    assert len(source.opened) == 1


@pytest.mark.parametrize(
    ("layout", "condition", "requested", "cut_by"),
    [
        ("identities", None, None, "day"),
        ("identities", "name = 'a'", None, "day"),
        ("identities", "name = 'a' and day > '2026-10-01'", None, "day"),
        ("months", "day > '2026-01-01'", None, "day"),
        ("months", "day > '2026-01-01' and ts > '2026-01-01'", None, "ts"),
        ("dropped", "day > '2026-01-01'", None, "day"),
        ("dropped", None, None, "name"),
        ("amounts", None, None, "amount"),
        ("amounts", "id = 1 or flag = true", None, "flag"),
        ("identities", "name = 'a'", "day", "day"),
        ("months", None, "day", "day"),
    ],
)
def test_the_column_to_cut_by(layout: str, condition: str, requested: str, cut_by: str, opened: Any) -> None:
    """The requested one; else dates and timestamps, first those that the filter compares; else others."""
    assert chunk_column(opened[layout][0], condition, requested) == cut_by


@pytest.mark.parametrize("requested", ["other", "nonsense"])
def test_a_column_that_does_not_divide_the_table_is_refused(requested: str, opened: Any) -> None:
    with pytest.raises(InputError, match=f"chunk_by='{requested}' is not a partition column"):
        chunk_column(opened["identities"][0], None, requested)
