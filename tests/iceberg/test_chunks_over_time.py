"""What a chunk takes of a table that changed since its plan: all live rows of its values, or an error; never less."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform, IdentityTransform, MonthTransform

from airflow_provider_ips.core.backfill.chunks import Chunk, ChunkLimits, Unit, cut_into_chunks
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.requests.request import RunKind, RunRequest
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.iceberg.partitions.backfill_units import units_of
from airflow_provider_ips.iceberg.partitions.narrowing import narrow_to_chunk
from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource
from tests.iceberg.filtered_tables import data_file
from tests.iceberg.test_backfill_units import chunk_of
from tests.kit.local_tables import SCHEMA, new_catalog, new_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table

    from airflow_provider_ips.core.history.files import FileFacts
    from airflow_provider_ips.core.history.selections import CapturePlan

Row = tuple[int, int | None, str | None]


def add(table: Table, *rows: Row) -> None:
    """Commit rows of (id, day of October, note)."""
    table.refresh()
    days = [None if day is None else date(2026, 10, day) for _, day, _ in rows]
    table.append(pa.table({"id": [r[0] for r in rows], "day": days, "note": [r[2] for r in rows]}, schema=SCHEMA))


def rewrite(table: Table, condition: str) -> None:
    """Write rows again, unchanged, under the newest partition spec."""
    table.refresh()
    table.overwrite(table.scan(condition).to_arrow(), condition)


def replace_by_month(table: Table, condition: str, number: int) -> None:
    """Rewrite the files of some days into one by the month, whose entry alone is there."""
    table.refresh().delete(condition)
    evolve(table, ("day", MonthTransform()), without=table.spec().fields[0].name)
    put(table, number, (2026 - 1970) * 12 + 9)


def put(table: Table, number: int, *partition: Any) -> None:
    """Add the entry of a file with so many rows, which no test opens."""
    with table.refresh().transaction() as tx, tx.update_snapshot().fast_append() as update:
        path = f"{table.location()}/data/{number}.parquet"
        update.append_data_file(data_file(path, partition, number, table.spec().spec_id))


def partitioned(folder: Path, *fields: tuple[str, Any]) -> Table:
    """A table with three rows of three days, in Germany."""
    table = new_table(new_catalog(folder))
    evolve(table, *fields)
    add(table, (1, 1, "DE"), (2, 2, "DE"), (3, 3, "DE"))
    return table


def evolve(table: Table, *fields: tuple[str, Any], without: str | None = None) -> None:
    """Change how new files are partitioned."""
    with table.refresh().update_spec() as spec:
        if without is not None:
            spec.remove_field(without)
        for column, transform in fields:
            spec.add_field(column, transform, f"{column}_{len(table.specs())}_{transform}".split("[")[0])


def opened(table: Table) -> tuple[IcebergSource, CapturePlan]:
    """The table as it is now, whole."""
    source = IcebergSource(table.refresh(), "db.t", "main")
    return source, plan_capture(source, committed=None, settings=CaptureSettings())


def planned(table: Table, column: str = "day", bounds: ChunkLimits | None = None) -> list[Chunk]:
    """The chunks that the table is cut into now."""
    source, plan = opened(table)
    groups: list[tuple[Unit, ...]] = cut_into_chunks(units_of(source, plan, column), bounds or ChunkLimits())
    return [replace(chunk_of(source, group, column), volume=Volume.total(u.volume for u in group)) for group in groups]


def files(table: Table, chunk: Chunk) -> list[FileFacts]:
    """What a chunk takes of the table as it is now."""
    source, plan = opened(table)
    narrowed = narrow_to_chunk(source, plan, chunk)
    return list(_taken(source, narrowed))


def _taken(source: IcebergSource, plan: CapturePlan) -> Iterator[FileFacts]:
    for selection in plan.selections:
        yield from source.reads_selected(selection)


def records(table: Table, chunk: Chunk) -> int:
    """How many rows that are."""
    return sum(file.records for file in files(table, chunk))


IDENTITY: Any = IdentityTransform()
BY_DAY = ("day", IDENTITY)
BY_NOTE = ("note", IDENTITY)


def test_rows_in_a_new_partition_of_a_planned_day_are_taken(tmp_path: Path) -> None:
    """A live run has put them into the target, and a job that replaces the day would take them out again."""
    table = partitioned(tmp_path, BY_DAY, BY_NOTE)
    chunks = planned(table)

    add(table, (10, 1, "AT"), (40, 4, "AT"))

    assert [records(table, chunk) for chunk in chunks] == [2, 1, 1]


def test_files_rewritten_into_another_partition_spec_are_taken(tmp_path: Path) -> None:
    """A whole rewrite would otherwise leave every chunk empty: skipped, and green."""
    table = partitioned(tmp_path, BY_DAY)
    chunks = planned(table)

    evolve(table, BY_NOTE)
    rewrite(table, "day <= '2026-10-02'")

    assert [records(table, chunk) for chunk in chunks] == [1, 1, 1]
    assert [file.spec_id for file in files(table, chunks[0])] == [table.spec().spec_id]


def test_rows_without_a_value_are_a_value_of_their_own(tmp_path: Path) -> None:
    table = partitioned(tmp_path, BY_DAY, BY_NOTE)
    add(table, (5, None, "DE"))
    chunks = planned(table)

    add(table, (6, None, "AT"))

    assert [records(table, chunk) for chunk in chunks] == [2, 1, 1, 1]


def test_values_between_those_of_a_chunk_are_not_its(tmp_path: Path) -> None:
    """A day that came into being since is the live runs' business, also between two days of one chunk."""
    table = partitioned(tmp_path, BY_DAY)
    add(table, (9, 9, "DE"))
    (chunk,) = planned(table, bounds=ChunkLimits(max_units=9))

    add(table, (5, 5, "DE"))

    assert records(table, chunk) == 4


