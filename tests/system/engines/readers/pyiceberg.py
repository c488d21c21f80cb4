"""PyIceberg, by its own scan."""

from __future__ import annotations

from typing import Any

import pyiceberg
from pyiceberg.table import StaticTable

from tests.system.engines.protocol import LINEAGE, serve


def condition(question: dict[str, Any]) -> str:
    """As PyIceberg parses it."""
    where = question["where"]
    return (
        f"{where[0]} {where[1]} '{where[2]}'" if where and where[0] == "day" else " ".join(map(str, where or ["true"]))
    )


def answer(question: dict[str, Any]) -> Any:
    """By its count where that is the question, else by its rows."""
    table = StaticTable.from_metadata(question["table"]["metadata"])
    scan = table.scan() if not question["where"] else table.scan(row_filter=condition(question))
    if question["ask"] == "count":
        return [[scan.count()]]
    wanted = [*question["columns"], *(LINEAGE if question["ask"] == "lineage" else ())]
    rows = scan.select(*wanted).to_arrow().to_pylist()
    if question["ask"] == "bounds":
        values = [[row[column] for row in rows] for column in wanted]
        return [[bound(each) if each else None for each in values for bound in (min, max)]]
    return [[row[column] for column in wanted] for row in rows]


if __name__ == "__main__":
    serve(pyiceberg.__version__, answer)
