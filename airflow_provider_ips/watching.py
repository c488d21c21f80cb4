"""What the sensor and the trigger share: tables that are loaded again and again, and what was reported about them.

The catalog is kept open. For triggers, blocking calls never run in the event loop. They have a few threads of their own
rather than those that all triggers of a triggerer share: a catalog that hangs must not stop other triggers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from airflow_provider_ips import compat, config, sightings
from airflow_provider_ips.core.errors import InputError, IpsError
from airflow_provider_ips.core.json_fields import PARSE_ERRORS
from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting, SeenBy
from airflow_provider_ips.core.sightings.lag import Look, after_look
from airflow_provider_ips.core.watching.monitor import Monitor, ReportedSources, missing_source
from airflow_provider_ips.runs.environment import now_ms, open_catalog, open_named_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.checkpoint.store import CheckpointStore
    from airflow_provider_ips.core.identifiers import Source
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.watching.monitor import PollResult
    from airflow_provider_ips.core.watching.watch import Watch
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource

    Histories = Mapping[Source, IcebergSource | None]
    Positions = Mapping[Source, Position | None]


log = logging.getLogger(__name__)

MAX_CALLS_AT_ONCE = 4
"""The number of calls to catalogs and storage that all our triggers in one triggerer make at a time.

More calls would be faster with a slow catalog, but parsing the responses in more threads delays the event loop."""

CATALOG_KEPT_S = 600.0
"""Opening a REST catalog takes a token and a configuration call. A changed connection is noticed after this time."""

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call outside the event loop."""
    return await compat.run_in(_threads(), partial(function, *args, **kwargs))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_CALLS_AT_ONCE, thread_name_prefix="ips-catalog")


