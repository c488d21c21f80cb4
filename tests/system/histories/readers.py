"""What Spark and PyIceberg read, as rows to compare with the ledger's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.kit.totals import totals_in_summary, totals_of_entries
from tests.system.histories.lake import CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.system.histories.ledger import Column, Row
    from tests.system.histories.world import World


class HistoryFailureError(Exception):
    """The package gave an answer that the ledger contradicts."""


def by_spark(world: World, table: str, columns: Sequence[Column], condition: str = "") -> Counter[tuple[Any, ...]]:
    """The rows of a table, or of a subquery, by columns that are asked for by name."""
    if table.startswith("icdc."):
        check_totals(world, table)
    names = ", ".join(c.name for c in columns)
    found = table if table.startswith("(") else f"{CATALOG}.{table}"
    return Counter(world.lake.sql(f"select {names} from {found} {condition}"))


def by_pyiceberg(world: World, table: str, columns: Sequence[Column], **scan: Any) -> Counter[tuple[Any, ...]]:
    """The same by the other engine."""
    names = [c.name for c in columns]
    rows = world.lake.catalog.load_table(table).scan(selected_fields=tuple(names), **scan).to_arrow().to_pylist()
    return Counter(tuple(row[name] for name in names) for row in rows)


def check_totals(world: World, table: str) -> None:
    """An ICDC table's summary says how much it lists: engines count by it, or know by it that they must not."""
    icdc = world.lake.catalog.load_table(table)
    said = totals_in_summary(icdc)
    if said != (listed := totals_of_entries(icdc)):
        raise HistoryFailureError(f"{table} lists {listed}, and its summary says {said}")


def as_read(rows: Iterable[Row], columns: Sequence[Column]) -> Counter[tuple[Any, ...]]:
    """What the ledger expects a reader to see."""
    return Counter(row.read(columns) for row in rows)


def compare(what: str, found: Counter[tuple[Any, ...]], expected: Counter[tuple[Any, ...]]) -> None:
    """Row by row; the message shows the rows that differ."""
    if found == expected:
        return
    too_many, missing = sorted((found - expected).elements(), key=repr), sorted((expected - found).elements(), key=repr)
    raise HistoryFailureError(f"{what}: not expected {too_many[:6]}, missing {missing[:6]}")


def check_source(world: World) -> None:
    """The table itself must be what the ledger says, or nothing that follows means anything."""
    expected = as_read(world.rows().values(), world.columns)
    compare("the ledger is wrong about the table", by_spark(world, world.name, world.columns), expected)
