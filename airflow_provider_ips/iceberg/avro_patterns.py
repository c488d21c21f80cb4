"""Patterns of Avro values for Python's regular expressions, which walk bytes in C.

A pattern only ever matches what walking byte by byte would pass over. What it does not match may be valid all the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airflow_provider_ips.iceberg.avro_skips import Names

# Possessive, for a number has one reading: where the rest does not match there is nothing to try again.
LONG: Final = rb"[\x80-\xff]*+[\x00-\x7f]"
_SHORT: Final = 64
"""Lengths below it are one byte."""
SHORT_STRING: Final = b"(?>" + b"|".join(re.escape(bytes([2 * n])) + b".{%d}" % n for n in range(_SHORT)) + b")"
SHORT_ARRAY: Final = 4
"""Arrays up to so many items are a pattern: split offsets and equality ids are mostly one or two."""

_FIXED: Final = {"null": b"", "boolean": b".", "float": b".{4}", "double": b".{8}", "int": LONG, "long": LONG}


def item_pattern(schema: Any, names: Names) -> bytes | None:  # noqa: ANN401 - Avro schemas are JSON
    """The pattern of one item of a map or an array."""
    if not isinstance(schema, dict):
        return None
    if schema["type"] == "map":
        value = pattern_of(schema["values"], names)
        return None if value is None else SHORT_STRING + value
    return pattern_of(schema["items"], names) if schema["type"] == "array" else None


def pattern_of(schema: Any, names: Names) -> bytes | None:  # noqa: ANN401, PLR0911 - one answer per Avro type
    """The pattern of a value; None where no pattern tells its end. What it does not match may still be valid."""
    schema = names.resolve(schema)
    if isinstance(schema, list):
        return _union_pattern(schema, names)
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, dict | list):
        return pattern_of(kind, names)
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in ("string", "bytes"):
        return SHORT_STRING
    if kind == "enum":
        return LONG
    if kind == "fixed":
        return b".{%d}" % schema["size"]
    if kind == "record":
        fields = [pattern_of(f["type"], names) for f in schema["fields"]]
        return None if None in fields else b"".join(f for f in fields if f is not None)
    return None


def _union_pattern(branches: list[Any], names: Names) -> bytes | None:
    options = [_short_array(branch, names) or pattern_of(branch, names) for branch in branches]
    if None in options or len(options) > _SHORT:
        return None
    tagged = [re.escape(bytes([2 * i])) + option for i, option in enumerate(options) if option is not None]
    return b"(?>" + b"|".join(tagged) + b")"


def _short_array(schema: Any, names: Names) -> bytes | None:  # noqa: ANN401 - Avro schemas are JSON
    """Lists of a few plain numbers; maps of statistics have an item per column and are walked by their number."""
    schema = names.resolve(schema)
    if not isinstance(schema, dict) or schema["type"] != "array" or not isinstance(schema["items"], str):
        return None
    item = pattern_of(schema["items"], names)
    if item is None:
        return None
    counted = [re.escape(bytes([2 * n])) + exactly(item, n) for n in range(SHORT_ARRAY + 1)]
    return b"(?>" + b"|".join(counted) + b")"


def exactly(item: bytes, count: int) -> bytes:
    """So many items and the end of the blocks. Without items, their number was the end."""
    return b"(?:%b){%d}+\\x00" % (item, count) if count else b""
