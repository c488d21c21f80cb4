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
    at, wanted_rows = question.get("way", {}), condition(question)
    scan: Any = table.scan(row_filter=wanted_rows, snapshot_id=at.get("snapshot"))
    if "branch" in at:
        scan = scan.use_ref(at["branch"])
    if "range" in at:
        start, end = at["range"]
        scan = table.incremental_append_scan(
            row_filter=wanted_rows, from_snapshot_id_exclusive=start, to_snapshot_id_inclusive=end
        )
    if question["ask"] == "count":
        return [[scan.to_arrow().num_rows if "range" in at else scan.count()]]
    wanted = [*question["columns"], *(LINEAGE if question["ask"] == "lineage" else ())]
    rows = scan.select(*wanted).to_arrow().to_pylist()
    if question["ask"] == "bounds":
        values = [[row[column] for row in rows] for column in wanted]
        return [[bound(each) if each else None for each in values for bound in (min, max)]]
    return [[row[column] for column in wanted] for row in rows]


if __name__ == "__main__":
    serve(pyiceberg.__version__, answer, ways=("branch", "snapshot", "range"))
