"""Fires an event when Iceberg tables gain rows, for a deferred sensor and for an AssetWatcher."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_ips import compat, config
from airflow_provider_ips.core.errors import InputError, IpsError
from airflow_provider_ips.core.sightings.consumer_sighting import SeenBy
from airflow_provider_ips.core.watching.monitor import Monitor, missing_source
from airflow_provider_ips.core.watching.watch import Watch, parse_interval, parse_since, watched_to_text
from airflow_provider_ips.iceberg.gc_pause import LONG_LIVED
from airflow_provider_ips.runs.environment import now_ms, open_named_store
from airflow_provider_ips.watching import (
    Loaded,
    PollSight,
    Tables,
    Watermark,
    in_thread,
    is_outage,
    read_positions,
    shared_tables,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Hashable, Sequence
    from datetime import datetime, timedelta

    from airflow_provider_ips.core.identifiers import Source
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.settings import SourceTable
    from airflow_provider_ips.core.watching.monitor import PollResult
    from airflow_provider_ips.core.watching.thresholds import AtLeast
    from airflow_provider_ips.dag_graph import CaptureTask


MAX_BACK_OFF_S = 300.0
"""The longest pause between two attempts while a catalog does not answer, unless the poll interval is longer."""

SETTLE_S = 2.0
"""How long to wait before the watermark is saved. Airflow stores an event a moment after the trigger has yielded it. If
the triggerer dies in between, a watermark that was saved earlier would lose the event; one that was not saved yet only
repeats it, and an event is only a wake-up."""


class IcebergAppendTrigger(BaseEventTrigger):
    """
    Fires when Iceberg tables hold appended rows beyond a consumer's checkpoint, a position, or the last event.

    Never fires for compaction, expiry, rollback or an empty commit. With all three ``data_operations`` it fires for
    rows that were changed or removed, too. An event is a wake-up, not a cursor: what a run processes comes from its
    checkpoint.

    Costs one catalog load per table and ``poll_interval``, however many triggers of one triggerer watch the table, and
    reads manifests only if the head moved by something other than compaction. All triggers of one triggerer together
    make at most four calls at a time, in threads of their own. While no table can be loaded, the pauses grow to five
    minutes.

    Parameters that are not described here are those of
    :class:`~airflow_provider_ips.sensors.iceberg_append.IcebergAppendSensor`.

    :param table: ``"db.t"``, a :class:`SourceTable`, or a list of these.
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog.
    :param consumer: Look beyond the checkpoint of this consumer. Rows are reported again if they are still left when
        the checkpoint has moved, as after a bounded catch-up.
    :param since: Look beyond a snapshot id or an ISO timestamp with a time zone. Without this and ``consumer`` the
        first event is about the table as it is (``initial``), every other about rows since the previous event.
    :param initial: Where to start without a checkpoint and ``since``: ``"full"`` or ``"latest"``.
    :param missing: ``"wait"`` for a table that does not exist yet, or ``"fail"`` (for a sensor only; a watcher waits).
    :param checkpoint_store: Where the consumer's checkpoint lives, by name; the default is ``[ips] checkpoint_store``.
    :param poll_interval: Seconds between two polls.
    :param once: For a sensor: yield one event and end, also for an error that waiting does not solve. A watcher never
        ends.
    :param give_up_at_ms: With ``once``: when to yield the event of a timeout.
    :param min_interval: The least time between two events (timedelta or seconds). What comes in between is reported
        when it is over, in one event.
    """

    def __init__(
        self,
        *,
        table: str | SourceTable | Sequence[str | SourceTable],
        iceberg_conn_id: str = "iceberg_default",
        branch: str = "main",
        consumer: str | None = None,
        since: str | int | datetime | None = None,
        initial: str | None = None,
        data_operations: Collection[str] = ("append",),
        on_other_operation: str = "fail",
        on_gap: str = "fail",
        min_files: int | AtLeast | Sequence[float | None] | None = None,
        min_records: int | AtLeast | Sequence[float | None] | None = None,
        min_bytes: int | AtLeast | Sequence[float | None] | None = None,
        quiet_for: timedelta | float | Sequence[float | None] | None = None,
        or_after: timedelta | float | None = None,
        min_interval: timedelta | float | None = None,
        require: str = "any",
        missing: str = "wait",
        checkpoint_store: str | None = None,
        poll_interval: float = 60.0,
        once: bool = False,
        give_up_at_ms: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self.watch = Watch.parse(
            table=table,
            branch=branch,
            consumer=consumer,
            since=since,
            initial=initial,
            data_operations=tuple(data_operations) if not isinstance(data_operations, str) else data_operations,
            on_other_operation=on_other_operation,
            on_gap=on_gap,
            min_files=min_files,
            min_records=min_records,
            min_bytes=min_bytes,
            quiet_for=quiet_for,
            or_after=or_after,
            min_interval=min_interval,
            require=require,
            missing=missing,
        )
        self.iceberg_conn_id = iceberg_conn_id
        config.check_store(checkpoint_store)
        self.checkpoint_store = checkpoint_store
        self.since = parse_since(since)
        self.initial = initial
        self.poll_interval = parse_interval("poll_interval", poll_interval)
        self.once = once
        if once and min_interval is not None:
            raise InputError(
                f"min_interval={min_interval!r} with once=True",
                consequence="There is only one event, so it would have no effect",
                remedy="leave it out; a sensor can wait for a pause by quiet_for",
            )
        self.give_up_at_ms = give_up_at_ms
        self.sources = tuple(table.source for table in self.watch.sources)
        self._sight = PollSight(self.watch, iceberg_conn_id, SeenBy.TRIGGER)

    @classmethod
    def for_capture(cls, capture: CaptureTask, **parameters: Any) -> Self:
        """
        Watch the tables of a capture beyond its checkpoint: table, connection, consumer and rules are the capture's.

        An asset is there before the DAG that it starts, so create the capture before the DAG, with a ``consumer``;
        ``capture >> …`` within the DAG then adds it.

        :param capture: An ``IpCaptureOperator`` without templates, because a watcher cannot render them.
        :param parameters: The other parameters of this class.
        """
        from airflow_provider_ips.dag_checks.watched_capture import refuse_templates, settled_by_capture

        settled = settled_by_capture(capture, parameters)
        refuse_templates(settled)
        return cls(**{**parameters, **settled})

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return only strings, numbers and flat lists, because Airflow compares triggers by their arguments."""
        settings = self.watch.settings
        return (
            "airflow_provider_ips.triggers.iceberg_append.IcebergAppendTrigger",
            {
                "table": [watched_to_text(source) for source in self.watch.sources],
                "iceberg_conn_id": self.iceberg_conn_id,
                "consumer": self.watch.consumer,
                "since": self.since,
                "initial": self.initial,
                "data_operations": list(settings.data_operations),
                "on_other_operation": settings.on_other_operation,
                "on_gap": settings.on_gap,
                **self.watch.thresholds.to_json(),
                "min_interval": self.watch.min_interval_s,
                "require": self.watch.require.value,
                "missing": self.watch.missing,
                "checkpoint_store": self.checkpoint_store,
                "poll_interval": self.poll_interval,
                "once": self.once,
                "give_up_at_ms": self.give_up_at_ms,
            },
        )

    def shared_stream_key(self) -> Hashable:
        """Let watchers of the same tables share one poll, whatever each of them waits for."""
        return ("ips", self.iceberg_conn_id, self.sources, self.poll_interval)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Loaded]:
        """Load the tables once per interval, for all triggers that share the poll."""
        one_of_many = cls(**{**kwargs, "give_up_at_ms": None})
        LONG_LIVED.has_grown = True
        async for loaded in one_of_many.poll(shared_tables(one_of_many.iceberg_conn_id)):
            LONG_LIVED.freeze_if_due()
            yield loaded

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll alone: for ``dag.test()`` and wherever streams are not shared."""
        async for event in self.filter_shared_stream(self.poll(Tables(self.iceberg_conn_id))):
            yield event

    async def poll(self, tables: Tables) -> AsyncIterator[Loaded]:
        """Load the tables once per interval, and less often while none of them can be loaded."""
        failures = 0
        with tables.kept(self.sources):
            while True:
                started_s = time.monotonic()
                loaded = await tables.load_all(self.sources)
                failures = failures + 1 if loaded.errors and not loaded.histories else 0
                pause_s = self._pause_s(failures)
                yield replace(loaded, next_in_s=pause_s)
                await asyncio.sleep(pause_s - (time.monotonic() - started_s))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Loaded]) -> AsyncIterator[TriggerEvent]:
        """Judge what each poll has loaded, and yield an event if it is ready or has a problem."""
        monitor, watermark = Monitor(self.watch), Watermark(compat.asset_state_of(self, in_thread), self.log)
        async for loaded in shared_stream:
            event = await self._event_of(loaded, monitor, watermark)
            if event is not None:
                yield event
                if self.once:
                    return
                await asyncio.sleep(min(SETTLE_S, self.poll_interval))
            await watermark.save(monitor)

    async def _event_of(self, loaded: Loaded, monitor: Monitor, watermark: Watermark) -> TriggerEvent | None:
        """Decide whether one poll is worth an event.

        A watcher logs every error and goes on: if it ended, Airflow would start it again every second.
        """
        try:
            await watermark.restore(monitor)
            for error in loaded.errors.values():
                self._raise_or_log(error, loaded)
            outcome = await self._judge(monitor, loaded)
        except Exception as error:
            if self.once and not is_outage(error):
                if isinstance(error, IpsError):
                    return self._event("problem", {"problem": str(error)})
                raise
            self._log_error(error, loaded)
        else:
            if (outcome.ready or outcome.error is not None) and monitor.may_report(now_ms()):
                monitor.mark_reported(outcome, now_ms=now_ms())
                return self._event("ready" if outcome.ready else "problem", outcome.to_json())
        return self._timed_out()

    async def _judge(self, monitor: Monitor, loaded: Loaded) -> PollResult:
        positions: dict[Source, Position | None] | None = {}
        if self.watch.consumer is not None:
            positions = await in_thread(self._read_positions, self.watch.consumer)
        if positions is None and not self.once:
            self.log.info("Consumer %s has no checkpoint yet: the whole table is new to it.", self.watch.consumer)
        if self._sight.is_due(now_ms()):
            await in_thread(self._sight.note, loaded.histories, positions or {}, now_ms=now_ms())
        outcome = await in_thread(monitor.judge, loaded.histories, positions or {}, now_ms=now_ms())
        for source_result in outcome.sources:
            self.log.log(logging.INFO if self.once else logging.DEBUG, "%s", source_result.readiness.reason)
        for source, history in loaded.histories.items():
            if history is None and self.once and self.watch.missing == "fail":
                raise missing_source(source)
        return outcome

    def _read_positions(self, consumer: str) -> dict[Source, Position | None] | None:
        store = open_named_store(
            self.checkpoint_store,
            iceberg_conn_id=self.iceberg_conn_id,
            open_by=lambda conn_id: shared_tables(conn_id).catalog(),
        )
        return read_positions(store, consumer, self.sources)

    def _raise_or_log(self, error: Exception, loaded: Loaded) -> None:
        if self.once and not is_outage(error):
            raise error
        self._log_error(error, loaded)

    def _log_error(self, error: Exception, loaded: Loaded) -> None:
        if is_outage(error):
            self.log.warning("%s Trying again in %.3g s.", error, loaded.next_in_s)
        else:
            self.log.error("%s", error, exc_info=None if isinstance(error, IpsError) else error)

    def _timed_out(self) -> TriggerEvent | None:
        if self.give_up_at_ms is None or now_ms() < self.give_up_at_ms:
            return None
        return self._event("timeout", {})

    def _event(self, status: str, payload: dict[str, Any]) -> TriggerEvent:
        deadline = {} if self.give_up_at_ms is None else {"give_up_at_ms": self.give_up_at_ms}
        return TriggerEvent({"status": status, **payload, **deadline})  # type: ignore[no-untyped-call]

    def _pause_s(self, failures: int) -> float:
        pause_s = min(self.poll_interval * 2.0 ** min(failures, 30), max(self.poll_interval, MAX_BACK_OFF_S))
        if self.give_up_at_ms is None:
            return pause_s
        return min(pause_s, max(self.give_up_at_ms - now_ms(), 0) / 1000 + 0.001)
