"""How a filter on partition columns is read: parsed from text, then resolved against the schema of a table.

Values are converted to the types of their columns. ``not`` is resolved into the comparisons, because null meets neither
a comparison nor its opposite, as in SQL:

    not (day < '2026-10-01' or country = 'DE')    becomes    day >= '2026-10-01' and country != 'DE'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyiceberg import expressions
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.types import BooleanType, DateType, DecimalType, IntegerType, LongType, StringType

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.iceberg.partitions.partition_fields import (
    EPOCH,
    EPOCH_DAY,
    IN_NANOSECONDS,
    TIMESTAMPS,
    WITH_ZONE,
    WITHOUT_ZONE,
)

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField


EXAMPLE: Final = "day >= '2026-10-01' and country in ('DE', 'AT')"

_OPERATORS: Final[dict[type, str]] = {
    expressions.EqualTo: "=",
    expressions.NotEqualTo: "!=",
    expressions.LessThan: "<",
    expressions.LessThanOrEqual: "<=",
    expressions.GreaterThan: ">",
    expressions.GreaterThanOrEqual: ">=",
    expressions.In: "in",
    expressions.NotIn: "not in",
    expressions.IsNull: "is null",
    expressions.NotNull: "is not null",
    expressions.StartsWith: "like",
    expressions.NotStartsWith: "not like",
}


_LITERAL: Final = re.compile(r"(?P<like>\blike\s*)?(?P<text>'(?:[^'\\]|''|\\.)*'|\"[^\"]*\")", re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of a column with values, which are as Iceberg stores them: a day is a number of days."""

    column: str
    field_id: int
    operator: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Conditions that must all be met; without parts, no condition at all."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """Conditions of which at least one must be met."""

    parts: tuple[Condition, ...]


Condition = Comparison | AllOf | AnyOf


def parse_filter(text: str) -> BooleanExpression:
    """Parse a filter, without a table: its columns are looked up later."""
    read = _LITERAL.sub(_without_wildcards, text)
    try:
        found = parse(read)
    except Exception as error:  # noqa: BLE001 - the parser raises its own errors, and ValueError
        raise InputError(
            f"the filter {text!r} cannot be read: {str(error).splitlines()[0]}",
            consequence="It is not known which partitions are meant",
            remedy=f"write it as in {EXAMPLE}; the operators are =, !=, <, <=, >, >=, between, in, like 'prefix%', "
            "is null, and, or, not",
        ) from None
    if isinstance(found, expressions.AlwaysTrue | expressions.AlwaysFalse):
        raise InputError(
            f"the filter {text!r} names no column",
            consequence="It would select everything, or nothing",
            remedy=f"name partition columns, as in {EXAMPLE}",
        )
    return rewrite_not(found)


def _without_wildcards(literal: re.Match[str]) -> str:
    r"""Refuse ``_`` in a pattern, which stands for any character in SQL; ``\_`` is the character itself."""
    if not literal["like"]:
        return literal[0]
    if "_" in _ESCAPED.sub("", literal["text"]):
        raise InputError(
            f"the filter has like {literal['text']}, and _ stands for any character there",
            consequence="Partitions can be selected by the beginning of a string only",
            remedy=r"write \_ if the character itself is meant, or several comparisons with =",
        )
    return literal[0].replace(r"\_", "_")


def resolve_filter(expression: BooleanExpression, schema: Schema, *, table: str) -> Condition:
    """Look up the columns of a filter, and convert its values to their types."""
    if isinstance(expression, expressions.And | expressions.Or):
        parts = tuple(resolve_filter(part, schema, table=table) for part in (expression.left, expression.right))
        return AllOf(parts=parts) if isinstance(expression, expressions.And) else AnyOf(parts=parts)
    operator = _OPERATORS.get(type(expression))
    if operator is None:
        raise InputError(
            f"the filter has {expression}, which cannot be decided by partitions",
            consequence="It is not known which partitions are meant",
            remedy=f"write it as in {EXAMPLE}",
        )
    name = str(expression.term.name)  # type: ignore[attr-defined]
    field = _field(schema, name, table)
    values = tuple(_value(name, field.field_type, raw) for raw in _literals(expression))
    return Comparison(column=name, field_id=field.field_id, operator=operator, values=values)


def comparisons_in(condition: Condition) -> Iterator[Comparison]:
    """Yield every comparison in a condition."""
    if isinstance(condition, Comparison):
        yield condition
        return
    for part in condition.parts:
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
            consequence="Engines order such values differently, so it is not known which rows are meant",
            remedy="filter by a column of whole numbers, decimals, text, dates or timestamps",
        )
    value = converter(field_type, raw)
    if value is None:
        raise InputError(
            f"the filter compares {column!r}, which is a {field_type}, with {raw!r}",
            consequence="The two cannot be compared",
            remedy=_HINTS.get(type(field_type), f"give a value of type {field_type}"),
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
    """Micro- or nanoseconds; a day is its midnight. A time needs a zone if the column has one, and only then."""
    try:
        moment = datetime.fromisoformat(raw) if isinstance(raw, str) else None
    except ValueError:
        return None
    if moment is None:
        return None
    zoned = isinstance(field_type, WITH_ZONE)
    is_day = len(str(raw).strip()) == len("2026-10-01")
    if (moment.tzinfo is not None) != zoned and not (zoned and is_day):
        return None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return micros * 1000 if isinstance(field_type, IN_NANOSECONDS) else micros


def _as_is(kind: type) -> Callable[[IcebergType, object], Any]:
    return lambda _, raw: raw if isinstance(raw, kind) else None


_CONVERTERS: Final[tuple[tuple[Any, Callable[[IcebergType, object], Any]], ...]] = (
    (BooleanType, _as_is(bool)),
    (IntegerType | LongType | DecimalType, _number),
    (StringType, _as_is(str)),
    (DateType, _days),
    (TIMESTAMPS, _since_epoch),
)
_HINTS: Final[dict[type, str]] = {
    DateType: "write a day as '2026-10-01'",
    StringType: "put text between single quotes",
    **dict.fromkeys(WITHOUT_ZONE, "write a moment as '2026-10-01T00:00:00', without a zone"),
    **dict.fromkeys(WITH_ZONE, "write a moment with its zone, as '2026-10-01T00:00:00+00:00'"),
    **dict.fromkeys((IntegerType, LongType, DecimalType), "write numbers without quotes"),
}