def is_outage(error: Exception) -> bool:
    """Whether an error may pass without anyone acting. A problem with tables, parameters or the checkpoint does not."""
    if isinstance(error, IpsError):
        return not error.is_permanent
    return isinstance(error, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The result of loading sources: for each a history, None if it does not exist yet, or the error."""

    histories: Histories
    errors: Mapping[Source, Exception]
    next_in_s: float = 0.0
    """The time until the next load, which grows while the catalog does not answer."""


@dataclass(slots=True)
class Tables:
    """The tables of one connection."""

    iceberg_conn_id: str
    _catalog_lock: threading.Lock = field(default_factory=threading.Lock)
    _catalog: Catalog | None = None
    _opened_at_s: float = 0.0
    _kept_lock: threading.Lock = field(default_factory=threading.Lock)
    """Never held during a blocking call, because the event loop takes it too."""

    _watched: Counter[Source] = field(default_factory=Counter)
    _kept: dict[Source, IcebergSource] = field(default_factory=dict)

    def load(self, source: Source) -> IcebergSource | None:
        """Load one source by one catalog load; None if it does not exist yet."""
        from airflow_provider_ips.iceberg.source.iceberg_source import open_source_if_exists

        try:
            loaded = open_source_if_exists(self.catalog(), source)
        except Exception:
            self._discard_catalog()
            raise
        return None if loaded is None else self._reuse_if_unchanged(source, loaded)

    def _reuse_if_unchanged(self, source: Source, loaded: IcebergSource) -> IcebergSource:
        """Return the metadata that was parsed before, as long as nothing was committed since.

        New objects that outlive a poll are work for the cycle collector, which holds up the event loop.
        """
        with self._kept_lock:
            kept = self._kept.get(source)
            if kept is not None and _version_of(kept) == _version_of(loaded):
                kept.table.io = loaded.table.io  # a catalog hands out credentials that expire
                return kept
            if source in self._watched:
                self._kept[source] = loaded
            return loaded

    @contextmanager
    def kept(self, sources: Sequence[Source]) -> Iterator[None]:
        """Keep the parsed metadata of these sources while at least one trigger watches them."""
        with self._kept_lock:
            self._watched.update(sources)
        try:
            yield
        finally:
            with self._kept_lock:
                self._watched -= Counter(sources)
                for source in [source for source in self._kept if source not in self._watched]:
                    del self._kept[source]

    async def load_all(self, sources: Sequence[Source]) -> Loaded:
        """Load all sources concurrently; an error of one does not hide the others."""
        results = await asyncio.gather(*(in_thread(self.load, source) for source in sources), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
        pairs = list(zip(sources, results, strict=True))
        return Loaded(
            histories={source: result for source, result in pairs if not isinstance(result, BaseException)},
            errors={source: result for source, result in pairs if isinstance(result, Exception)},
        )

    def catalog(self) -> Catalog:
        """Return the catalog, which one thread at a time opens, and which is kept for a while."""
        with self._catalog_lock:
            if self._catalog is None or time.monotonic() - self._opened_at_s > CATALOG_KEPT_S:
                self._catalog = open_catalog(self.iceberg_conn_id)
                self._opened_at_s = time.monotonic()
            return self._catalog

    def _discard_catalog(self) -> None:
        """Have the catalog opened again for the next load: its token or address may be what failed."""
        with self._catalog_lock:
            self._catalog = None


def _version_of(source: IcebergSource) -> tuple[object, ...]:
    """Return values of which every commit changes at least one.

    The name of the metadata file is not enough: a REST catalog may leave it out, or use it again.
    """
    metadata = source.metadata
    heads = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    return (
        *(source.table.metadata_location, source.table_uuid, metadata.last_updated_ms),
        *(metadata.current_snapshot_id, len(metadata.snapshots), heads),
    )


@cache
def shared_tables(iceberg_conn_id: str) -> Tables:
    """Return the one instance for all triggers of a connection in this process."""
    return Tables(iceberg_conn_id)


def read_positions(
    store: CheckpointStore, consumer: str, sources: Sequence[Source]
) -> dict[Source, Position | None] | None:
    """Read a consumer's position in each source; None if it has no checkpoint."""
    checkpoint = store.read(consumer)
    return None if checkpoint is None else {source: checkpoint.position_of(source) for source in sources}


@dataclass(slots=True)
class PollSight:
    """What polls see of their consumer, stored once in a while. Nothing that goes wrong with it stops a poll."""

    watch: Watch
    iceberg_conn_id: str
    by: SeenBy
    _due_at_ms: int = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether there is a consumer, and the last sighting is old enough."""
        return self.watch.consumer is not None and now_ms >= self._due_at_ms

    def note(self, histories: Histories, positions: Positions, *, now_ms: int) -> None:
        """Store how far the consumer is from the heads that were loaded, unless somebody has just done so."""
        if self.watch.consumer is None or not self.is_due(now_ms):
            return
        try:
            interval_ms = config.sighting_interval() // timedelta(milliseconds=1)
            self._due_at_ms = now_ms + interval_ms
            variables = sightings.task_variables()
            before = sightings.read_consumer(variables, self.watch.consumer)
            if before is not None and 0 <= now_ms - before.seen_at_ms < interval_ms:
                self._due_at_ms = before.seen_at_ms + interval_ms
                return
            seen = self._see(self.watch.consumer, histories, positions, now_ms)
            if seen.sources:
                after = after_look(before, seen, is_complete=False)
                sightings.measure_lag(after)
                sightings.write(variables, after)
        except Exception as error:  # noqa: BLE001 - it is for people, and the poll is not
            log.warning("What was seen of %s was not stored: %s", self.watch.consumer, sightings.shown(error))

    def _see(self, consumer: str, histories: Histories, positions: Positions, now_ms: int) -> ConsumerSighting:
        found = []
        for table in self.watch.sources:
            history = histories.get(table.source)
            if history is not None:
                skips = table.settings(self.watch.settings).skips_changes
                look = Look(at_ms=now_ms, by=self.by, skips_changes=skips)
                found.append(sightings.see_source(history, look, committed=positions.get(table.source)))
        return ConsumerSighting(
            consumer=consumer,
            dag_id=None,
            task_id=None,
            iceberg_conn_id=self.iceberg_conn_id,
            seen_at_ms=now_ms,
            seen_by=self.by,
            sources=tuple(found),
        )


class Poller:
    """Looks for new rows beyond the consumer's current position, or beyond a fixed one."""

    def __init__(self, watch: Watch, iceberg_conn_id: str, store: str | None, *, consumer_may_be_new: bool) -> None:
        self._watch = watch
        self._monitor = Monitor(watch)
        self._tables = Tables(iceberg_conn_id)
        self._store = open_named_store(store, iceberg_conn_id=iceberg_conn_id) if watch.consumer is not None else None
        self._sight = PollSight(watch, iceberg_conn_id, SeenBy.SENSOR)
        self._consumer_may_be_new = consumer_may_be_new
        self._sources = tuple(table.source for table in watch.sources)

    def poll(self) -> PollResult:
        """Look once. Costs one catalog load per table, and one read of the checkpoint."""
        positions = self._positions()
        histories = {source: self._tables.load(source) for source in self._sources}
        if self._watch.missing == "fail":
            for source in (source for source, history in histories.items() if history is None):
                raise missing_source(source)
        self._sight.note(histories, positions, now_ms=now_ms())
        return self._monitor.judge(histories, positions, now_ms=now_ms())

    def _positions(self) -> dict[Source, Position | None]:
        if self._watch.consumer is None or self._store is None:
            return {}
        positions = read_positions(self._store, self._watch.consumer, self._sources)
        if positions is None and not self._consumer_may_be_new:
            raise _unknown_consumer(self._watch.consumer, self._store)
        return positions or {}


def _unknown_consumer(consumer: str, store: CheckpointStore) -> InputError:
    known = ", ".join(repr(name) for name in store.consumers()) or "none"
    return InputError(
        f"consumer {consumer!r} has no checkpoint, and no capture of this DAG owns it",
        consequence="If the name is misspelt, the whole table would count as new in every run",
        remedy=f"use a consumer with a checkpoint ({known}), or set initial='full' if its first run is still to come",
    )


STATE_KEY = "ips_told"

_SEVERAL_ASSETS = "concrete inlets and outlets"
"""Part of the error that Airflow raises if a trigger serves several assets, whose states it cannot tell apart."""


class Watermark:
    """What one watcher has reported, in Airflow's asset state. Without a store it lasts as long as the trigger runs."""

    def __init__(self, store: compat.AssetState | None, log: Any) -> None:  # noqa: ANN401 - Airflow's
        self._store = store
        self._log = log
        self._is_restored = store is None
        self._stored = ReportedSources({})

    async def restore(self, monitor: Monitor) -> None:
        """Give the monitor what was stored before a restart, once. Raises if the store does not answer."""
        if self._is_restored or self._store is None:
            return
        try:
            raw = await self._store.read(STATE_KEY)
        except ValueError as error:
            if _SEVERAL_ASSETS not in str(error):
                raise
            self._go_on_without_store()
            raw = None
        if raw is not None:
            self._apply(raw, monitor)
        self._is_restored = True

    async def save(self, monitor: Monitor) -> None:
        """Store what has changed. If that fails, the worst is that a restart reports the same rows again."""
        reported = ReportedSources(dict(monitor.reported), monitor.event_at_ms)
        if self._store is None or not self._is_restored or reported == self._stored:
            return
        try:
            await self._store.write(STATE_KEY, reported.to_json())
        except Exception:  # noqa: BLE001 - a deployment may bring any backend; the next round tries again
            self._log.warning(
                "The watermark could not be stored: a restart would now report the same rows again. Trying again with "
                "the next poll.",
                exc_info=True,
            )
        else:
            self._stored = reported

    def _apply(self, raw: object, monitor: Monitor) -> None:
        try:
            stored = ReportedSources.from_json(raw)
        except PARSE_ERRORS as error:
            self._log.warning(
                "The stored watermark %s cannot be read (%s): its rows are reported again.", STATE_KEY, error
            )
        else:
            monitor.reported.update(stored.sources)
            monitor.event_at_ms = stored.event_at_ms
            self._stored = stored

    def _go_on_without_store(self) -> None:
        self._store = None
        self._log.warning(
            "Several assets share this watcher, and Airflow keeps no state for them together: a restart of the "
            "triggerer reports the newest rows again. To avoid that, give each asset a watcher with other arguments."
        )
