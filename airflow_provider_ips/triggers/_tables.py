"""Tables of one connection, loaded again and again: in threads, a bounded number at a time, with the catalog kept.

Nothing here runs in an event loop. Threads of our own, and not those that all triggers of a triggerer share: a catalog
that hangs must not stop what has nothing to do with it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from airflow_provider_ips.core.errors import CatalogError, IpsError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.history import TableHistory
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.core.watch import SourceKey
    from airflow_provider_ips.iceberg.source import IcebergSource

MAX_CALLS_AT_ONCE = 4
"""What all our triggers in one triggerer together ask of catalogs and storage at a time.

More would ask faster where a catalog is slow, and parsing what it answers in more threads keeps the event loop waiting
for its turn."""

CATALOG_KEPT_S = 600.0
"""Opening a REST catalog costs a token and a configuration call; a changed connection is seen after this time."""

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call outside the event loop."""
    call = partial(contextvars.copy_context().run, partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_threads(), call)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_CALLS_AT_ONCE, thread_name_prefix="ips-catalog")


def is_outage(error: Exception) -> bool:
    """Whether waiting may help. What the tables, the parameters or the checkpoint say is an answer, not an outage."""
    if isinstance(error, IpsError):
        return isinstance(error, CatalogError | StoreUnavailableError)
    return isinstance(error, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What one round of loading brought: a history, None for what does not exist yet, or the error."""

    histories: Mapping[SourceKey, TableHistory | None]
    errors: Mapping[SourceKey, Exception]
    next_in_s: float = 0.0
    """When the next round is due, which is later while the catalog is out."""


@dataclass(slots=True)
class Tables:
    """The tables behind one connection."""

    iceberg_conn_id: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _catalog: Catalog | None = None
    _opened_at_s: float = 0.0
    _keeping: threading.Lock = field(default_factory=threading.Lock)
    """Never held while anything is waited for: the event loop takes it, too."""

    _watched: Counter[SourceKey] = field(default_factory=Counter)
    _kept: dict[SourceKey, IcebergSource] = field(default_factory=dict)

    def load(self, key: SourceKey) -> IcebergSource | None:
        """Load one source: one catalog load. None if it does not exist yet."""
        from airflow_provider_ips.iceberg.presence import open_if_there

        try:
            loaded = open_if_there(self.catalog(), key.table, key.branch)
        except Exception:
            self.forget()
            raise
        return None if loaded is None else self._unless_unchanged(key, loaded)

    def _unless_unchanged(self, key: SourceKey, loaded: IcebergSource) -> IcebergSource:
        """Go on with what was parsed before while nothing was committed: what is new would be old only to be dropped.

        Every object that outlives a poll is work for the cycle collector, which holds up the event loop.
        """
        with self._keeping:
            kept = self._kept.get(key)
            if kept is not None and _state_of(kept) == _state_of(loaded):
                kept.table.io = loaded.table.io  # keys that a catalog hands out expire
                return kept
            if key in self._watched:
                self._kept[key] = loaded
            return loaded

    @contextmanager
    def watching(self, keys: Sequence[SourceKey]) -> Iterator[None]:
        """Keep what was parsed of these sources for as long as somebody watches them."""
        with self._keeping:
            self._watched.update(keys)
        try:
            yield
        finally:
            with self._keeping:
                self._watched -= Counter(keys)
                for key in [key for key in self._kept if key not in self._watched]:
                    del self._kept[key]

    async def load_all(self, keys: Sequence[SourceKey]) -> Loaded:
        """Load every source, side by side; an error of one does not hide the others."""
        results = await asyncio.gather(*(in_thread(self.load, key) for key in keys), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
        pairs = list(zip(keys, results, strict=True))
        return Loaded(
            histories={key: result for key, result in pairs if not isinstance(result, BaseException)},
            errors={key: result for key, result in pairs if isinstance(result, Exception)},
        )

    def catalog(self) -> Catalog:
        """The catalog, opened by one thread at a time and kept for a while."""
        from airflow_provider_ips.operators._context import open_catalog

        with self._lock:
            if self._catalog is None or time.monotonic() - self._opened_at_s > CATALOG_KEPT_S:
                self._catalog = open_catalog(self.iceberg_conn_id)
                self._opened_at_s = time.monotonic()
            return self._catalog

    def forget(self) -> None:
        """Open the catalog anew next time: its token or address may be what failed."""
        with self._lock:
            self._catalog = None


def _state_of(source: IcebergSource) -> tuple[object, ...]:
    """What every commit changes at least one of. A REST catalog need not name a metadata file, or may reuse a name."""
    metadata = source.metadata
    heads = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    return (
        *(source.table.metadata_location, source.table_uuid, metadata.last_updated_ms),
        *(metadata.current_snapshot_id, len(metadata.snapshots), heads),
    )


@cache
def shared_tables(iceberg_conn_id: str) -> Tables:
    """One catalog for all watchers of a connection in this process."""
    return Tables(iceberg_conn_id)


def read_starts(
    store: CheckpointStore, consumer: str, keys: Sequence[SourceKey]
) -> tuple[bool, dict[SourceKey, Position | None]]:
    """Where a consumer stands in each source, and whether it has a checkpoint at all."""
    checkpoint = store.read(consumer)
    if checkpoint is None:
        return False, dict.fromkeys(keys)
    return True, {key: checkpoint.position_of(key.table, key.branch) for key in keys}
