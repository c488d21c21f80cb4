"""What a backfill is cut into, held against the rows themselves: every file once, and no value in two parts."""

from __future__ import annotations

from datetime import date
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_ips.core.asked import Asked, Run
from airflow_provider_ips.core.backfill import Bounds, Chunk, Unit, grouped
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.plan import plan_capture
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.core.spans import Values
from airflow_provider_ips.iceberg import IcebergSource
from airflow_provider_ips.iceberg.narrowing import narrow, narrow_to_chunk
from airflow_provider_ips.iceberg.units import column_to_cut_by, units_of
from tests.iceberg.tables import append, new_catalog, new_table
from tests.iceberg.test_partition_filters import BLIND, LAYOUTS, filed, opened, selected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_ips.core.files import FileFacts
    from airflow_provider_ips.core.history import ManifestFacts
    from airflow_provider_ips.core.selection import CapturePlan

__all__ = ["filed", "opened"]  # the fixtures

COLUMNS = [(layout, column) for layout, (_, columns) in LAYOUTS.items() for column in columns]
WHOLE = {*((name, "day") for name in BLIND), ("buckets", "id"), ("buckets", "name")}
"""Of these only the whole table keeps a value together: some files say nothing about it, or only its bucket."""


def taken(source: IcebergSource, plan: CapturePlan, units: tuple[Unit, ...], column: str, **asked: Any) -> set[str]:
    """The files that a chunk of these units takes."""
    return selected(source, narrow_to_chunk(source, plan, chunk_of(source, units, column, **asked)))


def chunk_of(source: IcebergSource, units: tuple[Unit, ...], column: str, **asked: Any) -> Chunk:
    """A chunk as a plan makes it."""
    held = [unit.held for unit in units if unit.held is not None]
    field_id = source.metadata.schema().find_field(column).field_id
    return Chunk(
        number=1,
        of=1,
        label="",
        source=source.name,
        branch="main",
        asked=Asked(**asked) if asked else Asked(run=Run.FULL),
        values=Values.of(held, column=column, field_id=field_id),
        partitions=sum(unit.partitions for unit in units),
        files=None,
        records=None,
        size_bytes=None,
    )


@pytest.mark.parametrize(("layout", "column"), COLUMNS)
def test_chunks_hold_every_file_once_and_no_value_twice(layout: str, column: str, filed: Any, opened: Any) -> None:
    """Whatever the table is partitioned by, now or earlier, with manifests merged or not."""
    source, plan = opened[layout]
    files = filed[layout].files

    units = units_of(source, plan, column)
    parts = [taken(source, plan, group, column) for group in grouped(units, Bounds(max_units=2))]

    assert sorted(path for part in parts for path in part) == sorted(files)
    values = [{row[column] for path in part for row in files[path]} for part in parts]
    assert all(not one & two for one, two in combinations(values, 2))
    assert sum(unit.files or 0 for unit in units) == len(files)
    assert sum(unit.records or 0 for unit in units) == sum(map(len, files.values()))
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

    column = column_to_cut_by(source, condition, None)
    units = units_of(source, narrow(source, plan, condition), column)
    asked: dict[str, Any] = {"run": Run.PARTITIONS, "partitions": condition}
    parts = [taken(source, plan, (unit,), str(column), **asked) for unit in units]

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
    ("layout", "condition", "wished", "cut_by"),
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
def test_the_column_to_cut_by(layout: str, condition: str, wished: str, cut_by: str, opened: Any) -> None:
    """As wished; else days or moments, those that the filter compares first; else others. In the table's order."""
    assert column_to_cut_by(opened[layout][0], condition, wished) == cut_by


@pytest.mark.parametrize("wished", ["other", "nonsense"])
def test_a_column_that_does_not_divide_the_table_is_refused(wished: str, opened: Any) -> None:
    with pytest.raises(InputError, match=f"chunk_by='{wished}' is no partition column"):
        column_to_cut_by(opened["identities"][0], None, wished)
