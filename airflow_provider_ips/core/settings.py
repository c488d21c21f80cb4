"""The settings of a capture and of each of its source tables, checked when the DAG is parsed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Final

from airflow_provider_ips.core.errors import InputError, unknown_choice
from airflow_provider_ips.core.identifiers import MAIN_BRANCH, Source, TableIdentifier, check_xcom_key
from airflow_provider_ips.core.json_fields import is_whole_number
from airflow_provider_ips.core.positions import InitialPosition

ALL_OPERATIONS: Final = ("append", "overwrite", "delete")
ON_OTHER_OPERATION: Final = ("fail", "skip_retention", "skip")
ON_GAP: Final = ("fail", "resync", "full")
ON_SUPERSET: Final = ("fail", "allow", "complete")
EQUALITY_DELETES: Final = ("fail", "carry")
OTHER_MODES: Final = 'capture_mode="ICDC" or "BRANCH"'


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
        _choice("on_other_operation", self.on_other_operation, ON_OTHER_OPERATION)
        _choice("on_gap", self.on_gap, ON_GAP)
        _choice("on_superset", self.on_superset, ON_SUPERSET)
        _choice("equality_deletes", self.equality_deletes, EQUALITY_DELETES)
        object.__setattr__(self, "data_operations", _operations(self.data_operations))
        object.__setattr__(self, "range_columns", _columns(self.range_columns))
        InitialPosition.parse(self.initial)
        for name in ("max_snapshots", "max_files", "max_bytes"):
            check_positive(name, getattr(self, name))
        _check_share(self)
        if self.captures_changes and self.on_other_operation != "fail":
            raise InputError(
                f"on_other_operation={self.on_other_operation!r} contradicts "
                f"data_operations={list(self.data_operations)}",
                consequence="With all three operations no other operation remains",
                remedy='leave on_other_operation out, or set data_operations=("append",)',
            )
        if not self.captures_changes and self.on_superset != "fail":
            raise InputError(
                f"on_superset={self.on_superset!r} contradicts data_operations={list(self.data_operations)}",
                consequence="An append capture never contains unchanged rows",
                remedy='leave on_superset out, or set data_operations=("append", "overwrite", "delete")',
            )

    @property
    def captures_changes(self) -> bool:
        """Whether all three operations are captured, and not only appends."""
        return len(self.data_operations) > 1

    @property
    def skips_changes(self) -> bool:
        """Whether snapshots that change or remove rows are skipped, so that they are not lag, and not refused."""
        return not self.captures_changes and self.on_other_operation != "fail"

    @property
    def selection_rules(self) -> str:
        """The settings that choose which rows of a given range are captured, as one string: equal for equal settings.

        Not among them: limits and ``on_gap``, which choose the range, and settings that only refuse or describe.
        """
        names = ("data_operations", "on_other_operation", "on_superset")
        return json.dumps({name: getattr(self, name) for name in names}, sort_keys=True)

    @property
    def start(self) -> InitialPosition:
        return InitialPosition.parse(self.initial)


@dataclass(frozen=True, slots=True, init=False)
class SourceTable:
    """One entry of ``source_tables``, with settings that override those of the operator."""

    table: str
    branch: str
    key: str | None
    overrides: tuple[tuple[str, Any], ...]

    def __init__(self, table: str, *, branch: str = MAIN_BRANCH, key: str | None = None, **overrides: Any) -> None:
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
    def source(self) -> Source:
        return Source(self.table, self.branch)

    @property
    def xcom_key(self) -> str:
        """The key under which the ICDC table's name is pushed."""
        return self.key or self.source.xcom_key

    def settings(self, defaults: CaptureSettings) -> CaptureSettings:
        """The operator's settings, overridden by those of this table."""
        return replace(defaults, **dict(self.overrides))


CAPTURE_KEYS: Final = ("capture", "capture_id", "positions")
"""The XComs of a capture that are not of one source."""

RESERVED_KEYS: Final = (*CAPTURE_KEYS, "return_value", "skipmixin_key")


def source_keys(source: SourceTable, settings: CaptureSettings) -> list[str]:
    """The XCom keys of a source, without those of bounds: the ICDC table, and what comes with it."""
    before = ["before"] if settings.captures_changes else []
    return [source.xcom_key, *(f"{source.xcom_key}.{name}" for name in ("from", "to", *before))]


