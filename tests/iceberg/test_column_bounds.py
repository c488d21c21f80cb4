"""Bounds of columns whose files hold NaN or NULL, which lie beyond all bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_ips.core.record import ColumnRange
from airflow_provider_ips.iceberg import capture
from tests.kit.local_tables import new_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("ratio", pa.float32()), ("price", pa.float64())])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog of its own."""
    return new_catalog(tmp_path)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """An empty table with columns of floating point."""
    return catalog.create_table("db.prices", schema=SCHEMA)


def prices(*values: tuple[int | None, float | None, float | None]) -> pa.Table:
    """Rows of the table."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in values], schema=SCHEMA)


@pytest.mark.parametrize("column", ["ratio", "price"])
@pytest.mark.parametrize("writer", ["append", "add_files"])
def test_bounds_are_unknown_where_files_do_not_say_whether_they_hold_nan(
    catalog: SqlCatalog, table: Table, tmp_path: Path, writer: str, column: str
) -> None:
    """PyIceberg counts no NaN: between the bounds 1.5 and 2.5 there are two rows of three."""
    written = prices((1, 1.5, 1.5), (2, math.nan, math.nan), (3, 2.5, 2.5))
    if writer == "append":
        table.append(written)
    else:
        pq.write_table(written, tmp_path / "bare.parquet")
        table.add_files([f"file://{tmp_path}/bare.parquet"])
    (found,) = capture(catalog, "db.prices", into="icdc.x", range_columns=[column]).ranges
    assert (found.known, found.lower, found.upper) == (False, None, None)
    assert found.reason == "1 of 1 captured files do not say whether they hold NaN, which is beyond bounds"


@pytest.mark.parametrize(
    ("ids", "has_nulls"),
    [((1, 3), False), ((1, None), True)],
)
def test_a_range_says_whether_there_are_nulls_beyond_it(
    catalog: SqlCatalog, table: Table, ids: tuple[int | None, ...], *, has_nulls: bool
) -> None:
    """A job that reads between the bounds has to read rows without a value as well."""
    table.append(prices((5, 1.0, 1.0)))
    table.append(prices(*((each, 1.0, 1.0) for each in ids)))
    record = capture(catalog, "db.prices", into="icdc.x", range_columns=["id"])
    (found,) = record.ranges
    assert (found.known, found.lower, found.upper) == (True, 1, 5)
    assert found.has_nulls is has_nulls
    assert record.to_json()["ranges"][0]["nulls"] is has_nulls


def test_without_counts_it_is_unknown_whether_there_are_nulls(catalog: SqlCatalog, table: Table) -> None:
    """Unknown is not none. A record without the key reads as unknown, too."""
    with table.transaction() as change:
        change.set_properties({"write.metadata.metrics.default": "none"})
    table.append(prices((5, 1.0, 1.0)))
    (found,) = capture(catalog, "db.prices", into="icdc.x", range_columns=["id"]).ranges
    assert (found.known, found.has_nulls) == (False, None)
    written: dict[str, Any] = found.to_json()
    assert "nulls" not in written
    assert ColumnRange.from_json(written) == found
