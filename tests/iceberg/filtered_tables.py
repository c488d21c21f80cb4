"""Tables of many partitions and invented rows, and conditions with their meaning: row-level truth for filters.

Files are entries of manifests only: a filter decides without opening any, so there need not be one.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
    NestedField(3, "ts", TimestampType(), required=False),
    NestedField(4, "tz", TimestamptzType(), required=False),
    NestedField(5, "name", StringType(), required=False),
    NestedField(6, "amount", DecimalType(9, 2), required=False),
    NestedField(7, "flag", BooleanType(), required=False),
    NestedField(8, "other", LongType(), required=False),
)
DAY_ZERO, EPOCH = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


def _day(iso: str) -> int:
    return (date.fromisoformat(iso) - DAY_ZERO).days


def _micros(iso: str) -> int:
    return (datetime.fromisoformat(iso).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


MOMENTS = [
    "1969-12-30T07:00:00",
    "2026-09-30T23:59:59.999999",
    "2026-10-01T00:00:00",
    "2026-10-01T05:00:00",
    "2026-10-01T05:59:59.999999",
    "2026-10-02T00:00:00",
    "2027-01-01T00:00:00",
]
VALUES: dict[str, list[Any]] = {
    "id": [-21, -20, -1, 0, 5, 9, 10, 19, 20, 123],
    "day": [_day(m[:10]) for m in MOMENTS],
    "ts": [_micros(m) for m in MOMENTS],
    "tz": [_micros(m) for m in MOMENTS],
    "name": ["", "a", "ab", "abc", "abd", "b", "ba", "a'b", "ab\U0010ffff", "é"],
    "amount": [Decimal("-1.01"), Decimal("0.00"), Decimal("9.99"), Decimal("10.00"), Decimal("10.01")],
    "flag": [True, False],
    "other": [1, 2],
}
TEXTS: dict[str, Callable[[Any], str]] = {
    "id": str,
    "day": lambda v: f"'{DAY_ZERO + timedelta(days=v)}'",
    "ts": lambda v: f"'{(EPOCH + timedelta(microseconds=v)).replace(tzinfo=None).isoformat()}'",
    "tz": lambda v: f"'{(EPOCH + timedelta(microseconds=v)).isoformat()}'",
    "name": lambda v: "'" + v.replace("'", "''") + "'",
    "amount": lambda v: f"{v}",
    "flag": lambda v: str(v).lower(),
    "other": str,
}


@dataclass
class Filed:
    """A table, and the rows of each of its files."""

    table: Table
    files: dict[str, list[Row]]


def make(catalog: Catalog, name: str, *specs: Callable[[Any], Any], properties: dict[str, str]) -> Filed:
    """A table whose partitioning is evolved from spec to spec, with a few appends under each."""
    table = catalog.create_table(name, schema=SCHEMA, properties={"format-version": "2", **properties})
    filed = Filed(table=table, files={})
    chance = random.Random(7)  # noqa: S311 - a test's own, seeded
    for spec in specs:
        with table.update_spec() as update:
            spec(update)
        table.refresh()
        for _ in range(3):
            _append(filed, [_row(chance) for _ in range(25)])
    return filed


def _row(chance: random.Random) -> Row:
    return {name: None if chance.random() < 0.1 else chance.choice(values) for name, values in VALUES.items()}


def _append(filed: Filed, rows: list[Row]) -> None:
    table = filed.table
    spec = table.spec()
    parts: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        parts[tuple(_value(field, row) for field in spec.fields)].append(row)
    with table.transaction() as tx, tx.update_snapshot().fast_append() as update:
        for partition, of_it in parts.items():
            path = f"{table.location()}/data/{len(filed.files)}.parquet"
            filed.files[path] = of_it
            update.append_data_file(data_file(path, partition, len(of_it), spec.spec_id))
    table.refresh()


def _value(field: Any, row: Row) -> Any:
    source = SCHEMA.find_field(field.source_id)
    return field.transform.transform(source.field_type)(row[source.name])


def data_file(path: str, partition: tuple[Any, ...], records: int, spec_id: int) -> DataFile:
    """An entry of a file that need not be there."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=records,
        file_size_in_bytes=100,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=None,
        sort_order_id=None,
        equality_ids=None,
    )
    file.spec_id = spec_id
    return file


@dataclass(frozen=True)
class Condition:
    """A condition as a person writes it, and as SQL means it: True, False, or None where it compares with null."""

    text: str
    columns: frozenset[str]
    holds: Callable[[Row], bool | None]


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compared(column: str, operator: str, value: Any) -> Condition:
    def holds(row: Row) -> bool | None:
        return None if row[column] is None else _COMPARED[operator](row[column], value)

    return Condition(f"{column} {operator} {TEXTS[column](value)}", frozenset({column}), holds)


def _listed(column: str, values: list[Any], *, out: bool) -> Condition:
    def holds(row: Row) -> bool | None:
        return None if row[column] is None else (row[column] in values) is not out

    listed = ", ".join(TEXTS[column](value) for value in values)
    return Condition(f"{column} {'not in' if out else 'in'} ({listed})", frozenset({column}), holds)


def _between(column: str, low: Any, high: Any) -> Condition:
    def holds(row: Row) -> bool | None:
        return None if row[column] is None else low <= row[column] <= high

    return Condition(f"{column} between {TEXTS[column](low)} and {TEXTS[column](high)}", frozenset({column}), holds)


def _null(column: str, *, out: bool) -> Condition:
    text = f"{column} is {'not null' if out else 'null'}"
    return Condition(text, frozenset({column}), lambda row: (row[column] is None) is not out)


def _like(prefix: str, *, out: bool) -> Condition:
    def holds(row: Row) -> bool | None:
        return None if row["name"] is None else row["name"].startswith(prefix) is not out

    return Condition(f"name {'not like' if out else 'like'} '{prefix}%'", frozenset({"name"}), holds)


def _not(one: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        found = one.holds(row)
        return None if found is None else not found

    return Condition(f"not ({one.text})", one.columns, holds)


def _and(one: Condition, other: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        found = {one.holds(row), other.holds(row)}
        return False if False in found else (None if None in found else True)

    return Condition(f"({one.text}) and ({other.text})", one.columns | other.columns, holds)


def _or(one: Condition, other: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        found = {one.holds(row), other.holds(row)}
        return True if True in found else (None if None in found else False)

    return Condition(f"({one.text}) or ({other.text})", one.columns | other.columns, holds)


def conditions(*columns: str) -> st.SearchStrategy[Condition]:
    """Whatever can be said of these columns."""
    return st.recursive(
        st.one_of(*(_about(column) for column in columns)),
        lambda inner: st.one_of(st.builds(_and, inner, inner), st.builds(_or, inner, inner), st.builds(_not, inner)),
        max_leaves=4,
    )


def _about(column: str) -> st.SearchStrategy[Condition]:
    values = st.sampled_from(VALUES[column])
    kinds = [
        st.builds(_listed, st.just(column), st.lists(values, min_size=1, max_size=4), out=st.booleans()),
        st.builds(_null, st.just(column), out=st.booleans()),
        st.builds(_compared, st.just(column), st.sampled_from(sorted(_COMPARED)), values),
    ]
    if column != "flag":
        kinds.append(st.builds(_between, st.just(column), values, values))
    if column == "name":
        kinds.append(st.builds(_like, st.sampled_from(["a", "ab", "abc", "b"]), out=st.booleans()))
    return st.one_of(kinds)
