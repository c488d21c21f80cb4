"""Damage to JSON, as a person, another program or an attacker does it: in one place of a valid document."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


NOT_NUMBERS: tuple[Any, ...] = (
    "1_0",
    " 10",
    "10 ",
    "\u0661\u0660",
    "+5",
    "-5",
    "0x1",
    "1e3",
    1e3,
    1e300,
    float("nan"),
    float("inf"),
    True,
)
ODD: tuple[Any, ...] = (
    *NOT_NUMBERS,
    None,
    "",
    -1,
    10,
    2**63,
    10**40,
    253_402_300_800_000,
    "\ud800",
    "\x00",
    [],
    {},
    nested(900),
    "***",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in parts for place in ((*path, key), *places(part, (*path, key)))]


def part_at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    result = copy.deepcopy(document)
    part_at(result, path[:-1])[path[-1]] = value
    return result


def without(document: Any, path: tuple[Any, ...]) -> Any:
    result = copy.deepcopy(document)
    del part_at(result, path[:-1])[path[-1]]
    return result


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """One or two places are missing, or hold something else."""
    for _ in range(draw(st.integers(1, 2))):
        if not (found := places(document)):
            return document
        path = draw(st.sampled_from(found))
        value = draw(st.sampled_from((*ODD, without)))
        document = without(document, path) if value is without else changed(document, path, value)
    return document
