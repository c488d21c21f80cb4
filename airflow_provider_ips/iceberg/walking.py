"""Where the fields of an Avro record lie, found without decoding them.

Python's regular expressions walk bytes in C. A field whose length its own bytes tell within few alternatives (numbers,
fixed lengths, short strings, records of those) is a pattern; so are the items of a map, once their number is read. What
no pattern matches (a long string, an array in many blocks, sizes written out) is walked byte by byte, and both ways end
at the same place: a pattern only ever matches what the slow way would walk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.iceberg.avro import damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Skip = Callable[[bytes, int], int]
    Step = Callable[[bytes, int, list[Any]], int]

# Possessive, for a number has one reading: where the rest does not match there is nothing to try again.
LONG: Final = rb"[\x80-\xff]*+[\x00-\x7f]"
_SHORT: Final = 64
"""Lengths below it are one byte."""
SHORT_STRING: Final = b"(?>" + b"|".join(re.escape(bytes([2 * n])) + b".{%d}" % n for n in range(_SHORT)) + b")"
SHORT_ARRAY: Final = 4
"""Arrays up to so many items are a pattern: split offsets and equality ids are mostly one or two."""

_CONTINUES: Final = 0x80
_NOT_ONE_BYTE_COUNT: Final = 0x81
_FIXED: Final = {"null": b"", "boolean": b".", "float": b".{4}", "double": b".{8}", "int": LONG, "long": LONG}
_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Give a number and where it ends."""
    byte = data[at]
    at += 1
    result, shift = byte & 0x7F, 7
    while byte & _CONTINUES:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        shift += 7
    return (result >> 1) ^ -(result & 1), at


def decode_long(raw: bytes) -> int:
    """Give a number that is all there is."""
    if len(raw) == 1:
        byte = raw[0]
        return (byte >> 1) ^ -(byte & 1)
    return read_long(raw, 0)[0]


@dataclass(frozen=True, slots=True)
class Part:
    """A field to walk: what it is, whether its bytes or the place before it are wanted, whether it is a long string."""

    schema: Any
    wanted: bool = False
    marked: bool = False
    is_long: bool = False


@dataclass(slots=True)
class Names:
    """Named types, which a schema spells out once and then calls by name."""

    known: dict[str, Any] = field(default_factory=dict)

    def resolve(self, schema: Any) -> Any:  # noqa: ANN401 - Avro schemas are JSON
        """Give what a name stands for, and remember what gets one."""
        if isinstance(schema, str):
            return self.known.get(schema, schema)
        if isinstance(schema, dict) and schema.get("type") in ("record", "fixed", "enum"):
            self.known[schema["name"]] = schema
            if schema.get("namespace"):
                self.known[f"{schema['namespace']}.{schema['name']}"] = schema
        return schema


def compile_steps(parts: Sequence[Part], names: Names) -> list[Step]:
    """One step per map or long string, one per run of fields that are patterns. Run all of them in order.

    A step takes the record's bytes, where it starts and a list to which it adds what is wanted; it gives where it ends.
    """
    steps: list[Step] = []
    run: list[tuple[Part, bytes, Skip]] = []
    for part in parts:
        schema = names.resolve(part.schema)
        skip, pattern = skipper(schema, names), None if part.is_long else pattern_of(schema, names)
        if part.marked:
            _close(run, steps)
            steps.append(_mark)
        if pattern is not None:
            run.append((part, pattern, skip))
            continue
        _close(run, steps)
        steps.append(_single(schema, skip, names, wanted=part.wanted))
    _close(run, steps)
    return steps


def walk_records(steps: Sequence[Step], count: int, data: bytes) -> Iterator[tuple[int, int, list[Any]]]:
    """Give where each record of a block starts and ends, and what is wanted of it."""
    at, size = 0, len(data)
    for _ in range(count):
        start = at
        found: list[Any] = []
        try:
            for step in steps:
                at = step(data, at, found)
        except IndexError as error:
            raise damaged() from error
        if at > size:
            raise damaged()
        yield start, at, found
    if at != size:
        raise damaged()


def _close(run: list[tuple[Part, bytes, Skip]], steps: list[Step]) -> None:
    if run:
        steps.append(_run(list(run)))
        run.clear()


def _mark(_data: bytes, at: int, found: list[Any]) -> int:
    found.append(at)
    return at


