"""How much must have been appended before it is worth starting, and after how long less is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from airflow_provider_ips.core.errors import InputError, unknown_choice
from airflow_provider_ips.core.json_fields import is_whole_number
from airflow_provider_ips.core.positions import format_time

if TYPE_CHECKING:  # thresholds are given while a DAG is parsed, and a backlog brings the planner
    from airflow_provider_ips.core.watching.backlog import Backlog


class Require(StrEnum):
    """How many of several tables must be ready."""

    ANY = "any"
    ALL = "all"

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read ``any`` or ``all``."""
        if value in ("any", "all"):
            return cls(str(value))
        unclear = "How many of the tables must be ready is not specified"
        raise unknown_choice("require", value, ("any", "all"), consequence=unclear)

    def is_met(self, ready: Sequence[bool]) -> bool:
        """Whether tables are ready together, by whether each of them is."""
        return all(ready) if self is Require.ALL else any(ready)


@dataclass(frozen=True, slots=True, init=False)
class AtLeast:
    """A threshold that age overrules: ``AtLeast(100, or_after=timedelta(hours=1))``."""

    amount: int
    or_after_s: float | None

    def __init__(self, amount: object, *, or_after: object = None) -> None:
        if not is_whole_number(amount, least=1):
            raise InputError(
                f"threshold {amount!r} is not a whole number above zero",
                consequence="It would always be met: to wait for any row at all no threshold is needed",
                remedy="leave the threshold out, or set it to 1 or more",
            )
        object.__setattr__(self, "amount", amount)
        object.__setattr__(self, "or_after_s", parse_age(or_after))


def parse_age(or_after: object) -> float | None:
    """Read a timedelta or seconds."""
    at_once = "Every snapshot would be old enough at once, so the threshold would have no effect"
    return None if or_after is None else parse_seconds("or_after", or_after, consequence=at_once)


@dataclass(frozen=True, slots=True)
class Quiet:
    """How long nothing must have come, and the age that overrules it."""

    seconds: float
    or_after_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The least that must have been appended, and the pause that must follow. All that are given must be met."""

    min_files: AtLeast | None = None
    min_records: AtLeast | None = None
    min_bytes: AtLeast | None = None
    quiet_for: Quiet | None = None

    @classmethod
    def parse(
        cls,
        *,
        min_files: object = None,
        min_records: object = None,
        min_bytes: object = None,
        quiet_for: object = None,
        or_after: object = None,
    ) -> Self:
        """Read the parameters of a sensor or trigger. ``or_after`` is for every threshold that has none itself."""
        age = parse_age(or_after)
        given = {"min_files": min_files, "min_records": min_records, "min_bytes": min_bytes}
        if age is not None and all(value is None for value in (*given.values(), quiet_for)):
            raise InputError(
                f"or_after={or_after!r} without min_files, min_records, min_bytes or quiet_for",
                consequence="Any appended row ends the wait, so there is no threshold for age to overrule",
                remedy="set a threshold, or leave or_after out",
            )
        if age is not None and all(_pair(v)[1] is not None for v in (*given.values(), quiet_for) if v is not None):
            raise InputError(
                f"or_after={or_after!r}, and every threshold has its own or_after",
                consequence="It contradicts them, and would have no effect",
                remedy="leave it out, or remove the or_after of a threshold that should use it",
            )
        least = {name: _threshold(name, value, age) for name, value in given.items()}
        return cls(**least, quiet_for=_quiet(quiet_for, age))

    def to_json(self) -> dict[str, list[float | None] | None]:
        """Write each threshold with its age as a pair, which :meth:`parse` reads."""
        least = (self.min_files, self.min_records, self.min_bytes)
        pairs = [None if at is None else [at.amount, at.or_after_s] for at in least]
        pairs.append(None if self.quiet_for is None else [self.quiet_for.seconds, self.quiet_for.or_after_s])
        return dict(zip((field.name for field in fields(self)), pairs, strict=True))

    def named(self) -> tuple[tuple[str, str, AtLeast], ...]:
        """The thresholds that are given: the parameter, what it counts, and the threshold itself."""
        every = (
            ("min_files", "files", self.min_files),
            ("min_records", "records", self.min_records),
            ("min_bytes", "bytes", self.min_bytes),
        )
        return tuple((name, unit, at_least) for name, unit, at_least in every if at_least is not None)


def _pair(value: object) -> tuple[object, object]:
    """A threshold and its own age: of an ``AtLeast``, or of what :meth:`Thresholds.to_json` wrote."""
    if isinstance(value, AtLeast):
        return value.amount, value.or_after_s
    return (value[0], value[1]) if isinstance(value, list | tuple) and len(value) == 2 else (value, None)  # noqa: PLR2004


def _quiet(value: object, age: float | None) -> Quiet | None:
    if value is None:
        return None
    length, own = (value, None) if isinstance(value, AtLeast) else _pair(value)
    or_after_s = age if own is None else parse_age(own)
    seconds = parse_seconds("quiet_for", length)
    if or_after_s is not None and or_after_s <= seconds:
        raise InputError(
            f"or_after={or_after_s:g} s is not longer than quiet_for={seconds:g} s",
            consequence="Rows would always be old enough before it was quiet, so quiet_for would have no effect",
            remedy="set a longer or_after, or a shorter quiet_for",
        )
    return Quiet(seconds=seconds, or_after_s=or_after_s)


def parse_seconds(
    name: str, value: object, *, consequence: str = "It would have no effect, or nothing would ever be reported"
) -> float:
    """Read a timedelta or seconds."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise InputError(
            f"{name}={value!r} is not a length of time above zero",
            consequence=consequence,
            remedy=f"use a timedelta or seconds, for example timedelta(minutes=10), or leave {name} out",
        )
    return float(seconds)


