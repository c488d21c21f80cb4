"""The JSON form of frozen dataclasses, derived from their annotations; reading is strict and names what is wrong.

A field is a key of the same name, in the order of the class. An annotation says what differs:

    class Range(JsonObject):
        source: Annotated[Source, Stored(inline=True)]        its keys are among those of the range
        to_inclusive: Annotated[Position, Stored("to")]       has another key
        newest_id: SnapshotId | None                          is a string: a browser's numbers lose its last digits
        kind: Kind                                            an enum, by its value
        mark: Annotated[str | None, Stored(omitted=True)] = None        has no key at its default

A key that is absent is an error, unless it was added later: a default would be a guess.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from functools import partial
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Self,
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

Part = TypeVar("Part")
Object = TypeVar("Object", bound="JsonObject")

PARSE_ERRORS: Final = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What the functions of this module, and parsers that use them, raise for a malformed document."""

_LIMIT: Final = 2**63
"""Iceberg's numbers are signed and have 64 bits."""

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 200


def explain(error: Exception) -> str:
    """Describe one of ``PARSE_ERRORS``, as a string that can be shown: a document may hold half a character."""
    described = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
    return described.encode(errors="backslashreplace").decode()


def is_whole_number(value: object, *, least: int) -> TypeGuard[int]:
    """Whether a value is a whole number of at least this much. True and False are numbers to Python, but not here."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def within(path: str, value: object, parse: Callable[[Any], Part]) -> Part:
    """Parse a part of a document, and prefix its errors with the path to it."""
    try:
        return parse(value)
    except PARSE_ERRORS as error:
        raise ValueError(f"{path}: {explain(error)}") from error


@dataclass(frozen=True, slots=True)
class Stored:
    """How a field is stored, where its name and type do not say it."""

    key: str = ""
    inline: bool = False
    """The keys of the value are among those of its owner; all of them are null for None."""

    later: bool = False
    """A document that was written before the field existed has its default."""

    omitted: bool = False
    """It has no key at its default."""

    then: Mapping[str, str] = field(default_factory=dict)
    """Keys after it that are only written, for readers of the JSON, and the properties that they show."""


class JsonObject:
    """A frozen dataclass that is an object in JSON."""

    __slots__ = ()

    schema_version: ClassVar[int | None] = None
    """The version that is written as a key and must be met when it is read; None for a part of another object."""

    def to_json(self) -> dict[str, Any]:
        """As :meth:`from_json` reads it."""
        return write_object(self)

    @classmethod
    def from_json(cls, raw: object) -> Self:
        """Parse what :meth:`to_json` wrote. Raises one of ``PARSE_ERRORS`` with the path to what is wrong."""
        return read_object(cls, raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptObject(JsonObject):
    """A part of a document that is read, changed and written again."""

    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Fields of a later release: kept, so that an older worker does not lose them."""


def write_object(part: JsonObject) -> dict[str, Any]:
    """Write all fields, in their order."""
    written: dict[str, Any] = dict(part.extra) if isinstance(part, KeptObject) else {}
    if part.schema_version is not None:
        written["schema_version"] = part.schema_version
    for member in _members(type(part)).in_order:
        value = getattr(part, member.name)
        if member.stored.inline:
            written |= member.form.write(value) or dict.fromkeys(member.keys)
        elif not (member.stored.omitted and value == member.default()):
            written[member.keys[0]] = member.form.write(value)
        written |= {key: getattr(part, name) for key, name in member.stored.then.items()}
    return written


def read_object(kind: type[Object], raw: object) -> Object:
    """Read all fields, and refuse a schema version that is not that of the class."""
    if not isinstance(raw, Mapping):
        raise TypeError(f"{_repr.repr(raw)} is not an object")
    if kind.schema_version is not None:
        version = raw["schema_version"]
        if not is_whole_number(version, least=1) or version != kind.schema_version:
            raise ValueError(f"it has schema_version {_repr.repr(version)}, of another release of this package")
    members = _members(kind)
    values = {member.name: member.read(raw) for member in members.parts_first}
    if issubclass(kind, KeptObject):
        values["extra"] = {key: value for key, value in raw.items() if key not in members.keys}
    return kind(**values)


class Form(NamedTuple):
    """How values of one type are written and read. ``read`` also gets the path, for its errors."""

    write: Callable[[Any], Any]
    read: Callable[[str, Any], Any]
    is_part: bool = False


