"""What a DAG author may set, checked once, at DAG parse."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import TableIdentifier, check_xcom_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ALL_OPERATIONS: Final = ("append", "overwrite", "delete")
ON_OTHER_OPERATION: Final = ("fail", "skip_retention", "skip")
ON_GAP: Final = ("fail", "resync", "full")
ON_SUPERSET: Final = ("fail", "allow", "complete")
EQUALITY_DELETES: Final = ("fail", "carry")


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialPosition:
    """Where a first run starts: ``full``, ``latest``, behind a snapshot, or behind a time."""

    kind: str
    snapshot_id: int | None = None
    time_ms: int | None = None

    @classmethod
    def parse(cls, value: object) -> InitialPosition:
        """Read ``full``, ``latest``, a snapshot id (string) or an ISO timestamp."""
        if value in ("full", "latest"):
            return cls(kind=str(value))
        if isinstance(value, datetime):
            return cls._at(value, value)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return cls._from_digits(value)
        if isinstance(value, str):
            try:
                return cls._at(datetime.fromisoformat(value), value)
            except ValueError:
                pass
        raise InputError(
            f"initial={value!r} is none of the four forms",
            consequence="The first run would not know where to start",
            remedy='use "full", "latest", a snapshot id as a string, or an ISO timestamp with its zone such as '
            '"2026-10-01T00:00:00+00:00"',
        )

    @classmethod
    def _from_digits(cls, value: str) -> InitialPosition:
        """Eight digits may be a compact ISO date; any other number of digits can only be a snapshot id."""
        if len(value) != len("20261118"):
            return cls(kind="snapshot", snapshot_id=int(value))
        raise InputError(
            f"initial={value!r} may be a date or a snapshot id",
            consequence="Guessing would start the first run in the wrong place",
            remedy='write a date as "2026-11-18T00:00:00+00:00"',
        )

    @classmethod
    def _at(cls, moment: datetime, shown: object) -> InitialPosition:
        if moment.tzinfo is None:
            raise InputError(
                f"initial={shown!r} has no time zone",
                consequence="It would mean different moments on different machines",
                remedy=f'add it, for example "{moment.replace(tzinfo=UTC).isoformat()}"',
            )
        return cls(kind="time", time_ms=int(moment.timestamp() * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """How one source is captured."""

    data_operations: tuple[str, ...] = ("append",)
    on_other_operation: str = "fail"
    on_superset: str = "fail"
    initial: str = "full"
    on_gap: str = "fail"
    max_snapshots: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    full_refresh_above: float | None = None
    range_columns: tuple[str, ...] = ()
    equality_deletes: str = "fail"

    def __post_init__(self) -> None:
        """Refuse what cannot be right, before any DAG runs with it."""
        _choice("on_other_operation", self.on_other_operation, ON_OTHER_OPERATION)
        _choice("on_gap", self.on_gap, ON_GAP)
        _choice("on_superset", self.on_superset, ON_SUPERSET)
        _choice("equality_deletes", self.equality_deletes, EQUALITY_DELETES)
        object.__setattr__(self, "data_operations", _operations(self.data_operations))
        object.__setattr__(self, "range_columns", _columns(self.range_columns))
        InitialPosition.parse(self.initial)
        for name in ("max_snapshots", "max_files", "max_bytes"):
            _positive(name, getattr(self, name))
        _check_share(self)
        if self.captures_changes and self.on_other_operation != "fail":
            raise InputError(
                f"on_other_operation={self.on_other_operation!r} contradicts "
                f"data_operations={list(self.data_operations)}",
                consequence="With all three operations there is no other operation left to pass over",
                remedy='leave on_other_operation out, or set data_operations=("append",)',
            )
        if not self.captures_changes and self.on_superset != "fail":
            raise InputError(
                f"on_superset={self.on_superset!r} contradicts data_operations={list(self.data_operations)}",
                consequence="An append capture never carries unchanged rows along",
                remedy='leave on_superset out, or set data_operations=("append", "overwrite", "delete")',
            )

    @property
    def captures_changes(self) -> bool:
        """All three operations, as opposed to the log of appends."""
        return len(self.data_operations) > 1

    @property
    def start(self) -> InitialPosition:
        """``initial``, parsed."""
        return InitialPosition.parse(self.initial)


@dataclass(frozen=True, slots=True, init=False)
class SourceTable:
    """One entry of ``source_tables`` that overrides the operator's settings for that table."""

    table: str
    branch: str
    key: str | None
    overrides: tuple[tuple[str, Any], ...]

    def __init__(self, table: str, *, branch: str = "main", key: str | None = None, **overrides: Any) -> None:
        TableIdentifier.parse(table)
        unknown = sorted(set(overrides) - {f.name for f in fields(CaptureSettings)})
        if unknown:
            raise InputError(
                f"SourceTable({table!r}) has unknown settings {unknown}",
                consequence="They would be ignored",
                remedy=f"use any of {sorted(f.name for f in fields(CaptureSettings))}",
            )
        _check_branch(table, branch)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "branch", branch)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "overrides", tuple(sorted(overrides.items())))

    @property
    def xcom_key(self) -> str:
        """The key under which the ICDC table's name is pushed."""
        return self.key or (self.table if self.branch == "main" else f"{self.table}.{self.branch}")

    def settings(self, defaults: CaptureSettings) -> CaptureSettings:
        """The operator's settings with this table's own on top."""
        return replace(defaults, **dict(self.overrides))


