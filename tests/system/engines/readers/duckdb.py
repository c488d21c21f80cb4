"""DuckDB, within this process, with the extensions that are published as packages of Python."""

from __future__ import annotations

from importlib.metadata import files
from typing import Any

import duckdb

from tests.system.engines.protocol import serve, sql, way

CONNECTION = duckdb.connect()
for extension in ("avro", "iceberg"):
    (file,) = (f for f in files(f"duckdb-extension-{extension}") or () if f.suffix == ".duckdb_extension")
    CONNECTION.execute(f"LOAD '{file.locate()}'")


def answer(question: dict[str, Any]) -> Any:
    """One statement."""
    at = way(question, snapshot=", snapshot_from_id = {}")
    return CONNECTION.execute(sql(question, f"iceberg_scan('{question['table']['metadata']}'{at})")).fetchall()


serve(duckdb.__version__, answer, ways=("snapshot",))
