"""How much must have gathered before it is worth starting, and after what time less will do."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.core.readiness import Readiness


class Require(StrEnum):
    """How many of several tables must be ready."""

    ANY = "any"
    ALL = "all"

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read ``any`` or ``all``."""
        if value in ("any", "all"):
            return cls(str(value))
        raise InputError(
            f"require={value!r} is unknown",
            consequence="It would not be clear how many of the tables to wait for",
            remedy="use 'any' or 'all'",
        )

    def holds(self, verdicts: Sequence[Readiness]) -> bool:
        """Whether these tables together are ready."""
        ready = [verdict.ready for verdict in verdicts]
        return all(ready) if self is Require.ALL else any(ready)


@dataclass(frozen=True, slots=True, init=False)
class AtLeast:
    """A threshold with its own patience: ``AtLeast(100, or_after=timedelta(hours=1))``."""

    amount: int
    or_after_s: float | None

    def __init__(self, amount: object, *, or_after: object = None) -> None:
        if isinstance(amount, bool) or not isinstance(amount, int) or amount < 1:
            raise InputError(
                f"threshold {amount!r} is not a whole number above zero",
                consequence="One that is always met waits for nothing, and any appended row is waited for anyway",
                remedy="leave the threshold out, or set it to 1 or more",
            )
        object.__setattr__(self, "amount", amount)
        object.__setattr__(self, "or_after_s", parse_age(or_after))


def parse_age(or_after: object) -> float | None:
    """Read a timedelta or seconds."""
    if or_after is None:
        return None
    seconds = or_after.total_seconds() if isinstance(or_after, timedelta) else or_after
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise InputError(
            f"or_after={or_after!r} is no length of time above zero",
            consequence="Every snapshot would be old enough at once, and the threshold would do nothing",
            remedy="use a timedelta or seconds, for example timedelta(hours=1), or leave the threshold out",
        )
    return float(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What must have gathered before it is worth starting. All of those given must hold."""

    min_files: AtLeast | None = None
    min_records: AtLeast | None = None
    min_bytes: AtLeast | None = None

    @classmethod
    def parse(
        cls, *, min_files: object = None, min_records: object = None, min_bytes: object = None, or_after: object = None
    ) -> Self:
        """Read the parameters of a sensor or trigger; ``or_after`` serves every threshold without one of its own."""
        patience = parse_age(or_after)
        given = {"min_files": min_files, "min_records": min_records, "min_bytes": min_bytes}
        if patience is not None and all(value is None for value in given.values()):
            raise InputError(
                f"or_after={or_after!r} without min_files, min_records or min_bytes",
                consequence="There is no threshold that age could overrule: any appended row ends the wait already",
                remedy="set a threshold, or leave or_after out",
            )
        if patience is not None and all(_has_own_age(value) for value in given.values() if value is not None):
            raise InputError(
                f"or_after={or_after!r}, and every threshold has an or_after of its own",
                consequence="It contradicts them, and would do nothing",
                remedy="leave it out, or leave it to a threshold that has none",
            )
        return cls(**{name: _threshold(name, value, patience) for name, value in given.items()})

    def to_json(self) -> dict[str, list[float | None] | None]:
        """As :meth:`parse` reads it again."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: None if at is None else [at.amount, at.or_after_s] for name, at in given.items()}

    def named(self) -> tuple[tuple[str, str, AtLeast], ...]:
        """The thresholds that were given: their parameter, what they count, and how much."""
        every = (
            ("min_files", "files", self.min_files),
            ("min_records", "records", self.min_records),
            ("min_bytes", "bytes", self.min_bytes),
        )
        return tuple((name, unit, at_least) for name, unit, at_least in every if at_least is not None)


def _has_own_age(value: object) -> bool:
    if isinstance(value, AtLeast):
        return value.or_after_s is not None
    return isinstance(value, list | tuple) and len(value) == 2 and value[1] is not None  # noqa: PLR2004 - a pair


def _threshold(name: str, value: object, patience: float | None) -> AtLeast | None:
    if value is None:
        return None
    amount, own = value if isinstance(value, list | tuple) and len(value) == 2 else (value, None)  # noqa: PLR2004 - a pair
    if isinstance(value, AtLeast):
        amount, own = value.amount, value.or_after_s
    try:
        return AtLeast(amount, or_after=patience if own is None else own)
    except InputError as error:
        raise InputError(f"{name}: {error.problem}", consequence=error.consequence, remedy=error.remedy) from error
