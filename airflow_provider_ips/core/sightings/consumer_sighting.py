"""What was seen of a consumer: how far it is from the heads of its sources, and how that has developed.

    table     1 ── 2 ── 3 ── 4 ── 5 ── 6
    consumer       ▲ committed    ▲ pending    lag: 3 to 6; rest of the pending capture: 6

A sighting is for people. No capture and no commit trusts one, so it may be lost, or be damaged, and nothing is wrong
but a page. It is written as a string of at most ``MAX_BYTES``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, ClassVar, Final, NamedTuple, Self, TypeVar

from airflow_provider_ips.core.identifiers import Source, digest, is_masked_name, readable
from airflow_provider_ips.core.json_fields import Form, JsonObject, Stored
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import NO_VOLUME, UNKNOWN_VOLUME, Volume

MAX_BYTES: Final = 48_000
"""Of the text of one sighting, of a consumer or of a table: it is read and written as a whole."""

MAX_POINTS: Final = 100
MAX_HELD: Final = 20
MAX_WORDS: Final = 300
"""Characters of a reason, and of a setting."""

LONGEST_UNSEEN_S: Final = 24 * 3600
"""After this time nothing is known any more of a consumer without a target."""

SIGHTING_DIGEST: Final = 16
"""Characters of the hash at the end of a sighting's key. Keys of checkpoints end in 20, so neither is the other."""

_LONGEST_READABLE: Final = 200
_LIMIT: Final = 2**63

Part = TypeVar("Part")


class SeenBy(StrEnum):
    """Who looked."""

    CAPTURE = "capture"
    COMMIT = "commit"
    SENSOR = "sensor"
    TRIGGER = "trigger"
    WATCH = "ips_watch"
    BUTTON = "button"
    COMMAND = "command"


class Freshness(StrEnum):
    """Whether a consumer keeps up, by what was seen; the most urgent one that is true."""

    GAP = "gap"
    """A source lacks what proves the range: the next capture stops there."""

    BREACHED = "breached"
    """It lags by more than its ``target_lag``."""

    STRANDED_SOON = "stranded soon"
    """More than half of the time for which a source keeps its snapshots has passed."""

    UNKNOWN = "unknown"
    """It was not seen, or too long ago, or not completely."""

    KEPT = "kept"
    """The target is kept; or there is none, and nothing else is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag(JsonObject):
    """What lies between a position and the head. None is unknown, never zero."""

    commits: int | None
    """The number of commits with something to process: compactions are not counted."""

    volume: Annotated[Volume, Stored(inline=True)]
    """What these commits added: files, records, bytes."""

    oldest_unprocessed_at_ms: int | None
    """The time of the oldest of these commits; None if there are none, or if that is unknown."""

    def seconds(self, now_ms: int) -> float | None:
        """How long the oldest commit has waited. It grows without anybody looking."""
        if self.oldest_unprocessed_at_ms is not None:
            return max(now_ms - self.oldest_unprocessed_at_ms, 0) / 1000
        return 0.0 if self.commits == 0 else None


UNKNOWN_LAG: Final = Lag(commits=None, volume=UNKNOWN_VOLUME, oldest_unprocessed_at_ms=None)
NO_LAG: Final = Lag(commits=0, volume=NO_VOLUME, oldest_unprocessed_at_ms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRange(JsonObject):
    """The part of one source in the pending capture."""

    to_inclusive: Annotated[Position, Stored("to")]
    captured: Volume
    rest: Lag
    """The lag that is left once it is committed."""

    runway_until_ms: int | None = None
    """The runway that the checkpoint has then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSighting(JsonObject):
    """What was seen of one source of a consumer, and when."""

    source: Annotated[Source, Stored(inline=True)]
    seen_at_ms: int
    seen_by: SeenBy
    head: Position | None
    """The newest commit of the branch; None if the table did not exist, or could not be read: see ``problem``."""

    table: Volume
    """All that was live at the head."""

    committed: Position | None
    """None if nothing was committed yet. Then the lag is unknown."""

    lag: Lag
    runway_until_ms: int | None = None
    """When the retention of the table allows its expiry to remove what proves the checkpoint; None if it never does, or
    if that is unknown."""

    gap: str | None = None
    """Why no range from the checkpoint to the head can be proven; None if one can."""

    problem: str | None = None
    """Why the source could not be looked at, or not completely; None if it could."""

    pending: PendingRange | None = None
    skips_changes: bool = False
    """Commits that change or remove rows are skipped by the settings of the capture, so that they are not lag."""

    def lag_s(self, now_ms: int) -> float | None:
        """Seconds since the oldest commit that is not processed; None if unknown."""
        return self.lag.seconds(now_ms)

    def runway_s(self, now_ms: int) -> float | None:
        """Seconds until expiry may strand the checkpoint; None if it never does, or if that is unknown."""
        return None if self.runway_until_ms is None else max(self.runway_until_ms - now_ms, 0) / 1000

    def is_stranded_soon(self, now_ms: int) -> bool:
        """Whether less time is left to process the oldest commit than it has waited."""
        runway_s, lag_s = self.runway_s(now_ms), self.lag_s(now_ms)
        return runway_s is not None and lag_s is not None and runway_s < lag_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach(JsonObject):
    """A consumer lagged by more than its ``target_lag``."""

    since_ms: int
    """When the oldest unprocessed commit became older than the target."""

    over_at_ms: int | None = None
    """When it was seen that it is over; then it is only kept until people have been notified of that."""

    notified_at_ms: int | None = None
    """When people were notified; None if they were not, so far."""

    @property
    def is_open(self) -> bool:
        """Whether it still lasts."""
        return self.over_at_ms is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSighting(JsonObject):
    """The capture whose run has not committed yet. What it took is with each source."""

    capture_id: str
    run: RunIdentity
    started_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCapture(JsonObject):
    """A branch of a source that held the files of a capture when it was seen."""

    name: str
    until_ms: int
    """When its lease ends."""

    size_bytes: int | None
    """The size of the files that nothing else held; None if that is unknown."""

    seen_at_ms: int