def range_keys(source: SourceTable) -> list[str]:
    """The further XCom keys of a source in mode RANGE: Spark's options, and the same as one string."""
    return [f"{source.xcom_key}.{name}" for name in ("options", "options_json")]


def parse_sources(value: object, defaults: CaptureSettings) -> tuple[SourceTable, ...]:
    """Read ``source_tables``: a string, a SourceTable, or a list of either. Order is kept."""
    entries: Iterable[Any] = value if isinstance(value, list | tuple) else (value,)
    sources = tuple(entry if isinstance(entry, SourceTable) else SourceTable(entry) for entry in entries)
    if not sources:
        raise InputError("source_tables is empty", consequence="There is nothing to capture", remedy="name a table")
    _refuse_duplicates([table.source.full_label for table in sources], what="source table")
    keys = [check_xcom_key(s.xcom_key, what="source key") for s in sources]
    for source in sources:
        settings = source.settings(defaults)
        keys += [
            check_xcom_key(f"{source.xcom_key}.{bound}.{column}", what="range key")
            for column in settings.range_columns
            for bound in ("lower", "upper")
        ]
        keys += [*source_keys(source, settings)[1:], *range_keys(source)]
    _refuse_duplicates([*keys, *RESERVED_KEYS], what="XCom key")
    return sources


def _check_branch(table: str, branch: object) -> None:
    if not isinstance(branch, str) or not branch:
        raise InputError(
            f"SourceTable({table!r}) has branch {branch!r}",
            consequence="No history can be read from it",
            remedy='name a branch, for example "main"',
        )


def _refuse_duplicates(names: Sequence[str], *, what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{what} {twice[0]!r} is there twice",
            consequence="One would overwrite the other",
            remedy='name each table once, and set another key where two are the same: SourceTable("…", key="…")',
        )


def _choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise unknown_choice(name, value, choices, consequence="What a capture is to do is not specified")


def _operations(value: object) -> tuple[str, ...]:
    listed = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple | set) else ()
    unknown = [v for v in listed if v not in ALL_OPERATIONS]
    if unknown or not listed:
        raise InputError(
            f"data_operations={value!r} holds unknown operations {unknown}",
            consequence="Rows would silently be missed or read twice",
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


def parse_target_lag(value: object) -> int | None:
    """Read a length of time as whole seconds; None for none."""
    if value is None:
        return None
    if not isinstance(value, timedelta) or value < timedelta(seconds=1):
        raise InputError(
            f"target_lag={value!r} is not a length of time above zero",
            consequence="Nothing could keep it",
            remedy="set it to a timedelta, for example timedelta(hours=1), or leave it out",
        )
    return int(value.total_seconds())


def _check_share(settings: CaptureSettings) -> None:
    share: object = settings.full_refresh_above
    if share is None:
        return
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise InputError(
            f"full_refresh_above={share!r} is not a share of the table",
            consequence="It would never be reached, or always",
            remedy="give a number between 0 and 1, for example 0.6",
        )
    if settings.captures_changes:
        raise InputError(
            f"full_refresh_above={share!r} contradicts data_operations={list(settings.data_operations)}",
            consequence="A capture of all live rows does not show which rows were deleted: a target would keep them",
            remedy="leave it out; to rebuild a target trigger a run with a full refresh (ips_params)",
        )


def check_positive(
    name: str, value: object, *, consequence: str = "A capture that may take nothing would never move on"
) -> None:
    """Refuse a limit that is not a whole number above zero."""
    if not is_whole_number(value, least=1) and value is not None:
        raise InputError(
            f"{name}={value!r} is not a whole number above zero",
            consequence=consequence,
            remedy=f"leave {name} out for no limit, or set it to 1 or more",
        )


def refuse_for_range(settings: CaptureSettings, *, has_filter: bool = False) -> None:
    """Refuse settings by which the captured rows cannot be a range that an engine reads directly.

    :param has_filter: only some partitions are to be captured
    """
    wrong = {
        "a filter of partitions": has_filter,
        f"data_operations={settings.data_operations!r}": settings.captures_changes,
        "on_gap='resync'": settings.on_gap == "resync",
    }
    found = [name for name, is_wrong in wrong.items() if is_wrong]
    if found:
        raise InputError(
            f"capture_mode='RANGE' does not go with {' and '.join(found)}",
            consequence="Engines can read all that was appended between two snapshots, but neither a part of it nor "
            "what was changed or removed",
            remedy=f"use {OTHER_MODES}",
        )
