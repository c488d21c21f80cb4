"""What one run is requested to capture: the usual range, all rows, a range of its own, some partitions, or a report.

    run           what is captured                                       the checkpoint
    usual         what came since the checkpoint                         moves
    full          all live rows                                          stays, unless the request moves it
    snapshot      what came after a snapshot                             stays
    time          what came after a point in time                        stays
    partitions    all live rows of some partitions                       stays
    dry_run       as above, counted and reported; no table is made       stays

All but the usual run are *detached* from the checkpoint: never pending, never committed.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.json_fields import is_whole_number
from airflow_provider_ips.core.settings import CaptureSettings

PREFIX: Final = "ips_"
"""What the names of our Params begin with, so that they can stand beside a DAG's own."""

LIMITS: Final = ("max_snapshots", "max_files", "max_bytes")
_UNTIL: Final = ("until_snapshot", "until_time")


class RunKind(StrEnum):
    """The value of the param ``ips_run``: which rows a run captures."""

    USUAL = "usual"
    FULL = "full"
    SNAPSHOT = "snapshot"
    TIME = "time"
    PARTITIONS = "partitions"


_ALLOWED: Final[Mapping[RunKind, tuple[str, ...]]] = {
    RunKind.USUAL: LIMITS,
    RunKind.FULL: (),
    RunKind.SNAPSHOT: ("since_snapshot", *_UNTIL, "partitions", *LIMITS),
    RunKind.TIME: ("since_time", *_UNTIL, "partitions", *LIMITS),
    RunKind.PARTITIONS: ("partitions", "everything"),
}
_REQUIRED: Final[Mapping[RunKind, str]] = {
    RunKind.SNAPSHOT: "since_snapshot",
    RunKind.TIME: "since_time",
    RunKind.PARTITIONS: "partitions",
}
_DESCRIPTIONS: Final[Mapping[RunKind, str]] = {
    RunKind.USUAL: "the usual range",
    RunKind.FULL: "a full refresh",
    RunKind.SNAPSHOT: "a range from a snapshot",
    RunKind.TIME: "a range from a point in time",
    RunKind.PARTITIONS: "some partitions in full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The params of one run, checked. ``RunRequest()`` is the usual run."""

    kind: RunKind = RunKind.USUAL
    """The param ``ips_run``; every other field has the name of its param."""

    since_snapshot: str | None = None
    since_time: str | None = None
    until_snapshot: str | None = None
    until_time: str | None = None
    partitions: str | None = None
    max_snapshots: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    everything: bool = False
    """A filter that selects all rows is intended."""

    dry_run: bool = False
    move_checkpoint: bool = False

    def __post_init__(self) -> None:
        """Refuse combinations that contradict each other: every field that is filled in must have its effect."""
        _check_types(self)
        for name in ("since_time", "until_time"):
            _milliseconds(name, getattr(self, name))
        self._check_fields()
        self._check_flags()

    def _check_fields(self) -> None:
        required = _REQUIRED.get(self.kind)
        if required is not None and getattr(self, required) is None:
            raise InputError(
                f"{PREFIX}run={self.kind.value!r} without {PREFIX}{required}",
                consequence="What to capture is not specified",
                remedy=f"fill in {PREFIX}{required}, or choose another {PREFIX}run",
            )
        for name in ("since_snapshot", "since_time", *_UNTIL, "partitions", *LIMITS):
            if getattr(self, name) is not None and name not in _ALLOWED[self.kind]:
                raise _has_no_effect(self.kind, name, getattr(self, name))
        ends = [name for name in (*_UNTIL, *LIMITS) if getattr(self, name) is not None]
        if any(name in _UNTIL for name in ends) and len(ends) > 1:
            raise InputError(
                f"{' and '.join(PREFIX + name for name in ends)} contradict each other",
                consequence="Each determines where the range ends",
                remedy="leave all but one of them out",
            )

    def _check_flags(self) -> None:
        if self.everything and self.kind is not RunKind.PARTITIONS:
            raise _has_no_effect(self.kind, "everything", self.everything)
        if self.move_checkpoint and self.dry_run:
            raise InputError(
                f"{PREFIX}dry_run and {PREFIX}move_checkpoint contradict each other",
                consequence="A dry run changes nothing",
                remedy="do the dry run first, then run without it",
            )
        if self.move_checkpoint and self.kind not in (RunKind.USUAL, RunKind.FULL):
            raise InputError(
                f"{PREFIX}move_checkpoint with {PREFIX}run={self.kind.value!r}",
                consequence="Such a run may leave out rows that came since the checkpoint, and these would never be "
                "processed",
                remedy=f"leave it out; to move the checkpoint choose {PREFIX}run='full', or `airflow ips seed`",
            )

    @property
    def is_detached(self) -> bool:
        """Whether the capture is never pending and never committed, so that the checkpoint stays where it is."""
        return self.dry_run or not (self.kind is RunKind.USUAL or self.move_checkpoint)

    @property
    def since_time_ms(self) -> int | None:
        """``since_time`` as milliseconds."""
        return _milliseconds("since_time", self.since_time)

    @property
    def until_time_ms(self) -> int | None:
        """``until_time`` as milliseconds."""
        return _milliseconds("until_time", self.until_time)

    def settings(self, usual: CaptureSettings) -> CaptureSettings:
        """The settings to capture with.

        The usual run overrides single limits. A detached one has no other limits than those of the request: what a
        limit of the DAG would leave out is not taken up by any later run.
        """
        limits = {name: getattr(self, name) for name in LIMITS}
        if self.kind is RunKind.USUAL:
            return replace(usual, **{name: value for name, value in limits.items() if value is not None})
        return replace(usual, full_refresh_above=None, **limits)

    def __str__(self) -> str:
        """In words, for logs and errors."""
        given = {name: value for name, value in self.to_json().items() if name not in ("run", "dry_run")}
        details = (f"{name} {value}" for name, value in given.items() if value is not True)
        words = ", ".join([_DESCRIPTIONS[self.kind], *details])
        return f"{words}{', and to move the checkpoint' if self.move_checkpoint else ''}" + (
            " (dry run)" if self.dry_run else ""
        )

    def to_json(self) -> dict[str, Any]:
        """The params that are filled in, without their prefix, as the record shows them."""
        given = {name: getattr(self, name) for name in PARAM_NAMES if name != "run"}
        return {"run": self.kind.value, **{name: v for name, v in given.items() if v not in (None, False)}}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> RunRequest:
        """Read the params of a run. Those without our prefix are the DAG's own and are left alone."""
        return cls._parse({name.removeprefix(PREFIX): v for name, v in params.items() if name.startswith(PREFIX)})

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> RunRequest:
        """Parse what :meth:`to_json` wrote. Raises one of ``PARSE_ERRORS`` on anything else."""
        if not isinstance(raw, Mapping):
            raise TypeError(f"{reprlib.repr(raw)} is not an object")
        try:
            return cls._parse(raw)
        except InputError as error:
            raise ValueError(error.problem) from error

    @classmethod
    def _parse(cls, raw: Mapping[str, Any]) -> RunRequest:
        """Parse params without their prefix. An unknown name is refused: it may be a misspelt ``dry_run``."""
        if unknown := sorted(set(raw) - set(PARAM_NAMES)):
            raise InputError(
                f"param {PREFIX + unknown[0]!r} is unknown",
                consequence="The run would ignore it, and do something else than was requested",
                remedy=f"use any of {', '.join(PREFIX + name for name in PARAM_NAMES)}; names that begin with "
                f"{PREFIX!r} are reserved for this package",
            )
        given = {name: value for name, value in raw.items() if value is not None and value != ""}
        kind = given.pop("run", RunKind.USUAL)
        if kind not in list(RunKind):
            raise InputError(
                f"{PREFIX}run={kind!r} is unknown",
                consequence="What to capture is not specified",
                remedy=f"use one of {', '.join(repr(each.value) for each in RunKind)}",
            )
        return cls(kind=RunKind(kind), **given)


PARAM_NAMES: Final = ("run", *(field.name for field in fields(RunRequest) if field.name != "kind"))
"""The names of all params, without their prefix."""


def _check_types(request: RunRequest) -> None:
    for name in ("everything", "dry_run", "move_checkpoint"):
        if not isinstance(getattr(request, name), bool):
            raise _malformed(name, getattr(request, name), "neither true nor false", "true or false, without quotes")
    for name in ("since_snapshot", "until_snapshot"):
        value = getattr(request, name)
        if value is not None and not (isinstance(value, str) and value.isascii() and value.isdigit()):
            remedy = "a string of digits: a browser's numbers lose the last digits of an id"
            raise _malformed(name, value, "not a snapshot id", remedy)
    for name in LIMITS:
        value = getattr(request, name)
        if not is_whole_number(value, least=1) and value is not None:
            raise _malformed(name, value, "not a whole number above zero", "1 or more, or nothing for no limit")
    filled: object = request.partitions
    if filled is not None and not (isinstance(filled, str) and filled.strip()):
        raise _malformed("partitions", filled, "not a filter", "a condition such as day >= '2026-10-01'")


def _milliseconds(name: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        what = "not a point in time" if moment is None else "a time without its zone"
        raise _malformed(name, value, what, 'an ISO timestamp with its zone, such as "2026-10-01T00:00:00+00:00"')
    return int(moment.timestamp() * 1000)


def _malformed(name: str, value: object, what: str, remedy: str) -> InputError:
    return InputError(
        f"{PREFIX}{name}={value!r} is {what}",
        consequence="A guess could capture other rows than were requested",
        remedy=f"give {remedy}",
    )


def _has_no_effect(kind: RunKind, name: str, value: object) -> InputError:
    kinds = [repr(each.value) for each, allowed in _ALLOWED.items() if name in allowed]
    return InputError(
        f"{PREFIX}{name}={value!r} has no effect with {PREFIX}run={kind.value!r}",
        consequence="It would be ignored, and the run would take more or less than was requested",
        remedy=f"leave it out, or choose {PREFIX}run={' or '.join(kinds)}",
    )