RESERVED_KEYS: Final = ("capture", "capture_id", "return_value", "skipmixin_key")


def parse_sources(value: object, defaults: CaptureSettings) -> tuple[SourceTable, ...]:
    """Read ``source_tables``: a string, a SourceTable, or a list of either. Order is kept."""
    entries: Iterable[Any] = value if isinstance(value, list | tuple) else (value,)
    sources = tuple(entry if isinstance(entry, SourceTable) else SourceTable(entry) for entry in entries)
    if not sources:
        raise InputError("source_tables is empty", consequence="There is nothing to capture", remedy="name a table")
    _refuse_duplicates([f"{s.table}@{s.branch}" for s in sources], what="source table")
    keys = [check_xcom_key(s.xcom_key, what="source key") for s in sources]
    for source in sources:
        settings = source.settings(defaults)
        keys += [
            check_xcom_key(f"{source.xcom_key}.{bound}.{column}", what="range key")
            for column in settings.range_columns
            for bound in ("lower", "upper")
        ]
        keys += [f"{source.xcom_key}.{position}" for position in ("from", "to")]
        keys += [f"{source.xcom_key}.before"] if settings.captures_changes else []
    _refuse_duplicates([*keys, *RESERVED_KEYS], what="XCom key")
    return sources


def _check_branch(table: str, branch: object) -> None:
    if not isinstance(branch, str) or not branch:
        raise InputError(
            f"SourceTable({table!r}) has branch {branch!r}",
            consequence="No history could be read from it",
            remedy='name a branch, for example "main"',
        )


def _refuse_duplicates(names: Sequence[str], *, what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{what} {twice[0]!r} is there twice",
            consequence="One would overwrite the other",
            remedy='name each table once, and give clashing ones a key of their own: SourceTable("…", key="…")',
        )


def _choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{name}={value!r} is unknown", remedy=f"use one of {', '.join(map(repr, choices))}")


def _operations(value: object) -> tuple[str, ...]:
    listed = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple | set) else ()
    unknown = [v for v in listed if v not in ALL_OPERATIONS]
    if unknown or not listed:
        raise InputError(
            f"data_operations={value!r} holds unknown operations {unknown}",
            consequence="Rows would be missed or read twice without anyone noticing",
            remedy='use ("append",) or ("append", "overwrite", "delete")',
        )
    if set(listed) == {"append"}:
        return ("append",)
    if set(listed) == set(ALL_OPERATIONS):
        return ALL_OPERATIONS
    raise InputError(
        f"data_operations={value!r} is a subset without a sound meaning",
        consequence="A merge may commit as append, overwrite or delete, so half of its changes would be missing",
        remedy='use ("append",) for the log of appends, or all three for changes',
    )


def _columns(value: object) -> tuple[str, ...]:
    listed = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else None
    if listed is None or any(not isinstance(c, str) or not c for c in listed):
        raise InputError(f"range_columns={value!r} is not a list of column names", remedy='for example ["event_time"]')
    _refuse_duplicates(list(listed), what="range column")
    return listed


def _check_share(settings: CaptureSettings) -> None:
    share: object = settings.full_refresh_above
    if share is None:
        return
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise InputError(
            f"full_refresh_above={share!r} is no share of the table",
            consequence="It could never be reached, or always",
            remedy="give a number between 0 and 1, for example 0.6",
        )
    if settings.captures_changes:
        raise InputError(
            f"full_refresh_above={share!r} contradicts data_operations={list(settings.data_operations)}",
            consequence="All live rows do not tell which rows are gone, so a target would keep these",
            remedy="leave it out; to rebuild a target ask a run for a full refresh (ips_params)",
        )


def _positive(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(
            f"{name}={value!r} is not a whole number above zero",
            consequence="A capture that may take nothing never moves on",
            remedy=f"leave {name} out for no limit, or set it to 1 or more",
        )
