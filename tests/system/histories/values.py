"""Random values, and how each writer is told them."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.system.histories.ledger import Column

NULLS: Final = 0.15
FIRST_DAY: Final = date(2026, 1, 15)
STRINGS: Final = ("a", "ab", "b", "c")
PROMOTIONS: Final = {"int": "bigint", "float": "double", "decimal(9,2)": "decimal(18,2)"}
OPTIONAL_TYPES: Final = ("int", "bigint", "string", "float", "double", "decimal(9,2)", "date")


def random_value(rng: Random, type_name: str) -> Any:
    """A value that every engine gives back as it was, null now and then."""
    made: dict[str, Callable[[], Any]] = {
        "int": lambda: rng.randrange(4),
        "bigint": lambda: rng.randrange(4) + rng.choice((0, 5_000_000_000)),
        "string": lambda: rng.choice(STRINGS),
        "date": lambda: FIRST_DAY + timedelta(days=30 * rng.randrange(4)),
        "float": lambda: rng.randrange(8) / 2,
        "double": lambda: rng.randrange(8) / 2,
    }
    if rng.random() < NULLS:
        return None
    return made.get(type_name, lambda: Decimal(rng.randrange(400)).scaleb(-2))()


def sql_literal(value: Any, type_name: str) -> str:
    """A value in Spark's SQL."""
    if value is None:
        return f"cast(null as {type_name})"
    if isinstance(value, (str, date)):
        return f"cast('{value}' as {type_name})"
    return f"cast({value} as {type_name})"


def sql_rows(rows: list[list[Any]], columns: list[Column]) -> str:
    """Rows as ``select … union all select …``, each value with its column's name and type."""
    lines = (
        ", ".join(f"{sql_literal(v, c.type)} as {c.name}" for v, c in zip(row, columns, strict=True)) for row in rows
    )
    return " union all ".join(f"select {line}" for line in lines)
