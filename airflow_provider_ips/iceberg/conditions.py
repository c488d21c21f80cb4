"""A condition on partition columns: read once, resolved against a table, then decided for many partitions.

Its columns are found in the table's schema, its values become values of theirs, and every ``not`` is taken inside, so
that a comparison with null is not met and never its opposite either, as in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.iceberg.values import EPOCH, EPOCH_DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField

EXAMPLE: Final = "day >= '2026-10-01' and country in ('DE', 'AT')"

_OPERATORS: Final[dict[type, str]] = {
    EqualTo: "=",
    NotEqualTo: "!=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "in",
    NotIn: "not in",
    IsNull: "is null",
    NotNull: "is not null",
    StartsWith: "like",
    NotStartsWith: "not like",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison of one column; its values are as Iceberg keeps them."""

    column: str
    field_id: int
    operator: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Each of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """At least one of the parts."""

    parts: tuple[Node, ...]


Node = Comparison | Every | Either


def parse_condition(text: str) -> BooleanExpression:
    """Read a condition, without any table: its columns are looked up later."""
    try:
        found = parse(text)
    except Exception as error:  # noqa: BLE001 - the parser raises its own kinds, and ValueError from within
        raise InputError(
            f"the filter {text!r} cannot be read: {str(error).splitlines()[0]}",
            consequence="It is not known which partitions are meant",
            remedy=f"write it as {EXAMPLE}; known are =, !=, <, <=, >, >=, between, in, like 'prefix%', is null, and, "
            "or, not",
        ) from None
    if isinstance(found, AlwaysTrue | AlwaysFalse):
        raise InputError(
            f"the filter {text!r} names no column",
            consequence="It would take everything, or nothing",
            remedy=f"name partition columns, as in {EXAMPLE}",
        )
    return rewrite_not(found)


def resolve(expression: BooleanExpression, schema: Schema, *, table: str) -> Node:
    """Find the columns of a condition, and make its values theirs."""
    if isinstance(expression, And | Or):
        parts = tuple(resolve(part, schema, table=table) for part in (expression.left, expression.right))
        return Every(parts=parts) if isinstance(expression, And) else Either(parts=parts)
    operator = _OPERATORS.get(type(expression))
    if operator is None:
        raise InputError(
            f"the filter has {expression}, which partitions cannot tell",
            consequence="It is not known which partitions are meant",
            remedy=f"write it as {EXAMPLE}",
        )
    name = str(expression.term.name)  # type: ignore[attr-defined]
    field = _field(schema, name, table)
    values = tuple(_value(name, field.field_type, raw) for raw in _literals(expression))
    return Comparison(column=name, field_id=field.field_id, operator=operator, values=values)


def comparisons_in(node: Node) -> Iterator[Comparison]:
    """Every comparison in it."""
    if isinstance(node, Comparison):
        yield node
        return
    for part in node.parts:
        yield from comparisons_in(part)


def _literals(expression: BooleanExpression) -> Iterator[Any]:
    found = getattr(expression, "literals", None)
    if found is None:
        found = [expression.literal] if hasattr(expression, "literal") else []
    yield from (literal.value for literal in found)


def _field(schema: Schema, name: str, table: str) -> NestedField:
    try:
        return schema.find_field(name)
    except ValueError:
        raise InputError(
            f"the filter names {name!r}, which is not a column of {table}",
            consequence="It is not known which partitions are meant",
            remedy=f"use a partition column; columns are {', '.join(schema.column_names[:40])}",
        ) from None


def _value(column: str, field_type: IcebergType, raw: Any) -> Any:  # noqa: ANN401 - of the column's type
    converter = next((convert for kinds, convert in _CONVERTERS if isinstance(field_type, kinds)), None)
    if converter is None:
        raise InputError(
            f"the filter compares {column!r}, which is a {field_type}",
            consequence="Engines do not agree on the order of such values, so it is not known which rows are meant",
            remedy="filter by a column of whole numbers, decimals, text, days or times",
        )
    value = converter(field_type, raw)
    if value is None:
        raise InputError(
            f"the filter compares {column!r}, which is a {field_type}, with {raw!r}",
            consequence="The two cannot be compared",
            remedy=_HINTS.get(type(field_type), f"give a value as a {field_type} has it"),
        )
    return value


def _number(_: IcebergType, raw: object) -> Any:  # noqa: ANN401 - int or Decimal, which compare
    return raw if isinstance(raw, int | Decimal) and not isinstance(raw, bool) else None


def _days(_: IcebergType, raw: object) -> int | None:
    try:
        return (date.fromisoformat(str(raw)) - EPOCH_DAY).days if isinstance(raw, str) else None
    except ValueError:
        return None


def _since_epoch(field_type: IcebergType, raw: object) -> int | None:
    """A day is its midnight. With a zone where the column has one, and without where it has none."""
    try:
        moment = datetime.fromisoformat(raw) if isinstance(raw, str) else None
    except ValueError:
        return None
    if moment is None:
        return None
    zoned = isinstance(field_type, TimestamptzType | TimestamptzNanoType)
    is_day = len(str(raw).strip()) == len("2026-10-01")
    if (moment.tzinfo is not None) != zoned and not (zoned and is_day):
        return None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return micros * 1000 if isinstance(field_type, TimestampNanoType | TimestamptzNanoType) else micros


def _as_is(kind: type) -> Callable[[IcebergType, object], Any]:
    return lambda _, raw: raw if isinstance(raw, kind) else None


_CONVERTERS: Final[tuple[tuple[Any, Callable[[IcebergType, object], Any]], ...]] = (
    (BooleanType, _as_is(bool)),
    (IntegerType | LongType | DecimalType, _number),
    (StringType, _as_is(str)),
    (DateType, _days),
    (TimestampType | TimestamptzType | TimestampNanoType | TimestamptzNanoType, _since_epoch),
)
_HINTS: Final[dict[type, str]] = {
    DateType: "write a day as '2026-10-01'",
    StringType: "put text between single quotes",
    TimestampType: "write a moment as '2026-10-01T00:00:00', without a zone",
    TimestampNanoType: "write a moment as '2026-10-01T00:00:00', without a zone",
    TimestamptzType: "write a moment with its zone, as '2026-10-01T00:00:00+00:00'",
    TimestamptzNanoType: "write a moment with its zone, as '2026-10-01T00:00:00+00:00'",
    IntegerType: "write numbers without quotes",
    LongType: "write numbers without quotes",
    DecimalType: "write numbers without quotes",
}
