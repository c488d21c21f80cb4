"""Daft, by its read of a PyIceberg table and its SQL."""

from __future__ import annotations

from typing import Any

import daft
from pyiceberg.table import StaticTable

from tests.system.engines.protocol import serve, sql


def answer(question: dict[str, Any]) -> Any:
    """One statement."""
    at = question.get("way", {})
    table = StaticTable.from_metadata(question["table"]["metadata"])
    frame = daft.read_iceberg(table, snapshot_id=at.get("snapshot"), branch=at.get("branch"))
    columns = daft.sql(sql(question, "captured"), captured=frame).to_pydict()
    return list(zip(*columns.values(), strict=True))


serve(daft.__version__, answer, ways=("branch", "snapshot"))
