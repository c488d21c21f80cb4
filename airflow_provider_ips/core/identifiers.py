"""How tables and sources are named, and the names that are derived from them.

Derived names (ICDC tables, XCom keys, Variable keys) are deterministic, so that a retry finds what the first attempt
made, and end in a hash, so that two different things never have the same name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Final, Self

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.json_fields import JsonObject, Stored

MAIN_BRANCH: Final = "main"

MAX_TABLE_NAME = 96
"""Below the limits of Hive (128), Glue (255) and the file systems that hold a folder of that name."""

NAME_DIGEST = 20
SHOWN_WHOLE = MAX_TABLE_NAME - NAME_DIGEST - 2
"""A name that shows fewer characters of a consumer than these shows all of it."""
MAX_VARIABLE_KEY = 250
"""Airflow's column for Variable keys."""

BRANCH_PREFIX: Final = "ips_"
HELD_UNTIL: Final = "ips.held-until-ms"
"""In the summary of a branch's capture, when its lease ends: from then on it may be removed though not committed."""

_PLACES_AFTER_MAIN: Final = (11, 15)
_BRANCH_NAME: Final = re.compile(rf"(?P<table>.+)\.branch_(?P<branch>{BRANCH_PREFIX}[a-z0-9_]+)")
_RANGE_NAME: Final = re.compile(r"(?P<table>.+)\.ips_range_(?:empty|(?:to|(?P<after>[0-9]+))_(?P<to>[0-9]+))")

XCOM_KEY_PATTERN = re.compile(r"[A-Za-z0-9_.\-]+")
_LEVEL = re.compile(r"[A-Za-z0-9_\-]+")
_UNREADABLE = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, order=True)
class TableIdentifier:
    """A table's namespace and name, as its catalog knows it."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read ``db.table`` or ``a.b.table``."""
        if not isinstance(text, str):
            raise InputError(
                f"source table {text!r} is a {type(text).__name__}, not a string",
                consequence="No table can be looked up by it",
                remedy='write it as "namespace.table", for example "db.playback"',
            )
        parts = tuple(text.split("."))
        if len(parts) < 2 or any(not part or part != part.strip() for part in parts):  # noqa: PLR2004 - namespace and name
            raise InputError(
                f"malformed table identifier {text!r}",
                consequence="A table needs a namespace and a name, without empty parts or surrounding spaces",
                remedy='write it as "namespace.table", such as "db.playback"; iceberg_conn_id names the catalog',
            )
        if bad := next((c for c in text if c in "`\"';\\/\n\r\t\0"), None):
            raise InputError(
                f"table identifier {text!r} contains {bad!r}",
                consequence="Quotes, slashes and control characters mean different things to different engines",
                remedy="write the bare name, without quoting",
            )
        return cls(parts)

    @property
    def namespace(self) -> tuple[str, ...]:
        """All but the last part."""
        return self.parts[:-1]

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]

    def __str__(self) -> str:
        return ".".join(self.parts)


def namespace_levels(option: str, namespace: str, *, consequence: str, example: str) -> tuple[str, ...]:
    """Split the name of a namespace of ours, and refuse one that some catalogs would read as another one."""
    levels = tuple(namespace.split("."))
    if all(_LEVEL.fullmatch(level) for level in levels):
        return levels
    raise InputError(
        f"{option} {namespace!r} is not a name that every catalog accepts",
        consequence=consequence,
        remedy=f'use letters, digits, "_" and "-", with dots between levels, for example "{example}"',
    )


@dataclass(frozen=True, slots=True, order=True)
class Source(JsonObject):
    """A table and the branch that is read: a consumer has one position in each source. Sorted by table, then branch."""

    table: Annotated[str, Stored("source")]
    branch: str = MAIN_BRANCH

    @classmethod
    def parse(cls, label: str) -> Self:
        """Read ``db.t`` or ``db.t@branch``."""
        table, _, branch = label.partition("@")
        return cls(table, branch or MAIN_BRANCH)

    @property
    def label(self) -> str:
        """``db.t``, or ``db.t@branch`` if the branch is not main: for messages and for derived names."""
        return self.table if self.branch == MAIN_BRANCH else self.full_label

    @property
    def full_label(self) -> str:
        """``db.t@main``, with the branch in any case: for names that are compared with each other."""
        return f"{self.table}@{self.branch}"

    @property
    def xcom_key(self) -> str:
        """``db.t``, or ``db.t.branch``, because an XCom key cannot contain ``@``."""
        return self.table if self.branch == MAIN_BRANCH else f"{self.table}.{self.branch}"

    def __str__(self) -> str:
        return self.label


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """Suggest the known name that a name may be a misspelling of, as the remedy of an error."""
    similar = get_close_matches(name, list(known), n=1)
    return f"did you mean {similar[0]!r}? If not, {otherwise}" if similar else otherwise


def digest(*parts: str, length: int = 16) -> str:
    """Hash parts so that ``("a", "bc")`` and ``("ab", "c")`` differ."""
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        state.update(len(raw).to_bytes(8, "big") + raw)
    return state.hexdigest()[:length]


def readable(text: str, *, limit: int) -> str:
    """Reduce a string to what every catalog accepts: lower case letters, digits and underscores, a letter first."""
    cleaned = _UNREADABLE.sub("_", text.lower()).strip("_")
    if not cleaned or not cleaned[0].isalpha():
        cleaned = f"t_{cleaned}".rstrip("_")
    return cleaned[:limit].rstrip("_")


def icdc_table_name(source: Source, capture_id: str, role: str = "") -> str:
    """Name the ICDC table of one source in one capture: readable first, unique by its hash."""
    suffix = "_" + digest(source.label, capture_id, role, length=20)
    prefix = f"{source.label}_{role}" if role else source.label
    return readable(prefix, limit=MAX_TABLE_NAME - len(suffix)) + suffix


