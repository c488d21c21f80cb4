"""Polars, by its lazy scan of a metadata file."""

from __future__ import annotations

from datetime import date
from typing import Any

import polars as pl

from tests.system.engines.protocol import LINEAGE, serve

COMPARED = {"=": "__eq__", ">=": "__ge__"}


def answer(question: dict[str, Any]) -> Any:
    """One query."""
    at = question.get("way", {})
    start, end = at.get("range", (None, None))
    frame = pl.scan_iceberg(
        question["table"]["metadata"],
        snapshot_id=at.get("snapshot"),
        from_snapshot_id_exclusive=start,
        to_snapshot_id_inclusive=end,
    )
    if question["where"]:
        column, operator, value = question["where"]
        wanted = date.fromisoformat(value) if column == "day" else value
        frame = frame.filter(getattr(pl.col(column), COMPARED[operator])(wanted))
    if question["ask"] == "count":
        return frame.select(pl.len()).collect().rows()
    columns = [*question["columns"], *(LINEAGE if question["ask"] == "lineage" else ())]
    if question["ask"] == "bounds":
        bounds = [e for c in columns for e in (pl.col(c).min().alias(f"{c}0"), pl.col(c).max().alias(f"{c}1"))]
        return frame.select(bounds).collect().rows()
    return frame.select(columns).collect().rows()


serve(pl.__version__, answer, ways=("snapshot", "range"))
