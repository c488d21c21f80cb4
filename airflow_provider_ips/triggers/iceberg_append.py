"""An event when Iceberg tables gain rows, for a deferred sensor and for an AssetWatcher."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_ips.checkpoints.opening import check_store, open_named_store
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.watch import SourceKey, Watch, parse_interval, parse_since, watched_to_text
from airflow_provider_ips.core.watching import Watcher, missing_source
from airflow_provider_ips.operators._context import now_ms
from airflow_provider_ips.triggers._collector import LONG_LIVED
from airflow_provider_ips.triggers._memory import Memory
from airflow_provider_ips.triggers._tables import Loaded, Tables, in_thread, is_outage, read_starts, shared_tables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Hashable, Sequence
    from datetime import datetime, timedelta

    from airflow_provider_ips.core.settings import SourceTable
    from airflow_provider_ips.core.thresholds import AtLeast
    from airflow_provider_ips.core.watching import Round

MAX_BACK_OFF_S = 300.0
"""The longest pause between two attempts while a catalog is out, unless the poll interval is longer."""

SETTLE_S = 2.0
"""Airflow stores an event a moment after the trigger gave it. What is remembered sooner would be lost with the event if
the triggerer died in between; what is remembered later is told twice, and an event is only a wake-up."""


class IcebergAppendTrigger(BaseEventTrigger):
    """
    Fires when Iceberg tables hold appended rows beyond a consumer's checkpoint, a position, or the last event.

    Never fires for compaction, expiry, rollback or an empty commit. With all three ``data_operations`` it fires for
    rows that were changed or removed, too. An event is a wake-up, not a cursor: what a run processes comes from its
    checkpoint.

    Costs one catalog load per table and ``poll_interval``, however many triggers of one triggerer watch the table, and
    reads manifests only when the head moved by something else than compaction. All triggers of one triggerer together
    make at most four calls at a time, in threads of their own; while no table can be loaded, the pauses grow to five
    minutes.

    :param table: ``"db.t"``, a :class:`SourceTable`, or a list of these.
    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>` of the catalog.
    :param branch: The branch of tables given as strings.
    :param consumer: Look beyond the checkpoint of this consumer: what was told is told again once the checkpoint has
        moved and rows are left, as after a bounded catch-up.
    :param since: Look beyond a snapshot id or an ISO timestamp with its zone. Without this and ``consumer`` the first
        event is about the table as it is (``initial``), every other about what was appended since the event before.
    :param initial: Where to start without a checkpoint and ``since``: ``"full"`` or ``"latest"``.
    :param data_operations: As in a capture.
    :param on_other_operation: As in a capture.
    :param on_gap: As in a capture.
    :param min_files: Wait for so many files, or ``AtLeast(files, or_after=age)``.
    :param min_records: Wait for so many records.
    :param min_bytes: Wait for so many bytes.
    :param or_after: Let less through once the oldest snapshot is so old.
    :param require: ``"any"`` or ``"all"`` of several tables.
    :param missing: ``"wait"`` for a table that does not exist yet, or ``"fail"`` (a sensor only; a watcher waits).
    :param checkpoint_store: Where the consumer's checkpoint lives, by name; the default is ``[ips] checkpoint_store``.
    :param poll_interval: Seconds between two polls.
    :param once: Give one event and end, also for what an author must know (a sensor). A watcher goes on for ever.
    :param give_up_at_ms: With ``once``: when to give the event of a timeout.
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
        or_after: timedelta | float | None = None,
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
            or_after=or_after,
            require=require,
            missing=missing,
        )
        self.iceberg_conn_id = iceberg_conn_id
        check_store(checkpoint_store)
        self.checkpoint_store = checkpoint_store
        self.since = parse_since(since)
        self.initial = initial
        self.poll_interval = parse_interval("poll_interval", poll_interval)
        self.once = once
        self.give_up_at_ms = give_up_at_ms
        self.keys = tuple(SourceKey.of(source) for source in self.watch.sources)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Only strings, numbers and flat lists: Airflow compares triggers by their arguments."""
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
                "require": self.watch.require.value,
                "missing": self.watch.missing,
                "checkpoint_store": self.checkpoint_store,
                "poll_interval": self.poll_interval,
                "once": self.once,
                "give_up_at_ms": self.give_up_at_ms,
            },
        )

    def shared_stream_key(self) -> Hashable:
        """Watchers of the same tables share one poll, whatever each waits for in them."""
        return ("ips", self.iceberg_conn_id, self.keys, self.poll_interval)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Loaded]:
        """Load the tables once per interval, for all who share the poll."""
        one_of_many = cls(**{**kwargs, "give_up_at_ms": None})
        LONG_LIVED.has_grown = True
        async for loaded in one_of_many.poll(shared_tables(one_of_many.iceberg_conn_id)):
            LONG_LIVED.set_aside()
            yield loaded

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll alone: for ``dag.test()`` and wherever streams are not shared."""
        async for event in self.filter_shared_stream(self.poll(Tables(self.iceberg_conn_id))):
            yield event

    async def poll(self, tables: Tables) -> AsyncIterator[Loaded]:
        """Load the tables once per interval, and less often while none of them can be loaded."""
        failures = 0
        with tables.watching(self.keys):
            while True:
                started_s = time.monotonic()
                loaded = await tables.load_all(self.keys)
                failures = failures + 1 if loaded.errors and not loaded.histories else 0
                pause_s = self._pause_s(failures)
                yield replace(loaded, next_in_s=pause_s)
                await asyncio.sleep(pause_s - (time.monotonic() - started_s))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Loaded]) -> AsyncIterator[TriggerEvent]:
        """Judge what each poll brought, and tell what is worth an event."""
        watcher, memory = Watcher(self.watch), Memory(self.asset_state_store, self.log)
        async for loaded in shared_stream:
            event = await self._look(watcher, memory, loaded)
            if event is not None:
                yield event
                if self.once:
                    return
                await asyncio.sleep(min(SETTLE_S, self.poll_interval))
            await memory.keep(watcher)

    async def _look(self, watcher: Watcher, memory: Memory, loaded: Loaded) -> TriggerEvent | None:
        """Decide about one poll. A watcher outlives every error: Airflow would start it again every second."""
        try:
            await memory.restore(watcher)
            for error in loaded.errors.values():
                self._ride_out(error, loaded)
            outcome = await self._judge(watcher, loaded)
        except IpsError as error:
            if self.once and not is_outage(error):
                return self._event("problem", {"problem": str(error)})
            self._say(error, loaded)
        except Exception as error:
            if self.once and not is_outage(error):
                raise
            self._say(error, loaded)
        else:
            if outcome.ready or outcome.error is not None:
                watcher.tell(outcome)
                return self._event("ready" if outcome.ready else "problem", outcome.to_json())
        return self._timed_out()

    async def _judge(self, watcher: Watcher, loaded: Loaded) -> Round:
        known, starts = True, dict[SourceKey, Position | None]()
        if self.watch.consumer is not None:
            known, starts = await in_thread(self._read_starts, self.watch.consumer)
        if not known and not self.once:
            self.log.info("Consumer %s has no checkpoint yet: all of the table is new to it.", self.watch.consumer)
        outcome = await in_thread(watcher.judge, loaded.histories, starts, now_ms=now_ms())
        for finding in outcome.findings:
            self.log.log(logging.INFO if self.once else logging.DEBUG, "%s", finding.readiness.reason)
        for key, history in loaded.histories.items():
            if history is None and self.once and self.watch.missing == "fail":
                raise missing_source(key)
        return outcome

    def _read_starts(self, consumer: str) -> tuple[bool, dict[SourceKey, Position | None]]:
        store = open_named_store(
            self.checkpoint_store,
            iceberg_conn_id=self.iceberg_conn_id,
            open_catalog=lambda conn_id: shared_tables(conn_id).catalog(),
        )
        return read_starts(store, consumer, self.keys)

    def _ride_out(self, error: Exception, loaded: Loaded) -> None:
        if self.once and not is_outage(error):
            raise error
        self._say(error, loaded)

    def _say(self, error: Exception, loaded: Loaded) -> None:
        if is_outage(error):
            self.log.warning("%s Trying again in %.3g s.", error, loaded.next_in_s)
        else:
            self.log.error("%s", error, exc_info=None if isinstance(error, IpsError) else error)

    def _timed_out(self) -> TriggerEvent | None:
        if self.give_up_at_ms is None or now_ms() < self.give_up_at_ms:
            return None
        return self._event("timeout", {})

    def _event(self, status: str, told: dict[str, Any]) -> TriggerEvent:
        deadline = {} if self.give_up_at_ms is None else {"give_up_at_ms": self.give_up_at_ms}
        return TriggerEvent(
            {  # type: ignore[no-untyped-call]
                "status": status,
                **told,
                **deadline,
            }
        )

    def _pause_s(self, failures: int) -> float:
        pause_s = min(self.poll_interval * 2.0 ** min(failures, 30), max(self.poll_interval, MAX_BACK_OFF_S))
        if self.give_up_at_ms is None:
            return pause_s
        return min(pause_s, max(self.give_up_at_ms - now_ms(), 0) / 1000 + 0.001)