def _run(fields: list[tuple[Part, bytes, Skip]]) -> Step:
    source = b"".join(b"(" + pattern + b")" if part.wanted else pattern for part, pattern, _ in fields)
    match = re.compile(source, re.DOTALL).match

    def walk(data: bytes, at: int, found: list[Any]) -> int:
        matched = match(data, at)
        if matched is not None:
            found += matched.groups()
            return matched.end()
        for part, _, skip in fields:
            end = skip(data, at)
            if part.wanted:
                found.append(data[at:end])
            at = end
        return at

    return walk


def _single(schema: Any, skip: Skip, names: Names, *, wanted: bool) -> Step:  # noqa: ANN401 - Avro schemas are JSON
    walk = _items_walker(schema, skip, names) or skip

    def step(data: bytes, at: int, found: list[Any]) -> int:
        end = walk(data, at)
        if wanted:
            found.append(data[at:end])
        return end

    return step


def _items_walker(schema: Any, skip: Skip, names: Names) -> Skip | None:  # noqa: ANN401 - Avro schemas are JSON
    """Walk an optional map or array by the number of its items; None where its items are no pattern."""
    optional = isinstance(schema, list) and len(schema) == 2 and schema[0] == "null"  # noqa: PLR2004 - null or it
    inner = names.resolve(schema[1]) if optional else schema
    item = item_pattern(inner, names)
    if item is None:
        return None
    matchers: dict[int, Any] = {}
    tag = 1 if optional else 0

    def walk(data: bytes, at: int) -> int:
        if tag and data[at] == 0:
            return at + 1
        count, start = data[at + tag], at + tag + 1
        count, start = (count >> 1, start) if not count & _NOT_ONE_BYTE_COUNT else read_long(data, at + tag)
        if count < 0:
            return skip(data, at)
        match = matchers.get(count)
        if match is None:
            match = matchers[count] = re.compile(_exactly(item, count), re.DOTALL).match
        matched = match(data, start)
        return skip(data, at) if matched is None else int(matched.end())

    return walk


def _exactly(item: bytes, count: int) -> bytes:
    """So many items and the end of the blocks. Without items, their number was the end."""
    return b"(?:%b){%d}+\\x00" % (item, count) if count else b""


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
    counted = [re.escape(bytes([2 * n])) + _exactly(item, n) for n in range(SHORT_ARRAY + 1)]
    return b"(?>" + b"|".join(counted) + b")"


def skipper(schema: Any, names: Names) -> Skip:  # noqa: ANN401, PLR0911 - one answer per Avro type
    """Walk a value byte by byte: slow, and right for whatever Avro allows."""
    schema = names.resolve(schema)
    if isinstance(schema, list):
        return _union_skipper([skipper(branch, names) for branch in schema])
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, dict | list):
        return skipper(kind, names)
    if kind in _FIXED_BYTES:
        return _fixed_skipper(_FIXED_BYTES[kind])
    if kind in ("int", "long", "enum"):
        return _skip_long
    if kind in ("string", "bytes"):
        return _skip_bytes
    if kind == "fixed":
        return _fixed_skipper(schema["size"])
    if kind == "record":
        return _sequence_skipper([skipper(f["type"], names) for f in schema["fields"]])
    if kind == "array":
        return _blocks_skipper(skipper(schema["items"], names))
    if kind == "map":
        return _blocks_skipper(_sequence_skipper([_skip_bytes, skipper(schema["values"], names)]))
    raise UnsupportedTableError(
        f"a manifest has a field of Avro type {kind!r}",
        consequence="Where the fields behind it lie cannot be told",
        remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests)",
    )


def _skip_long(data: bytes, at: int) -> int:
    while data[at] & _CONTINUES:
        at += 1
    return at + 1


def _skip_bytes(data: bytes, at: int) -> int:
    length, at = read_long(data, at)
    if length < 0:
        raise IndexError(length)  # as reading behind the end does: the bytes are no record
    return at + length


def _fixed_skipper(size: int) -> Skip:
    return lambda _data, at: at + size


def _union_skipper(branches: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        branch, at = read_long(data, at)
        if branch < 0:
            raise IndexError(branch)
        return branches[branch](data, at)

    return skip


def _sequence_skipper(fields: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        for one in fields:
            at = one(data, at)
        return at

    return skip


def _blocks_skipper(item: Skip) -> Skip:
    """Blocks of items until one of none; a negative number says that the block's size follows."""

    def skip(data: bytes, at: int) -> int:
        count, at = read_long(data, at)
        while count:
            if count < 0:
                size, at = read_long(data, at)
                at += size
            else:
                for _ in range(count):
                    at = item(data, at)
            count, at = read_long(data, at)
        return at

    return skip
