"""Daft, by its read of a PyIceberg table and its SQL."""

from __future__ import annotations

from typing import Any

import daft
from pyiceberg.table import StaticTable

from tests.system.engines.protocol import serve, sql


def answer(question: dict[str, Any]) -> Any:
    """One statement."""
    frame = daft.read_iceberg(StaticTable.from_metadata(question["table"]["metadata"]))
    columns = daft.sql(sql(question, "captured"), captured=frame).to_pydict()
    return list(zip(*columns.values(), strict=True))


serve(daft.__version__, answer)