class _Member(NamedTuple):
    name: str
    keys: tuple[str, ...]
    form: Form
    stored: Stored
    default: Callable[[], Any]

    def read(self, raw: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the field's type
        if self.stored.inline:
            return self.form.read("", {key: raw[key] for key in self.keys})
        if (self.stored.later or self.stored.omitted) and self.keys[0] not in raw:
            return self.default()
        return self.form.read(self.keys[0], raw[self.keys[0]])


class _Members(NamedTuple):
    in_order: tuple[_Member, ...]
    parts_first: tuple[_Member, ...]
    keys: frozenset[str]
    """All that an object may have; any other key is of a later release."""


_known: Final[dict[type, _Members]] = {}
"""Of every class of which an object was written or read: a long checkpoint has tens of thousands of objects."""


def _members(kind: type[Any]) -> _Members:
    if kind not in _known:
        hints = get_type_hints(kind, include_extras=True)
        found = tuple(_member(each, hints[each.name]) for each in fields(kind) if each.name != "extra")
        keys = {key for member in found for key in (*member.keys, *member.stored.then)}
        parts_first = sorted(found, key=lambda member: not member.form.is_part)
        _known[kind] = _Members(found, tuple(parts_first), frozenset(keys | {"schema_version"}))
    return _known[kind]


def _member(declared: Field[Any], hint: Any) -> _Member:  # noqa: ANN401 - an annotation
    stored = next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Stored)), Stored())
    keys: tuple[str, ...] = (stored.key or declared.name,)
    form = _form(hint)
    if stored.inline:
        kinds = get_args(hint.__origin__) or (hint.__origin__,)
        keys = tuple(key for member in _members(kinds[0]).in_order for key in member.keys)
        if NoneType in kinds:
            form = Form(form.write, partial(_read_inlined, form))
    factory = declared.default_factory
    return _Member(declared.name, keys, form, stored, (lambda: declared.default) if factory is MISSING else factory)


def _read_inlined(form: Form, where: str, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the field's type
    return None if all(value is None for value in values.values()) else form.read(where, values)


def _form(hint: Any) -> Form:  # noqa: ANN401 - an annotation
    """Choose the form of a type; a type without one is an error of the class, not of a document."""
    if hasattr(hint, "__metadata__"):
        return next((part for part in hint.__metadata__ if isinstance(part, Form)), None) or _form(hint.__origin__)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if (origin := get_origin(hint)) is not None:
        return _composed(origin, get_args(hint))
    if issubclass(hint, Enum):
        return Form(lambda value: value.value, lambda _, value: hint(value))
    return Form(lambda value: value.to_json(), partial(_read_part, hint.from_json), is_part=True)


def _composed(origin: Any, parts: tuple[Any, ...]) -> Form:  # noqa: ANN401 - an annotation
    if origin is tuple:
        return _list_of(_form(parts[0]), None if parts[-1] is Ellipsis else len(parts))
    if origin is Mapping:
        return _counts_by(parts[0])
    (form,) = (_form(part) for part in parts if part is not NoneType)
    return Form(
        lambda value: None if value is None else form.write(value),
        lambda where, value: None if value is None else form.read(where, value),
    )


def _read_part(parse: Callable[[Any], Any], where: str, value: object) -> Any:  # noqa: ANN401 - of the field's type
    return within(where, value, parse) if where else parse(value)


def _list_of(form: Form, length: int | None) -> Form:
    def read(where: str, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or length not in (None, len(value)):
            raise _wrong(where, value, "a list" if length is None else f"a list of {length}")
        return tuple(form.read(f"{where}[{index}]", entry) for index, entry in enumerate(value))

    return Form(lambda value: [form.write(entry) for entry in value], read)


def _counts_by(kinds: type[Enum]) -> Form:
    """The form of a number for each member of an enum."""

    def read(raw: Mapping[str, Any]) -> dict[Enum, int]:
        return {kind: _read_number(kind.value, raw[kind.value]) for kind in kinds}

    return Form(lambda counts: {kind.value: counts[kind] for kind in kinds}, partial(_read_part, read))


def _wrong(where: str, value: object, wanted: str) -> TypeError:
    return TypeError(f"{where} is {_repr.repr(value)}, not {wanted}")


def _read_words(where: str, value: object) -> str:
    """Refuse lone surrogates, too: such a string can be in JSON, and cannot be stored, shown or hashed."""
    if not isinstance(value, str):
        raise _wrong(where, value, "a string")
    value.encode()
    return value


def _read_text(where: str, value: object) -> str:
    if value == "":
        raise _wrong(where, value, "a string")
    return _read_words(where, value)


def _read_number(where: str, value: object, *, least: int = 0) -> int:
    if not is_whole_number(value, least=least) or value >= _LIMIT:
        raise _wrong(where, value, "a whole number")
    return value


def _read_flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{where} is {_repr.repr(value)}, neither true nor false")
    return value


def _read_id(where: str, value: Any) -> int:  # noqa: ANN401 - JSON
    is_id = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(_LIMIT))
    if not is_id or int(value) >= _LIMIT:
        raise _wrong(where, value, "a snapshot id as a string of digits")
    return int(value)


def _read_scalar(where: str, value: object) -> Any:  # noqa: ANN401 - of a column's type
    if isinstance(value, str):
        return _read_words(where, value)
    if value is not None and not isinstance(value, int | float):
        raise _wrong(where, value, "a string or a number")
    return value


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 - JSON
    return value


Words = Annotated[str, Form(_as_it_is, _read_words)]
"""A string that may be empty; a plain ``str`` may not."""

SnapshotId = Annotated[int, Form(str, _read_id)]
"""A string of digits in JSON: a browser's numbers lose the last digits of an id."""

MapIndex = Annotated[int, Form(_as_it_is, partial(_read_number, least=-1))]

_SIMPLE: Final[Mapping[Any, Form]] = {
    str: Form(_as_it_is, _read_text),
    int: Form(_as_it_is, _read_number),
    bool: Form(_as_it_is, _read_flag),
    Any: Form(_as_it_is, _read_scalar),
}