def test_files_that_hold_other_values_too_are_an_error(tmp_path: Path) -> None:
    """By the month they reach into other chunks."""
    table = partitioned(tmp_path, BY_DAY)
    chunks = planned(table)

    replace_by_month(table, "day <= '2026-10-02'", 2)

    for chunk in chunks:
        with pytest.raises(InputError, match=r"may hold rows of chunk 1 of 1 .* and of other values of 'day'") as error:
            files(table, chunk)
        assert "trigger the backfill again" in str(error.value)


def test_files_of_the_month_are_taken_by_a_chunk_that_has_all_of_it(tmp_path: Path) -> None:
    """Days in a row have nothing between them."""
    table = partitioned(tmp_path, BY_DAY)
    add(table, *[(day, day, "DE") for day in range(1, 32)])
    (chunk,) = planned(table, bounds=ChunkLimits(max_units=99))

    replace_by_month(table, "day <= '2026-10-30'", 33)

    assert records(table, chunk) == 34


def test_files_that_tell_nothing_about_the_column_are_an_error(tmp_path: Path) -> None:
    table = partitioned(tmp_path, BY_DAY, BY_NOTE)
    chunks = planned(table)

    evolve(table, without=table.spec().fields[0].name)
    add(table, (7, 1, "DE"))

    with pytest.raises(InputError, match="may hold rows of chunk 1 of 1"):
        files(table, chunks[0])


def test_of_what_cannot_be_told_apart_everything_is_taken(tmp_path: Path) -> None:
    """Buckets hold any value, so there was one chunk; rows in a bucket that was empty then are its as well."""
    table = new_table(new_catalog(tmp_path))
    evolve(table, ("id", BucketTransform(64)))
    put(table, 3, 17)
    (chunk,) = planned(table, "id")

    put(table, 10, 18)

    assert records(table, chunk) == 13


def test_a_chunk_whose_rows_are_all_deleted_says_so(tmp_path: Path) -> None:
    """Nothing is live that has its values, which is known and not guessed; the job is not run."""
    table = partitioned(tmp_path, BY_DAY)
    first = planned(table)[0]

    table.delete("day = '2026-10-01'")
    source, plan = opened(table)
    narrowed = narrow_to_chunk(source, plan, first)

    assert narrowed.is_empty
    assert "has counted 1 files of chunk 1 of 1" in narrowed.warnings[-1]


@pytest.mark.parametrize(("changes", "problem"), [({}, "now calls 'event_day'"), ({"filter": True}, "not a column")])
def test_a_column_that_was_renamed_is_an_error(tmp_path: Path, changes: dict[str, bool], problem: str) -> None:
    table = partitioned(tmp_path, BY_DAY)
    chunk = planned(table)[0]
    if changes:
        chunk = replace(chunk, request=RunRequest(kind=RunKind.PARTITIONS, partitions="day <= '2026-10-02'"))

    with table.update_schema() as update:
        update.rename_column("day", "event_day")

    with pytest.raises(InputError, match=problem):
        files(table, chunk)


def test_a_column_that_was_dropped_is_an_error(tmp_path: Path) -> None:
    table = partitioned(tmp_path, BY_DAY, BY_NOTE)
    chunk = planned(table)[0]

    evolve(table, without=table.spec().fields[0].name)
    with table.update_schema() as update:
        update.delete_column("day")

    with pytest.raises(InputError, match=r"which db\.t no longer has"):
        files(table, chunk)
