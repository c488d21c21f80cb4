r"""Where the fields of an Avro record are, found without decoding them.

Python's regular expressions walk bytes in C. A field whose own bytes give its length in one of few ways (numbers, fixed
lengths, short strings, records of those) is a pattern, and so are the items of a map once their number is known. What
no pattern matches (an array in many blocks, blocks with their size) is walked byte by byte. Both ways end at the same
place.

    \x04 de    a string of two bytes     matched by  \x04.{2}
    \x90\x4e   the number 5000           matched by  [\x80-\xff]*+[\x00-\x7f]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_ips.iceberg.avro.container import damaged
from airflow_provider_ips.iceberg.avro.skips import Names, Skip, read_long, skipper

_ALTERNATIVES: Final = 64
"""How many lengths of one field the pattern of a whole record has. Records with others are walked field by field."""
_PATTERNS: Final = 1024
"""How many lengths of one field have a pattern at all."""


@dataclass(frozen=True, slots=True)
class Part:
    """A field to walk: its schema, and whether its bytes or its start are wanted; ``is_long`` for long strings."""

    schema: Any
    wanted: bool = False
    marked: bool = False
    is_long: bool = False


class Walker:
    """Finds the wanted fields of records that follow each other.

    Lengths of long strings and numbers of items that were seen become alternatives of one pattern for the whole record,
    so that a record takes a single call. A record that does not match is walked field by field, and its lengths are
    added to the pattern.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        names = Names()
        self._steps = _steps_of(parts, names)
        self._marks = _marks_of(parts)
        self._match: Any = None
        self._misses = 0
        self._patience = 1

    def walk(self, count: int, data: bytes) -> Iterator[tuple[int, int, list[Any]]]:
        """Yield where each record of a block starts and ends, with the bytes and the places that are wanted of it."""
        at, size, marks = 0, len(data), self._marks
        if count > size:
            raise damaged()
        for _ in range(count):
            start = at
            matched = None if self._match is None else self._match(data, at)
            if matched is None:
                at, found = self._by_field(data, at)
            else:
                at, found = matched.end(), list(matched.groups())
                for place in marks:
                    found[place] = matched.start(place + 1)
            if at > size:
                raise damaged()
            yield start, at, found
        if at != size:
            raise damaged()

    def _by_field(self, data: bytes, at: int) -> tuple[int, list[Any]]:
        found: list[Any] = []
        try:
            for step in self._steps:
                at = step.walk(data, at, found)
        except IndexError as error:
            raise damaged() from error
        self._misses += 1
        if self._misses >= self._patience:
            self._learn()
        return at, found

    def _learn(self) -> None:
        """Compile what was seen so far, ever more rarely: compiling takes as long as walking a hundred records."""
        self._misses, self._patience = 0, self._patience * 2
        sources = [step.source() for step in self._steps]
        if None not in sources:
            self._match = re.compile(b"".join(s for s in sources if s is not None), re.DOTALL).match


def _marks_of(parts: Sequence[Part]) -> list[int]:
    marks, at = [], 0
    for part in parts:
        if part.marked:
            marks.append(at)
        at += part.marked + part.wanted
    return marks


def _steps_of(parts: Sequence[Part], names: Names) -> list[_Run | _Single]:
    """One step per map or long string, one per run of fields that are patterns."""
    steps: list[_Run | _Single] = []
    run: list[_Field] = []
    for part in parts:
        schema = names.resolve(part.schema)
        skip, pattern = skipper(schema, names), None if part.is_long else _pattern_of(schema, names)
        if pattern is not None:
            run.append(_Field(part, pattern, skip))
            continue
        if run:
            steps.append(_Run(run))
            run = []
        steps.append(_single(part, schema, skip, names))
    return [*steps, _Run(run)] if run else steps


@dataclass(frozen=True, slots=True)
class _Field:
    part: Part
    pattern: bytes
    skip: Skip


class _Run:
    """Fields whose pattern says where they end."""

    def __init__(self, fields: Sequence[_Field]) -> None:
        self._fields = fields
        self._source = b"".join(_grouped(f.part, f.pattern) for f in fields)
        self._match = re.compile(self._source, re.DOTALL).match
        self._marks = _marks_of([f.part for f in fields])

    def source(self) -> bytes | None:
        return self._source

    def walk(self, data: bytes, at: int, found: list[Any]) -> int:
        matched = self._match(data, at)
        if matched is not None:
            begin = len(found)
            found += matched.groups()
            for place in self._marks:
                found[begin + place] = matched.start(place + 1)
            return matched.end()
        for field_ in self._fields:
            end = field_.skip(data, at)
            _add(field_.part, data, at, end, found)
            at = end
        return at


class _Single:
    """A field that is walked on its own. The bytes that give its length or number of items are kept as alternatives."""

    def __init__(self, part: Part, skip: Skip) -> None:
        self._part = part
        self._skip = skip
        self._seen: dict[bytes, re.Pattern[bytes]] = {}

    def source(self) -> bytes | None:
        seen = list(self._seen.values())[:_ALTERNATIVES]  # a copy: manifests are walked several at a time
        return _grouped(self._part, b"(?>" + b"|".join(p.pattern for p in seen) + b")") if seen else None

    def walk(self, data: bytes, at: int, found: list[Any]) -> int:
        end = self._end(data, at)
        _add(self._part, data, at, end, found)
        return end

    def _end(self, data: bytes, at: int) -> int:
        return self._skip(data, at)


