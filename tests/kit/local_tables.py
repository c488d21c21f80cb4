"""A catalog on SQLite, and tables of numbers in it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pyarrow as pa

from scripts.local_spark import sqlite_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.date32()), pa.field("note", pa.string())])
DAY = date(2026, 10, 1)


def new_catalog(folder: Path, **properties: str) -> SqlCatalog:
    """An empty catalog with a namespace ``db``."""
    return sqlite_catalog(folder, namespaces=("db",), **properties)


def new_table(catalog: Catalog, name: str = "db.t", *, format_version: str = "2", **options: Any) -> Table:
    """An empty table."""
    properties = {"format-version": format_version, **options.pop("properties", {})}
    return catalog.create_table(name, schema=SCHEMA, properties=properties, **options)


def append(table: Table, *ids: int, day: date = DAY) -> int:
    """Commit rows as one snapshot and give its id."""
    table.refresh()
    table.append(rows_of(*ids, day=day))
    return head(table)


def rows_of(*ids: int, day: date = DAY) -> pa.Table:
    """Rows that are not in a table yet."""
    return pa.table({"id": ids, "day": [day] * len(ids), "note": [f"n{i}" for i in ids]}, schema=SCHEMA)


def head(table: Table) -> int:
    """The newest snapshot's id."""
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def rows(catalog: Catalog, name: str) -> list[int]:
    """The ids that PyIceberg reads."""
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def files_under(location: str) -> dict[str, int]:
    """Every file below a location, with its size."""
    root = Path(urlparse(location).path)
    return {str(p): p.stat().st_size for p in root.rglob("*") if p.is_file()}