def _after_main(stem: str) -> str:
    """Append two digits by which the name comes after ``main`` when Java iterates over a table's branches.

    Iceberg before 1.10 takes the first branch for main when an expiry finds that the others were removed meanwhile, and
    deletes live files if that is wrong. A hash map of 2, 4, 8, 16 … 128 places has ``main`` in 0, 2, 2, 10 … 10, and
    a name whose spread hash ends in 11 or 15 in a later one.
    """
    for number in range(256):
        hashed = 0
        for character in (name := f"{stem}{number:02x}"):
            hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
        if (hashed ^ hashed >> 16) & 15 in _PLACES_AFTER_MAIN:
            return name
    raise AssertionError(f"no digits fit {stem}")


@dataclass(frozen=True, slots=True)
class CapturedBranch:
    """A branch of a source that holds one capture, as engines name it: ``db.t.branch_ips_db_t_1f0c8a3b5d7e``."""

    table: str
    branch: str

    @classmethod
    def of_capture(cls, source: Source, capture_id: str, role: str = "") -> Self:
        """Name the branch of one source in one capture: readable first, unique by its hash."""
        return cls(source.table, _after_main(f"{BRANCH_PREFIX}{icdc_table_name(source, capture_id, role)}"))

    @classmethod
    def holding(cls, source: Source, icdc_table: str) -> Self:
        """Name the branch that holds the files of an ICDC table."""
        return cls.of_capture(source, icdc_table, "held")

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Read the name that engines use; None for the name of a table."""
        match = _BRANCH_NAME.fullmatch(name)
        return cls(match["table"], match["branch"]) if match else None

    def __str__(self) -> str:
        return f"{self.table}.branch_{self.branch}"


@dataclass(frozen=True, slots=True)
class CapturedRange:
    """A range that an engine reads directly from the source, and the name that stands for it in records.

    No engine knows that name: a job that reads it as a table fails, where the source's name would let it read all.

        db.t.ips_range_12_15      what was appended after snapshot 12, up to snapshot 15
        db.t.ips_range_to_15      all rows as of snapshot 15
        db.t.ips_range_empty      no row
    """

    table: str
    after: int | None
    to: int | None

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Read the name; None for that of a table or a branch."""
        match = _RANGE_NAME.fullmatch(name)
        if match is None:
            return None
        after, to = (None if match[end] is None else int(match[end]) for end in ("after", "to"))
        return cls(match["table"], after, to)

    @property
    def read_options(self) -> dict[str, str] | None:
        """The options with which Spark reads the range; None if there is no row to read."""
        if self.to is None:
            return None
        if self.after is None:
            return {"versionAsOf": str(self.to)}
        return {"start-snapshot-id": str(self.after), "end-snapshot-id": str(self.to)}

    def as_sql(self, engine_catalog: str | None) -> str:
        """The range as a subquery of Spark SQL, to be used where the name of a table was."""
        table = f"{engine_catalog}.{self.table}" if engine_catalog else self.table
        if self.to is None:
            clause = "LIMIT 0"
        elif self.after is None:
            clause = f"VERSION AS OF {self.to}"
        else:
            options = ", ".join(f"`{key}` = '{value}'" for key, value in (self.read_options or {}).items())
            clause = f"WITH ({options})"
        return f"(SELECT * FROM {table} {clause})"  # noqa: S608 - names and numbers of this capture

    def __str__(self) -> str:
        end = "empty" if self.to is None else f"to_{self.to}" if self.after is None else f"{self.after}_{self.to}"
        return f"{self.table}.ips_range_{end}"


def is_icdc_table(name: str) -> bool:
    """Tell the name of a table of its own from those of a branch and a range of the source."""
    return CapturedBranch.parse(name) is None and CapturedRange.parse(name) is None


def name_digest(consumer: str) -> str:
    """Return the end of the names of a consumer's Variable and log table."""
    return digest(consumer, length=NAME_DIGEST)


def variable_key(consumer: str) -> str:
    """Name the Variable that holds a consumer's checkpoint.

    Airflow masks Variables whose key contains words such as ``token`` or ``secret``, and its edit form then writes the
    mask back. A readable part that contains such a word is therefore left out; the hash identifies the consumer.
    """
    tail = name_digest(consumer)
    shown = readable(consumer, limit=MAX_VARIABLE_KEY - len(tail) - len("ips__"))
    return f"ips_{tail}" if is_masked_name(shown) else f"ips_{shown}_{tail}"


MASKED_WORDS = (
    "access_token",
    "api_key",
    "apikey",
    "authorization",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "secret",
    "token",
    "keyfile_dict",
    "service_account",
    "dsn",
)
"""Words in a key for which Airflow masks the value. The Airflow layer adds those that a deployment configures."""


def is_masked_name(name: str, extra_words: tuple[str, ...] = ()) -> bool:
    """Whether Airflow would mask a value that is stored under this name."""
    lowered = name.lower()
    return any(word in lowered for word in (*MASKED_WORDS, *extra_words))


def check_xcom_key(key: str, *, what: str) -> str:
    """Return the key, or refuse it if Airflow would store it under another name."""
    if not XCOM_KEY_PATTERN.fullmatch(key):
        bad = "".join(sorted({c for c in key if not XCOM_KEY_PATTERN.fullmatch(c)}))
        raise InputError(
            f"{what} {key!r} cannot be an XCom key: it contains {bad!r}",
            consequence="Airflow would store it under another key, and the task that pulls it would get nothing",
            remedy='set another key for the source: SourceTable("…", key="letters_digits_._-"), or rename or leave out '
            "the range column",
        )
    return key
