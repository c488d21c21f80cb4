"""DataFusion, by the table provider of pyiceberg-core (Iceberg's library in Rust)."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import datafusion
from pyiceberg.table import StaticTable
from pyiceberg_core.datafusion import IcebergDataFusionTable

from tests.system.engines.protocol import serve, sql


def answer(question: dict[str, Any]) -> Any:
    """One statement in a session of its own."""
    metadata = question["table"]["metadata"]
    session = datafusion.SessionContext()
    identifier = ["db", "t"]
    provider = IcebergDataFusionTable(
        identifier=identifier,
        metadata_location=metadata,
        file_io_properties=dict(StaticTable.from_metadata(metadata).io.properties),
    )
    session.register_table("t", provider)
    rows = session.sql(sql(question, "t")).collect()
    return [list(row.values()) for batch in rows for row in batch.to_pylist()]


serve(f"{datafusion.__version__} with pyiceberg-core {version('pyiceberg-core')}", answer)
