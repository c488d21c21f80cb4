"""What one round of looking at the watched sources comes to, and what has been told already.

An event is a wake-up, never a cursor: a watcher remembers what it has told only to keep quiet about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import InputError, SourceError
from airflow_provider_ips.core.history import head_position
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.readiness import Readiness, Sighting, assess, look, look_across_rollback
from airflow_provider_ips.core.thresholds import Require
from airflow_provider_ips.core.watch import SourceKey

if TYPE_CHECKING:
    from airflow_provider_ips.core.history import TableHistory
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.core.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a round found out about one source. No sighting: it does not exist yet, or ``error`` says what is wrong."""

    key: SourceKey
    readiness: Readiness
    start: Position | None = None
    head: Position | None = None
    sighting: Sighting | None = None
    error: SourceError | None = None

    def to_json(self) -> dict[str, Any]:
        """One entry of the XCom or event."""
        seen = {} if self.sighting is None else self.sighting.to_json()
        known = {"source": self.key.table, "branch": self.key.branch, "ready": self.readiness.ready}
        return {**seen, **known, "reason": self.readiness.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one look at all watched sources came to."""

    ready: bool
    findings: tuple[Finding, ...]

    @property
    def error(self) -> SourceError | None:
        """The first source that could not be judged."""
        return next((finding.error for finding in self.findings if finding.error is not None), None)

    def to_json(self) -> dict[str, Any]:
        """What the sensor gives as XCom and the trigger as event."""
        return {"tables": [finding.to_json() for finding in self.findings]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Up to where a source was told about (or found without rows), while its consumer stood at ``start``."""

    start: Position | None
    head: Position


@dataclass(slots=True)
class Watcher:
    """Looks round after round, and keeps quiet about what it has told already."""

    watch: Watch
    told: dict[SourceKey, Told] = field(default_factory=dict)
    _seen: dict[SourceKey, tuple[Position | None, int | None, Sighting]] = field(default_factory=dict)

    def judge(
        self,
        histories: Mapping[SourceKey, TableHistory | None],
        starts: Mapping[SourceKey, Position | None],
        *,
        now_ms: int,
    ) -> Round:
        """Look at every source that was loaded. May read manifests, so never in an event loop."""
        findings = tuple(
            self._find(source, histories[key], starts.get(key), now_ms)
            for source in self.watch.sources
            if (key := SourceKey.of(source)) in histories
        )
        complete = len(findings) == len(self.watch.sources) or self.watch.require is Require.ANY
        ready = complete and self.watch.require.holds([finding.readiness for finding in findings])
        return Round(ready=ready, findings=findings)

    def tell(self, outcome: Round) -> None:
        """Remember what an event has told, rows and problems, so that the next round is about what comes after it."""
        for finding in outcome.findings:
            if finding.head is not None and (finding.readiness.ready or finding.error is not None):
                self.told[finding.key] = Told(start=finding.start, head=finding.head)

    def _find(self, source: SourceTable, history: TableHistory | None, start: Position | None, now_ms: int) -> Finding:
        key = SourceKey.of(source)
        if history is None:
            return Finding(key=key, readiness=Readiness(ready=False, reason=f"{key} does not exist yet"))
        try:
            sighting = self._look(key, source.settings(self.watch.settings), history, start)
        except SourceError as error:
            unclear = Readiness(ready=False, reason=str(error))
            return Finding(key=key, start=start, head=head_position(history), error=error, readiness=unclear)
        if sighting.snapshots == 0 and not sighting.note and sighting.head.snapshot_id is not None:
            self.told[key] = Told(start=start, head=sighting.head)
        readiness = assess(sighting, self.watch.thresholds, now_ms=now_ms)
        return Finding(key=key, start=start, head=sighting.head, sighting=sighting, readiness=readiness)

    def _look(
        self, key: SourceKey, settings: CaptureSettings, history: TableHistory, start: Position | None
    ) -> Sighting:
        """Look beyond what was told, unless the consumer has moved since: then what it has not committed counts."""
        told = self.told.get(key)
        base = told.head if told is not None and told.start == start else start
        head_id = None if history.head is None else history.head.snapshot_id
        seen = self._seen.get(key)
        if seen is not None and seen[:2] == (base, head_id):
            return seen[2]
        if told is not None and base is told.head:
            sighting = look_across_rollback(history, reported=base, settings=settings)
        else:
            sighting = look(history, committed=base, settings=settings)
        self._seen[key] = (base, head_id, sighting)
        return sighting


def missing_source(key: SourceKey) -> InputError:
    """A source that was to be there."""
    return InputError(
        f"{key} does not exist",
        consequence="Nothing can be appended to it",
        remedy="check the name and the branch, or set missing='wait' to wait until it is created",
    )


def told_to_json(told: Mapping[SourceKey, Told]) -> dict[str, Any]:
    """Write a watermark. Names are values: Airflow masks what stands under keys that look like secrets."""
    return {
        "schema_version": 1,
        "tables": [
            {
                "table": key.table,
                "branch": key.branch,
                "start": None if entry.start is None else entry.start.to_json(),
                "head": entry.head.to_json(),
            }
            for key, entry in sorted(told.items(), key=lambda item: item[0])
        ],
    }


def told_from_json(raw: object) -> dict[SourceKey, Told]:
    """Parse what :func:`told_to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
    if not isinstance(raw, Mapping) or raw["schema_version"] != 1:
        raise ValueError("not a watermark of schema version 1")
    return {
        SourceKey(entry["table"], entry["branch"]): Told(
            start=None if entry["start"] is None else Position.from_json(entry["start"]),
            head=Position.from_json(entry["head"]),
        )
        for entry in raw["tables"]
    }
