"""Reading a JSON document piece by piece, with errors that carry the path to what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

Part = TypeVar("Part")

PARSE_ERRORS: Final = (KeyError, TypeError, ValueError, AttributeError)
"""What a parser may raise on a document that is not what it expects."""


def explain(error: Exception) -> str:
    """Put a parse error in words."""
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def text_of(raw: Mapping[str, Any], key: str) -> str:
    """Take a text that is not empty."""
    value = raw[key]
    if not isinstance(value, str) or not value:
        raise TypeError(f"{key} is {value!r}, not a text")
    return value


def number_of(raw: Mapping[str, Any], key: str) -> int:
    """Take a whole number from zero on. Python counts booleans as numbers; a document must not."""
    value = raw[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{key} is {value!r}, not a whole number")
    return value


def texts_of(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Take a list of texts."""
    value = raw[key]
    if not isinstance(value, list) or any(not isinstance(entry, str) for entry in value):
        raise TypeError(f"{key} is {value!r}, not a list of texts")
    return tuple(value)


def one_of(raw: Mapping[str, Any], key: str, parse: Callable[[Mapping[str, Any]], Part]) -> Part:
    """Take an object and parse it."""
    value = raw[key]
    if not isinstance(value, Mapping):
        raise TypeError(f"{key} is {value!r}, not an object")
    return within(key, value, parse)


def many_of(raw: Mapping[str, Any], key: str, parse: Callable[[Mapping[str, Any]], Part]) -> tuple[Part, ...]:
    """Take a list of objects and parse each."""
    value = raw[key]
    if not isinstance(value, list):
        raise TypeError(f"{key} is {value!r}, not a list")
    return tuple(within(f"{key}[{index}]", entry, parse) for index, entry in enumerate(value))


def within(path: str, value: Any, parse: Callable[[Mapping[str, Any]], Part]) -> Part:  # noqa: ANN401 - JSON
    """Parse one part, and put its place before whatever is wrong in it."""
    try:
        return parse(value)
    except PARSE_ERRORS as error:
        raise ValueError(f"{path}: {explain(error)}") from error
