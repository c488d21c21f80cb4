"""What a person asked of one run: as usual, everything, a range of their own, some partitions, or only a report.

    run           what is captured                                       the checkpoint
    usual         what came since the checkpoint                         moves
    full          all live rows                                          stays, unless asked to move
    snapshot      what came after a snapshot                             stays
    time          what came after a moment                               stays
    partitions    all live rows of some partitions                       stays
    dry_run       as above, counted and reported; no table is made       stays

All but the usual run are *detached* from the checkpoint: never pending, never committed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_ips.core.settings import CaptureSettings

PREFIX: Final = "ips_"
"""What the names of our Params begin with, so that they can stand beside a DAG's own."""

LIMITS: Final = ("max_snapshots", "max_files", "max_bytes")
_UNTIL: Final = ("until_snapshot", "until_time")


class Run(StrEnum):
    """The ways to run."""

    USUAL = "usual"
    FULL = "full"
    SNAPSHOT = "snapshot"
    TIME = "time"
    PARTITIONS = "partitions"


_TAKES: Final[Mapping[Run, tuple[str, ...]]] = {
    Run.USUAL: LIMITS,
    Run.FULL: (),
    Run.SNAPSHOT: ("since_snapshot", *_UNTIL, "partitions", *LIMITS),
    Run.TIME: ("since_time", *_UNTIL, "partitions", *LIMITS),
    Run.PARTITIONS: ("partitions", "everything"),
}
_NEEDS: Final[Mapping[Run, str]] = {
    Run.SNAPSHOT: "since_snapshot",
    Run.TIME: "since_time",
    Run.PARTITIONS: "partitions",
}
_TOLD: Final[Mapping[Run, str]] = {
    Run.USUAL: "the usual range",
    Run.FULL: "a full refresh",
    Run.SNAPSHOT: "a range from a snapshot",
    Run.TIME: "a range from a moment",
    Run.PARTITIONS: "some partitions in full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one run was asked for, checked. ``Asked()`` is the usual run."""

    run: Run = Run.USUAL
    since_snapshot: str | None = None
    since_time: str | None = None
    until_snapshot: str | None = None
    until_time: str | None = None
    partitions: str | None = None
    max_snapshots: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    everything: bool = False
    """A filter that selects all there is was meant so."""

    dry_run: bool = False
    move_checkpoint: bool = False

    def __post_init__(self) -> None:
        """Refuse what contradicts itself: whoever filled in a field meant it."""
        _check_types(self)
        for name in ("since_time", "until_time"):
            _moment(name, getattr(self, name))
        self._check_fields()
        self._check_flags()

    def _check_fields(self) -> None:
        needed = _NEEDS.get(self.run)
        if needed is not None and getattr(self, needed) is None:
            raise InputError(
                f"{PREFIX}run={self.run.value!r} without {PREFIX}{needed}",
                consequence="It is not said what to capture",
                remedy=f"fill in {PREFIX}{needed}, or choose another {PREFIX}run",
            )
        for name in ("since_snapshot", "since_time", *_UNTIL, "partitions", *LIMITS):
            if getattr(self, name) is not None and name not in _TAKES[self.run]:
                raise _beside_the_point(self.run, name, getattr(self, name))
        ends = [name for name in (*_UNTIL, *LIMITS) if getattr(self, name) is not None]
        if any(name in _UNTIL for name in ends) and len(ends) > 1:
            raise InputError(
                f"{' and '.join(PREFIX + name for name in ends)} contradict each other",
                consequence="Each says where the range ends",
                remedy="leave all but one of them out",
            )

    def _check_flags(self) -> None:
        if self.everything and self.run is not Run.PARTITIONS:
            raise _beside_the_point(self.run, "everything", self.everything)
        if self.move_checkpoint and self.dry_run:
            raise InputError(
                f"{PREFIX}dry_run and {PREFIX}move_checkpoint contradict each other",
                consequence="A dry run changes nothing",
                remedy="look first with the dry run, then run without it",
            )
        if self.move_checkpoint and self.run not in (Run.USUAL, Run.FULL):
            raise InputError(
                f"{PREFIX}move_checkpoint with {PREFIX}run={self.run.value!r}",
                consequence="Such a run need not hold all that came since the checkpoint: what it leaves out would "
                "never be processed",
                remedy=f"leave it out; to move the checkpoint choose {PREFIX}run='full', or `airflow ips seed`",
            )

    @property
    def is_detached(self) -> bool:
        """Neither pending nor committed: the checkpoint neither leads it nor follows it."""
        return self.dry_run or not (self.run is Run.USUAL or self.move_checkpoint)

    @property
    def is_usual(self) -> bool:
        """Nothing out of the ordinary, limits at most."""
        return self.run is Run.USUAL and not self.dry_run

    @property
    def since_time_ms(self) -> int | None:
        """``since_time`` as milliseconds."""
        return _moment("since_time", self.since_time)

    @property
    def until_time_ms(self) -> int | None:
        """``until_time`` as milliseconds."""
        return _moment("until_time", self.until_time)

    def settings(self, usual: CaptureSettings) -> CaptureSettings:
        """How to capture then. A range of one's own has limits of its own: what it left out would not come again."""
        limits = {name: getattr(self, name) for name in LIMITS}
        if self.run is Run.USUAL:
            return replace(usual, **{name: value for name, value in limits.items() if value is not None})
        return replace(usual, full_refresh_above=None, **limits)

    def __str__(self) -> str:
        """As logs and errors tell it."""
        given = {name: value for name, value in self.to_json().items() if name not in ("run", "dry_run")}
        told = ", ".join([_TOLD[self.run], *(f"{name} {value}" for name, value in given.items() if value is not True)])
        return f"{told}{', and to move the checkpoint' if self.move_checkpoint else ''}" + (
            " (dry run)" if self.dry_run else ""
        )

    def to_json(self) -> dict[str, Any]:
        """What was filled in, as the record shows it."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in given.items() if name == "run" or value not in (None, False)}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Asked:
        """Read a run's params. Others than ours are the DAG's; one of ours that is unknown is a misspelt wish."""
        return cls._of({name.removeprefix(PREFIX): v for name, v in params.items() if name.startswith(PREFIX)})

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Asked:
        """Parse what :meth:`to_json` wrote."""
        return cls._of(raw)

    @classmethod
    def _of(cls, ours: Mapping[str, Any]) -> Asked:
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(ours) - known):
            raise InputError(
                f"param {PREFIX + unknown[0]!r} is unknown",
                consequence="What was asked for would not be done, and something else would",
                remedy=f"use any of {', '.join(PREFIX + f.name for f in fields(cls))}; names that begin with "
                f"{PREFIX!r} are this package's",
            )
        given = {name: value for name, value in ours.items() if value is not None and value != ""}
        run = given.pop("run", Run.USUAL)
        if run not in list(Run):
            raise InputError(
                f"{PREFIX}run={run!r} is unknown",
                consequence="It is not said what to capture",
                remedy=f"use one of {', '.join(repr(r.value) for r in Run)}",
            )
        return cls(run=Run(run), **given)


def _check_types(asked: Asked) -> None:
    for name in ("everything", "dry_run", "move_checkpoint"):
        if not isinstance(getattr(asked, name), bool):
            raise _malformed(name, getattr(asked, name), "neither true nor false", "true or false, without quotes")
    for name in ("since_snapshot", "until_snapshot"):
        value = getattr(asked, name)
        if value is not None and not (isinstance(value, str) and value.isascii() and value.isdigit()):
            raise _malformed(
                name, value, "no snapshot id", "a string of digits: such numbers do not survive a browser as numbers"
            )
    for name in LIMITS:
        value = getattr(asked, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise _malformed(name, value, "not a whole number above zero", "1 or more, or nothing for no limit")
    if asked.partitions is not None and not str(asked.partitions).strip():
        raise _malformed("partitions", asked.partitions, "no filter", "a condition such as day >= '2026-10-01'")


def _moment(name: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        what = "no point in time" if moment is None else "a time without its zone"
        raise _malformed(name, value, what, 'an ISO timestamp with its zone, such as "2026-10-01T00:00:00+00:00"')
    return int(moment.timestamp() * 1000)


def _malformed(name: str, value: object, what: str, remedy: str) -> InputError:
    return InputError(
        f"{PREFIX}{name}={value!r} is {what}",
        consequence="A guess could capture other rows than were meant",
        remedy=f"give {remedy}",
    )


def _beside_the_point(run: Run, name: str, value: object) -> InputError:
    fits = [repr(each.value) for each, takes in _TAKES.items() if name in takes]
    return InputError(
        f"{PREFIX}{name}={value!r} says nothing about {PREFIX}run={run.value!r}",
        consequence="It would be ignored, and the run would take more or less than was meant",
        remedy=f"leave it out, or choose {PREFIX}run={' or '.join(fits)}",
    )
