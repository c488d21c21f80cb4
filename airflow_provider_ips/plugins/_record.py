"""A capture's record as a page shows it: every fact already in words, nothing that a template has to work out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from airflow_provider_ips.core.documents import many_of, one_of, text_of, texts_of
from airflow_provider_ips.core.positions import Position, format_time
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.operators._log import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMA_VERSION: Final = 1
UNKNOWN: Final = "unknown"
_KINDS: Final = {
    "range": "what was added since the last commit",
    "full": "all live files of the table",
    "resync": "the live files that are newer than the last commit",
    "empty": "nothing: the table gained nothing",
}
_NOT_ASKED: Final = ("run", "asked", "detached", "replayed", "settled")
"""What is in ``requested`` and shown elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One end of a range."""

    snapshot: str
    at: str

    @classmethod
    def from_json(cls, raw: Mapping[str, Any] | None) -> Self:
        """Read a position; None is before everything."""
        if raw is None:
            return cls(snapshot="the beginning", at="")
        position = Position.from_json(raw)
        snapshot = "the empty table" if position.snapshot_id is None else str(position.snapshot_id)
        known = position.snapshot_id is not None and position.committed_at_ms
        return cls(snapshot=snapshot, at=format_time(position.committed_at_ms) if known else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Files, rows and bytes, in words."""

    files: str
    rows: str
    size: str

    @classmethod
    def of(cls, volume: Volume) -> Self:
        """What is unknown is said to be."""
        shown = UNKNOWN if volume.size_bytes is None else size(volume.size_bytes)
        return cls(files=_number(volume.files), rows=_number(volume.records), size=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A name and what it is."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """What became of one snapshot."""

    snapshot: str
    operation: str
    decision: str
    reason: str
    amount: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One table of a capture."""

    name: str
    kind: str
    start: Place
    end: Place
    captured: Amount
    whole: Amount
    captured_volume: Volume
    whole_volume: Volume
    avoided: str
    tables: tuple[Fact, ...]
    bounds: tuple[Fact, ...]
    notes: tuple[str, ...]
    snapshots: str
    verdicts: tuple[VerdictRow, ...]
    unlisted: int

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], engine_catalog: str | None) -> Self:
        """Read one entry of the record's ``sources``."""
        branch, name = text_of(raw, "branch"), text_of(raw, "source")
        captured, whole = Volume.from_json(raw), one_of(raw, "table", Volume.from_json)
        verdicts, counts = many_of(raw, "verdicts", _verdict), raw["snapshots"]
        return cls(
            name=name if branch == "main" else f"{name} (branch {branch})",
            kind=_KINDS.get(raw["kind"], str(raw["kind"])),
            start=Place.from_json(raw["from"]),
            end=Place.from_json(raw["to"]),
            captured=Amount.of(captured),
            whole=Amount.of(whole),
            captured_volume=captured,
            whole_volume=whole,
            avoided=_avoided(raw["bytes_avoided"], whole.size_bytes),
            tables=tuple(_tables(raw, engine_catalog)),
            bounds=tuple(_bounds(raw)),
            notes=tuple(_notes(raw)),
            snapshots=", ".join(f"{count:,} {decision}" for decision, count in counts.items() if count),
            verdicts=verdicts,
            unlisted=max(sum(counts.values()) - len(verdicts), 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One capture."""

    capture_id: str
    consumer: str
    mode: str
    run_after: str
    sources: tuple[Source, ...]
    asked: tuple[Fact, ...]
    settings: tuple[Fact, ...]
    is_dry: bool
    is_filtered: bool
    is_detached: bool
    is_replay: bool
    is_settled: bool

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read the XCom ``capture``. Raises one of ``PARSE_ERRORS`` on anything else."""
        if raw["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"it has schema_version {raw['schema_version']!r}, of another release of this package")
        requested = raw["requested"]
        asked = requested.get("asked") or {}
        catalog = requested.get("engine_catalog")
        return cls(
            capture_id=text_of(raw, "capture_id"),
            consumer=text_of(raw, "consumer"),
            mode=text_of(raw, "mode"),
            run_after=str(requested["run"]["run_after"]),
            sources=many_of(raw, "sources", lambda source: Source.from_json(source, catalog)),
            asked=tuple(_facts(asked)) if set(asked) - {"run"} or asked.get("run", "usual") != "usual" else (),
            settings=tuple(_facts({k: v for k, v in requested.items() if k not in _NOT_ASKED})),
            is_dry=bool(asked.get("dry_run")),
            is_filtered=bool(asked.get("partitions")),
            is_detached=bool(requested.get("detached")),
            is_replay=bool(requested.get("replayed")),
            is_settled=bool(requested.get("settled")),
        )

    @property
    def total(self) -> Amount:
        """All sources together."""
        return Amount.of(_sum([source.captured_volume for source in self.sources]))

    @property
    def avoided(self) -> str:
        """What downstream need not read of all sources together."""
        captured = _sum([source.captured_volume for source in self.sources]).size_bytes
        whole = _sum([source.whole_volume for source in self.sources]).size_bytes
        return _avoided(None if captured is None or whole is None else max(whole - captured, 0), whole)


def _verdict(raw: Mapping[str, Any]) -> VerdictRow:
    return VerdictRow(
        snapshot=text_of(raw, "snapshot_id"),
        operation=text_of(raw, "operation"),
        decision=text_of(raw, "decision"),
        reason=str(raw["reason"]),
        amount=Amount.of(Volume.from_json(raw)),
    )


def _tables(raw: Mapping[str, Any], engine_catalog: str | None) -> Iterator[Fact]:
    names = (("read in place of the source", raw["icdc_table"]), ("what changed rows were before", raw["before_table"]))
    for purpose, name in names:
        if name is not None:
            yield Fact(name=purpose, value=f"{engine_catalog}.{name}" if engine_catalog else str(name))


def _bounds(raw: Mapping[str, Any]) -> Iterator[Fact]:
    for bound in (*raw["partitions"], *raw["ranges"]):
        shown = f"{bound['lower']} to {bound['upper']}" if bound["known"] else f"{UNKNOWN}: {bound['reason']}"
        yield Fact(name=str(bound["column"]), value=str(bound["lower"]) if _is_one(bound) else shown)


def _is_one(bound: Mapping[str, Any]) -> bool:
    return bool(bound["known"]) and bound["lower"] == bound["upper"]


def _notes(raw: Mapping[str, Any]) -> Iterator[str]:
    if raw["superset"]:
        exact = f"row-exact where {raw['predicate']}" if raw["predicate"] else str(raw["no_predicate"])
        yield f"It holds rows that did not change, too ({exact})."
    yield from texts_of(raw, "warnings")


def _facts(values: Mapping[str, Any]) -> Iterator[Fact]:
    for name, value in values.items():
        if value not in (None, False, "", [], {}):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield Fact(name=str(name).replace("_", " "), value=shown)


def _avoided(avoided: int | None, whole: int | None) -> str:
    if avoided is None or not whole:
        return UNKNOWN if avoided is None else size(avoided)
    return f"{size(avoided)} ({100 * avoided / whole:.1f} %)"


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _sum(volumes: list[Volume]) -> Volume:
    def total(numbers: list[int | None]) -> int | None:
        return None if None in numbers else sum(n for n in numbers if n is not None)

    return Volume(
        files=total([v.files for v in volumes]),
        records=total([v.records for v in volumes]),
        size_bytes=total([v.size_bytes for v in volumes]),
    )