class Point(NamedTuple):
    """One point of the charts, over all sources of a consumer. None is unknown.

    A list of numbers in JSON, which is read fast: a page shows those of a thousand consumers at once.
    """

    at_ms: int
    lag_s: int | None
    """The longest lag of any source."""

    lag_bytes: int | None
    captured_bytes: int | None = None
    """None if it is not the point of a capture, too."""

    table_bytes: int | None = None


def _read_points(where: str, value: object) -> tuple[Point, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{where} is not a list")
    for numbers in value:
        if not isinstance(numbers, list) or len(numbers) != len(Point._fields) or not all(map(_is_number, numbers)):
            raise TypeError(f"{where} holds what is not a list of {len(Point._fields)} numbers")
        if numbers[0] is None:
            raise TypeError(f"{where} holds a point without a time")
    return tuple(map(Point._make, value))


def _is_number(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value < _LIMIT)


Points = Annotated[tuple[Point, ...], Form(lambda points: [list(each) for each in points], _read_points)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSighting(JsonObject):
    """All that was seen of one consumer, in one document."""

    schema_version: ClassVar = 1

    consumer: str
    dag_id: str | None
    """None if the consumer was only seen by its checkpoint, and its name does not say."""

    task_id: str | None
    iceberg_conn_id: str
    seen_at_ms: int
    """When it was written; each source says when that one was seen."""

    seen_by: SeenBy
    sources: tuple[SourceSighting, ...] = ()
    unlisted_sources: int = 0
    """How many sources did not fit."""

    target_lag_s: int | None = None
    breach: Breach | None = None
    pending: PendingSighting | None = None
    held: Annotated[tuple[HeldCapture, ...], Stored(omitted=True)] = ()
    """The newest ``MAX_HELD`` of its branches."""

    points: Points = ()
    """The newest is last."""

    settings: tuple[tuple[str, str], ...] = ()
    """Parameters of the capture that a page shows, as pairs of name and value, because Airflow masks keys."""

    @property
    def key(self) -> str:
        """The name of its Variable."""
        return consumer_sighting_key(self.consumer)

    def source_sighting(self, source: Source) -> SourceSighting | None:
        """What was seen of one source; None if it was not seen."""
        return next((each for each in self.sources if each.source == source), None)

    def lag_s(self, now_ms: int) -> float | None:
        """The longest lag of any source; None if it is unknown for one, unless another one is known to breach."""
        seconds = [each.lag_s(now_ms) for each in self.sources]
        longest = max((each for each in seconds if each is not None), default=None)
        is_breach = longest is not None and self.target_lag_s is not None and longest > self.target_lag_s
        return longest if is_breach or (None not in seconds and not self.unlisted_sources) else None

    def is_kept(self, now_ms: int) -> bool | None:
        """Whether the target is kept at a time, by what was seen; None if that is unknown, or there is no target."""
        seconds = self.lag_s(now_ms)
        return None if seconds is None or self.target_lag_s is None else seconds <= self.target_lag_s

    def freshness(self, now_ms: int) -> Freshness:
        """Whether it keeps up at a time, by what was seen before it.

        What is committed after a look has waited for a shorter time than has passed since the look. So one that is
        younger than the target proves that the target is kept, whatever came since:

            target 1 hour, seen 20 minutes ago without lag         kept
            target 1 hour, seen 2 hours ago without lag            unknown
            target 1 hour, oldest commit of 3 hours ago            breached, whenever that was seen
        """
        if any(each.gap is not None for each in self.sources):
            return Freshness.GAP
        is_kept = self.is_kept(now_ms)
        if is_kept is False:
            return Freshness.BREACHED
        if any(each.is_stranded_soon(now_ms) for each in self.sources):
            return Freshness.STRANDED_SOON
        is_known = bool(self.sources) and self.lag_s(now_ms) is not None
        looked_at_ms = min((each.seen_at_ms for each in self.sources), default=0)
        longest_s = LONGEST_UNSEEN_S if self.target_lag_s is None else self.target_lag_s
        is_recent = now_ms - looked_at_ms <= longest_s * 1000
        return Freshness.KEPT if is_known and is_recent else Freshness.UNKNOWN

    def to_text(self) -> str:
        """Write it in at most ``MAX_BYTES``: the oldest points are left out first, then settings, then sources."""
        bare = replace(self, sources=(), points=(), settings=(), unlisted_sources=10**9)
        room = MAX_BYTES - size_of(to_text(bare))
        sources = fitting(self.sources, room)
        room -= sum(map(_size_in_list, sources))
        settings = fitting(tuple((name[:MAX_WORDS], value[:MAX_WORDS]) for name, value in self.settings), room)
        room -= sum(map(_size_in_list, settings))
        kept = replace(
            self,
            sources=sources,
            unlisted_sources=self.unlisted_sources + len(self.sources) - len(sources),
            settings=settings,
            points=fitting(self.points[: -MAX_POINTS - 1 : -1], room)[::-1],
        )
        return to_text(kept)

    @classmethod
    def parse(cls, text: str, *, captures: int | None = None) -> Self:
        """Read what :meth:`to_text` wrote. Raises one of ``PARSE_ERRORS`` for anything else.

        :param captures: Keep only so many points, the newest ones of captures, for a page that shows all consumers.
        """
        raw = json.loads(text)
        if captures is not None and isinstance(raw, dict) and isinstance(points := raw.get("points"), list):
            of_captures = [each for each in points if not isinstance(each, list) or None not in each[3:]]
            raw = {**raw, "points": of_captures[-captures:]}
        return cls.from_json(raw)


def consumer_sighting_key(consumer: str) -> str:
    """Name the Variable of a consumer's sighting."""
    return sighting_key("seen", consumer)


def sighting_key(kind: str, *names: str) -> str:
    """Name a Variable: never a name that Airflow masks, and never one of a checkpoint."""
    tail = digest(kind, *names, length=SIGHTING_DIGEST)
    shown = readable(".".join(names), limit=_LONGEST_READABLE)
    return f"ips_{kind}_{tail}" if is_masked_name(shown) else f"ips_{kind}_{shown}_{tail}"


def to_text(document: object) -> str:
    """Write a document as short as JSON allows."""
    return json.dumps(document.to_json() if isinstance(document, JsonObject) else document, separators=(",", ":"))


def size_of(text: str) -> int:
    """The bytes of a string, as a database stores it."""
    return len(text.encode())


def fitting(parts: Sequence[Part], room: int) -> tuple[Part, ...]:
    """The first parts of a list that have room, in bytes."""
    kept: list[Part] = []
    for part in parts:
        room -= _size_in_list(part)
        if room < 0:
            break
        kept.append(part)
    return tuple(kept)


def _size_in_list(part: object) -> int:
    return size_of(to_text(part)) + 1
