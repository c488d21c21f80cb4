"""What a capture decided and counted: the record that travels as XCom and stays in the checkpoint's history."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_ips.core.positions import Position

MAX_LISTED_VERDICTS = 50
"""How many verdicts the record lists by itself; the rest is counted. The log has them all."""


class Kind(StrEnum):
    """How the captured files were chosen."""

    RANGE = "range"
    FULL = "full"
    RESYNC = "resync"
    EMPTY = "empty"


class Decision(StrEnum):
    """What capture did with one snapshot."""

    CAPTURED = "captured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What capture decided for one snapshot of the range, and why. ``None`` counts are unknown, never zero."""

    snapshot_id: int
    operation: str
    decision: Decision
    reason: str
    files: int | None = 0
    records: int | None = 0
    size_bytes: int | None = 0

    def to_json(self) -> dict[str, Any]:
        """Snapshot ids as strings."""
        return {
            "snapshot_id": str(self.snapshot_id),
            "operation": self.operation,
            "decision": self.decision.value,
            "reason": self.reason,
            "files": self.files,
            "records": self.records,
            "bytes": self.size_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """Bounds of one column over the captured files; both None when any file does not tell (never narrower)."""

    column: str
    lower: Any
    upper: Any
    known: bool
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Column names are values, for Airflow masks values under keys that look like secrets."""
        return {
            "column": self.column,
            "lower": self.lower,
            "upper": self.upper,
            "known": self.known,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Files, records and bytes. ``None`` is unknown."""

    files: int | None
    records: int | None
    size_bytes: int | None

    def to_json(self) -> dict[str, int | None]:
        """As the record shows it."""
        return {"files": self.files, "records": self.records, "bytes": self.size_bytes}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        return cls(files=raw["files"], records=raw["records"], size_bytes=raw["bytes"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """One source's part of a capture."""

    source: str
    branch: str
    key: str
    kind: Kind
    icdc_table: str | None
    from_exclusive: Position | None
    to_inclusive: Position
    captured: Volume
    table: Volume
    verdicts: tuple[Verdict, ...] = ()
    ranges: tuple[ColumnRange, ...] = ()
    partitions: tuple[ColumnRange, ...] = ()
    warnings: tuple[str, ...] = ()
    before_table: str | None = None
    """Change capture: where the changed and removed rows came from, as of the start of the range."""

    before: Volume | None = None
    superset: bool = False
    """The ICDC table holds rows that did not change; ``predicate`` leaves them out where there is one."""

    predicate: str | None = None
    no_predicate: str = ""

    @property
    def icdc_tables(self) -> tuple[str, ...]:
        """Every table that was made."""
        return tuple(table for table in (self.icdc_table, self.before_table) if table is not None)

    @property
    def bytes_avoided(self) -> int | None:
        """What the job need not read, compared with the whole table."""
        if self.captured.size_bytes is None or self.table.size_bytes is None:
            return None
        return max(self.table.size_bytes - self.captured.size_bytes, 0)

    def to_json(self) -> dict[str, Any]:
        """Bounded in size however long the range is."""
        counts = {decision.value: 0 for decision in Decision}
        for verdict in self.verdicts:
            counts[verdict.decision.value] += 1
        return {
            "source": self.source,
            "branch": self.branch,
            "key": self.key,
            "kind": self.kind.value,
            "icdc_table": self.icdc_table,
            "before_table": self.before_table,
            "from": None if self.from_exclusive is None else self.from_exclusive.to_json(),
            "to": self.to_inclusive.to_json(),
            **self.captured.to_json(),
            "table": self.table.to_json(),
            "before": None if self.before is None else self.before.to_json(),
            "superset": self.superset,
            "predicate": self.predicate,
            "no_predicate": self.no_predicate,
            "bytes_avoided": self.bytes_avoided,
            "snapshots": counts,
            "verdicts": [verdict.to_json() for verdict in self.verdicts[-MAX_LISTED_VERDICTS:]],
            "ranges": [r.to_json() for r in self.ranges],
            "partitions": [r.to_json() for r in self.partitions],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRecord:
    """One run's capture over all its sources."""

    capture_id: str
    consumer: str
    mode: str
    sources: tuple[SourceRecord, ...]
    requested: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Nothing to process in any source."""
        return all(source.icdc_table is None for source in self.sources)

    def to_json(self) -> dict[str, Any]:
        """What is pushed under the XCom key ``capture``."""
        return {
            "schema_version": 1,
            "capture_id": self.capture_id,
            "consumer": self.consumer,
            "mode": self.mode,
            "requested": dict(self.requested),
            "sources": [source.to_json() for source in self.sources],
        }
