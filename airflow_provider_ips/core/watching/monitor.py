"""A watch in progress: what each poll of its sources finds, apart from what was reported before.

An event only wakes a DAG up. Its capture starts at the checkpoint, so what was reported is remembered for one purpose:
not to report it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from airflow_provider_ips.core.errors import InputError, SourceError
from airflow_provider_ips.core.history.snapshots import TableHistory, head_position
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.json_fields import JsonObject, is_whole_number
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.core.watching.backlog import Backlog, backlog_across_rollback, backlog_of
from airflow_provider_ips.core.watching.thresholds import Readiness, Require, assess
from airflow_provider_ips.core.watching.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceResult:
    """What one poll found in one source. ``backlog`` is None if the source does not exist yet, or has an ``error``."""

    source: Source
    readiness: Readiness
    start: Position | None = None
    head: Position | None = None
    backlog: Backlog | None = None
    error: SourceError | None = None

    def to_json(self) -> dict[str, Any]:
        found = {} if self.backlog is None else self.backlog.to_json()
        return {**found, **self.source.to_json(), "ready": self.readiness.ready, "reason": self.readiness.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """What one poll found in all watched sources."""

    ready: bool
    sources: tuple[SourceResult, ...]

    @property
    def error(self) -> SourceError | None:
        """The error of the first source that has one."""
        return next((each.error for each in self.sources if each.error is not None), None)

    def to_json(self) -> dict[str, Any]:
        return {"tables": [each.to_json() for each in self.sources]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(JsonObject):
    """The head up to which a source was reported, or found without rows, for a consumer that was at ``start``."""

    start: Position | None
    head: Position


@dataclass(frozen=True, slots=True)
class ReportedSources:
    """What a watcher has reported of each source, and when, as Airflow's asset state holds it."""

    sources: Mapping[Source, Reported]
    event_at_ms: int | None = None
    """The time of the newest event. Only a watcher with a ``min_interval`` needs it, and writes it."""

    def to_json(self) -> dict[str, Any]:
        """Names are values, because Airflow masks values under keys that look like secrets."""
        return {
            "schema_version": 1,
            "tables": [
                {"table": source.table, "branch": source.branch, **self.sources[source].to_json()}
                for source in sorted(self.sources)
            ],
            **({} if self.event_at_ms is None else {"event_at_ms": self.event_at_ms}),
        }

    @classmethod
    def from_json(cls, raw: object) -> Self:
        """Parse what :meth:`to_json` wrote. Raises one of ``PARSE_ERRORS`` for anything else."""
        if not isinstance(raw, Mapping) or raw["schema_version"] != 1:
            raise ValueError("not a watermark of schema version 1")
        event_at_ms = raw.get("event_at_ms")
        if event_at_ms is not None and not is_whole_number(event_at_ms, least=0):
            raise ValueError(f"event_at_ms is {event_at_ms!r}, not a time in milliseconds")
        return cls(
            {
                Source.from_json({"source": entry["table"], "branch": entry["branch"]}): Reported.from_json(entry)
                for entry in raw["tables"]
            },
            event_at_ms,
        )


@dataclass(slots=True)
class Monitor:
    """Judges poll after poll, and leaves out what was reported before."""

    watch: Watch
    reported: dict[Source, Reported] = field(default_factory=dict)
    event_at_ms: int | None = None
    _known: dict[Source, tuple[Position | None, int | None, Backlog]] = field(default_factory=dict)
    _was_missing: set[Source] = field(default_factory=set)

    def judge(
        self,
        histories: Mapping[Source, TableHistory | None],
        positions: Mapping[Source, Position | None],
        *,
        now_ms: int,
    ) -> PollResult:
        """Judge every source that was loaded. It may read manifests, so never call it in an event loop."""
        results = tuple(
            self._judge_source(table, histories[table.source], positions.get(table.source), now_ms)
            for table in self.watch.sources
            if table.source in histories
        )
        is_complete = len(results) == len(self.watch.sources) or self.watch.require is Require.ANY
        ready = is_complete and self.watch.require.is_met([result.readiness.ready for result in results])
        return PollResult(ready=ready, sources=results)

    def may_report(self, now_ms: int) -> bool:
        """Whether the newest event is ``min_interval`` ago. What came since is not lost: the next polls find it again.

        An event in the future is one of a clock that was set back since, and holds nothing up.
        """
        if self.watch.min_interval_s is None or self.event_at_ms is None:
            return True
        return not 0 <= now_ms - self.event_at_ms < self.watch.min_interval_s * 1000

    def mark_reported(self, result: PollResult, *, now_ms: int) -> None:
        """Leave out the rows and errors of this result from now on."""
        self.event_at_ms = None if self.watch.min_interval_s is None else now_ms
        for each in result.sources:
            is_ready = result.ready and each.readiness.ready  # else its rows are part of no event yet
            if each.head is not None and (is_ready or each.error is not None):
                self.reported[each.source] = Reported(start=each.start, head=each.head)

    def _judge_source(
        self, table: SourceTable, history: TableHistory | None, start: Position | None, now_ms: int
    ) -> SourceResult:
        source = table.source
        if history is None:
            self._was_missing.add(source)
            return SourceResult(source=source, readiness=Readiness(ready=False, reason=f"{source} does not exist yet"))
        settings = table.settings(self.watch.settings)
        try:
            backlog = self._backlog(source, settings, history, start)
        except SourceError as error:
            refused = Readiness(ready=False, reason=str(error))
            return SourceResult(source=source, start=start, head=head_position(history), error=error, readiness=refused)
        # From "latest" in an empty table, what comes next is new. From "full" it is anyway.
        is_place = backlog.head.snapshot_id is not None or settings.initial == "latest"
        if backlog.snapshots == 0 and not backlog.note and is_place:
            self.reported[source] = Reported(start=start, head=backlog.head)
        readiness = assess(backlog, self.watch.thresholds, now_ms=now_ms)
        return SourceResult(source=source, start=start, head=backlog.head, backlog=backlog, readiness=readiness)

    def _backlog(
        self, source: Source, settings: CaptureSettings, history: TableHistory, start: Position | None
    ) -> Backlog:
        """Find what came since the last report, or since the consumer's position if that has moved in between."""
        if source in self._was_missing and self.watch.consumer is None:  # all that it has came while it was watched
            settings = replace(settings, initial="full") if settings.initial == "latest" else settings
        reported = self.reported.get(source)
        base = reported.head if reported is not None and reported.start == start else start
        head_id = None if history.head is None else history.head.snapshot_id
        known = self._known.get(source)
        if known is not None and known[:2] == (base, head_id):
            return known[2]
        if reported is not None and base is reported.head:
            backlog = backlog_across_rollback(history, reported=base, settings=settings)
        else:
            backlog = backlog_of(history, committed=base, settings=settings)
        self._known[source] = (base, head_id, backlog)
        return backlog


def missing_source(source: Source) -> InputError:
    """The error for a source that does not exist, if ``missing="fail"``."""
    return InputError(
        f"{source} does not exist",
        consequence="Nothing can be appended to it",
        remedy="check the name and the branch, or set missing='wait' to wait until it is created",
    )
