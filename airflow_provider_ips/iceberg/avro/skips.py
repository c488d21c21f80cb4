"""Where a value of any Avro type ends, found byte by byte: slow, and right for everything that Avro allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_ips.core.errors import UnsupportedTableError

Skip = Callable[[bytes, int], int]

_CONTINUES: Final = 0x80
MAX_BITS: Final = 70
"""Ten bytes of seven bits hold any number of 64 bits."""
MAX_FIELDS: Final = 100_000
"""A type that is named in others can spell out more fields than there are atoms."""
_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Decode the number at a place; return it and where it ends."""
    byte = data[at]
    at += 1
    result, shift = byte & 0x7F, 7
    while byte & _CONTINUES:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if shift > MAX_BITS:
            raise IndexError(at)  # as reading beyond the end does: these bytes are not a number
    return (result >> 1) ^ -(result & 1), at


def decode_long(raw: bytes) -> int:
    """Decode bytes that are one number and nothing else."""
    if len(raw) == 1:
        byte = raw[0]
        return (byte >> 1) ^ -(byte & 1)
    return read_long(raw, 0)[0]


@dataclass(slots=True)
class Names:
    """The named types of a schema, which defines each of them once and then refers to it by name."""

    known: dict[str, Any] = field(default_factory=dict)
    resolved: int = 0

    def resolve(self, schema: Any) -> Any:  # noqa: ANN401 - Avro schemas are JSON
        """Return the type that a name refers to, and remember every type that defines a name."""
        self.resolved += 1
        if self.resolved > MAX_FIELDS:
            raise ValueError("the schema has too many fields")
        if isinstance(schema, str):
            return self.known.get(schema, schema)
        if isinstance(schema, dict) and schema.get("type") in ("record", "fixed", "enum"):
            self.known[schema["name"]] = schema
            if schema.get("namespace"):
                self.known[f"{schema['namespace']}.{schema['name']}"] = schema
        return schema


def skipper(schema: Any, names: Names) -> Skip:  # noqa: ANN401, PLR0911 - one answer per Avro type
    """Return the function that takes bytes and the place where a value starts, and returns where it ends."""
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
        consequence="It is not known where the fields after it start",
        remedy="rewrite the table's manifests with a current engine (CALL rewrite_manifests)",
    )


def _skip_long(data: bytes, at: int) -> int:
    return read_long(data, at)[1]


def _skip_bytes(data: bytes, at: int) -> int:
    length, at = read_long(data, at)
    if length < 0:
        raise IndexError(length)
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
    """Blocks of items until an empty one. After a negative number of items comes the size of the block in bytes.

    Items without bytes are refused: of those any number would fit.
    """

    def skip(data: bytes, at: int) -> int:
        count, at = read_long(data, at)
        while count:
            if count < 0:
                size, at = read_long(data, at)
                if size < -count:
                    raise IndexError(size)
                at += size
            else:
                for _ in range(count):
                    start, at = at, item(data, at)
                    if at <= start:
                        raise IndexError(count)
            count, at = read_long(data, at)
        return at

    return skip