class _Counted(_Single):
    """A long string, a map or an array, or null: its length or number of items, then that many bytes or items."""

    def __init__(self, part: Part, skip: Skip, item: bytes | None, *, optional: bool) -> None:
        super().__init__(part, skip)
        self._item = item
        self._tag = 1 if optional else 0

    def _end(self, data: bytes, at: int) -> int:
        if self._tag and data[at] == 0:
            return self._seen_or_skipped(data, at, data[at : at + 1], b"")
        number, start = read_long(data, at + self._tag)
        if not 0 <= number <= len(data) - start:
            return self._skip(data, at)
        rest = b".{%d}" % number if self._item is None else _repeated(self._item, number)
        return self._seen_or_skipped(data, at, data[at:start], rest)

    def _seen_or_skipped(self, data: bytes, at: int, prefix: bytes, rest: bytes) -> int:
        known = self._seen.get(prefix)
        if known is None:
            if len(self._seen) >= _PATTERNS:
                return self._skip(data, at)
            known = self._seen[prefix] = re.compile(re.escape(prefix) + rest, re.DOTALL)
        matched = known.match(data, at)
        return self._skip(data, at) if matched is None else matched.end()


def _grouped(part: Part, pattern: bytes) -> bytes:
    return b"()" * part.marked + (b"(" + pattern + b")" if part.wanted else pattern)


def _add(part: Part, data: bytes, at: int, end: int, found: list[Any]) -> None:
    if part.marked:
        found.append(at)
    if part.wanted:
        found.append(data[at:end])


def _single(part: Part, schema: Any, skip: Skip, names: Names) -> _Single:  # noqa: ANN401 - Avro schemas are JSON
    optional = isinstance(schema, list) and len(schema) == 2 and schema[0] == "null"  # noqa: PLR2004 - null or it
    inner = names.resolve(schema[1]) if optional else schema
    if part.is_long and inner in ("string", "bytes"):
        return _Counted(part, skip, None, optional=optional)
    item = _item_pattern(inner, names)
    return _Single(part, skip) if item is None else _Counted(part, skip, item, optional=optional)


# Possessive, because a number can be read in one way only: if what follows does not match, nothing else is tried.
_LONG: Final = rb"[\x80-\xff]*+[\x00-\x7f]"
_SHORT: Final = 64
"""Shorter lengths are encoded in one byte."""
_SHORT_STRING: Final = b"(?>" + b"|".join(re.escape(bytes([2 * n])) + b".{%d}" % n for n in range(_SHORT)) + b")"
_SHORT_ARRAY: Final = 4
"""Arrays of up to so many items are a pattern: most split offsets and equality ids are one or two."""

_FIXED: Final = {"null": b"", "boolean": b".", "float": b".{4}", "double": b".{8}", "int": _LONG, "long": _LONG}


def _item_pattern(schema: Any, names: Names) -> bytes | None:  # noqa: ANN401 - Avro schemas are JSON
    """The pattern of one item of a map or an array."""
    if not isinstance(schema, dict):
        return None
    if schema["type"] == "map":
        value = _pattern_of(schema["values"], names)
        return None if value is None else _SHORT_STRING + value
    return _pattern_of(schema["items"], names) if schema["type"] == "array" else None


def _pattern_of(schema: Any, names: Names) -> bytes | None:  # noqa: ANN401, PLR0911 - one answer per Avro type
    """The pattern of a value; None if no pattern finds its end. A value that does not match may still be valid."""
    schema = names.resolve(schema)
    if isinstance(schema, list):
        return _union_pattern(schema, names)
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, dict | list):
        return _pattern_of(kind, names)
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in ("string", "bytes"):
        return _SHORT_STRING
    if kind == "enum":
        return _LONG
    if kind == "fixed":
        return b".{%d}" % schema["size"]
    if kind == "record":
        fields = [_pattern_of(f["type"], names) for f in schema["fields"]]
        return None if None in fields else b"".join(f for f in fields if f is not None)
    return None


def _union_pattern(branches: list[Any], names: Names) -> bytes | None:
    options = [_short_array(branch, names) or _pattern_of(branch, names) for branch in branches]
    if None in options or len(options) > _SHORT:
        return None
    tagged = [re.escape(bytes([2 * i])) + option for i, option in enumerate(options) if option is not None]
    return b"(?>" + b"|".join(tagged) + b")"


def _short_array(schema: Any, names: Names) -> bytes | None:  # noqa: ANN401 - Avro schemas are JSON
    """Arrays of a few plain values. Maps of statistics have an item per column: their number of items is looked up."""
    schema = names.resolve(schema)
    if not isinstance(schema, dict) or schema["type"] != "array" or not isinstance(schema["items"], str):
        return None
    item = _pattern_of(schema["items"], names)
    if item is None:
        return None
    counted = [re.escape(bytes([2 * n])) + _repeated(item, n) for n in range(_SHORT_ARRAY + 1)]
    return b"(?>" + b"|".join(counted) + b")"


def _repeated(item: bytes, count: int) -> bytes:
    """That number of items and the end of the blocks. Of no items, the number itself was the end."""
    return b"(?:%b){%d}+\\x00" % (item, count) if count else b""