def _threshold(name: str, value: object, age: float | None) -> AtLeast | None:
    if value is None:
        return None
    amount, own = _pair(value)
    try:
        return AtLeast(amount, or_after=age if own is None else own)
    except InputError as error:
        raise InputError(f"{name}: {error.problem}", consequence=error.consequence, remedy=error.remedy) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether to start, and why, in words for the log."""

    ready: bool
    reason: str


def assess(backlog: Backlog, thresholds: Thresholds, *, now_ms: int) -> Readiness:
    """Decide whether the backlog of one source is enough. An unknown number is enough, else it might wait for ever.

    Example: ``min_files=AtLeast(10, or_after=3600)``, and the oldest of the appended snapshots is of 12:00.

        12 files at 12:10     ready
        3 files at 12:10      not ready, waiting for min_files=10 or 13:00
        3 files at 13:00      ready

    With ``quiet_for=600`` as well: ready ten minutes after the newest of the appended snapshots.
    """
    where = f"{backlog.source}: "
    if not backlog.has_rows:
        since = "" if backlog.from_exclusive is None else f" beyond {backlog.from_exclusive}"
        return Readiness(ready=False, reason=where + (backlog.note or f"nothing appended{since}"))
    lacks = (_lack(backlog, name, unit, at_least, now_ms) for name, unit, at_least in thresholds.named())
    unmet = [lack for lack in (*lacks, _unrest(backlog, thresholds.quiet_for, now_ms)) if lack is not None]
    if unmet:
        return Readiness(ready=False, reason=f"{where}{_counted(backlog)}, waiting for {', '.join(unmet)}")
    return Readiness(ready=True, reason=where + _counted(backlog))


def _counted(backlog: Backlog) -> str:
    counts = {"snapshots": backlog.snapshots, **backlog.volume.to_json()}
    words = ", ".join(f"{name}: {'unknown' if n is None else n}" for name, n in counts.items()) + " appended"
    return f"{words}, earlier rows changed or removed" if backlog.has_changes else words


def _lack(backlog: Backlog, name: str, unit: str, at_least: AtLeast, now_ms: int) -> str | None:
    amount = backlog.volume.to_json()[unit]
    if amount is None or amount >= at_least.amount:
        return None
    return _unless_due(f"{name}={at_least.amount}", at_least.or_after_s, backlog, now_ms)


def _unrest(backlog: Backlog, quiet: Quiet | None, now_ms: int) -> str | None:
    """Say until when it has not been quiet for long enough. Compaction and empty commits do not disturb."""
    if quiet is None or backlog.newest_at_ms is None:
        return None
    quiet_at_ms = backlog.newest_at_ms + int(quiet.seconds * 1000)
    if now_ms >= quiet_at_ms:
        return None
    lack = f"quiet_for={quiet.seconds:g}, until {format_time(quiet_at_ms)} if nothing else comes"
    return _unless_due(lack, quiet.or_after_s, backlog, now_ms)


def _unless_due(lack: str, or_after_s: float | None, backlog: Backlog, now_ms: int) -> str | None:
    """Return what is lacking, unless the oldest of the appended snapshots is so old that it does not matter."""
    if or_after_s is None:
        return lack
    due_ms = None if backlog.oldest_at_ms is None else backlog.oldest_at_ms + int(or_after_s * 1000)
    if due_ms is None or now_ms >= due_ms:
        return None
    return f"{lack} or {format_time(due_ms)}"
