"""Looks at the tables of all consumers, one load for each, and the DAG that does so every ten minutes.

It sees consumers for which no run starts, too, and notifies of breaches. In a file of your DAG folder:

    from airflow_provider_ips import ips_watch

    dag = ips_watch()
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG, task

from airflow_provider_ips import sightings
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.errors import CheckpointError, IpsError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import format_time
from airflow_provider_ips.core.record import UNKNOWN_VOLUME
from airflow_provider_ips.core.settings import parse_target_lag
from airflow_provider_ips.core.sightings.consumer_sighting import (
    MAX_HELD,
    ConsumerSighting,
    Freshness,
    HeldCapture,
    SeenBy,
    SourceSighting,
)
from airflow_provider_ips.core.sightings.lag import Look, after_look, unseen_source, with_notice
from airflow_provider_ips.core.sightings.table_sighting import see_table
from airflow_provider_ips.runs.environment import now_ms, open_catalog, open_named_store

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.variable import VariableAccess, VariableStore
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource

    Store = VariableStore | IcebergStore
    Loaded = IcebergSource | str
    """A source as it was loaded, or why it was not."""

log = logging.getLogger(__name__)

DAG_ID: Final = "ips_watch"

MAX_CALLS_AT_ONCE: Final = 8
"""To catalogs. Those to Airflow's API server are made one by one: a task has one connection to it."""

Notify = Callable[[ConsumerSighting], None]
Callback = Callable[["Context"], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Who looks, for whom, and through what."""

    variables: VariableAccess
    iceberg_conn_id: str
    """For consumers of which no capture has said its connection."""

    seen_by: SeenBy
    target_lags: Mapping[str, int] = field(default_factory=dict)
    """Seconds, by consumer, in place of what its capture says."""

    on_breach: Notify | None = None
    """None in a command, which leaves the notice to `ips_watch`."""

    on_recovery: Notify | None = None
    open_by: Callable[[str], Catalog] = open_catalog

    def look(self, stores: Iterable[Store], consumer: str | None = None) -> list[ConsumerSighting]:
        """Look at the tables of one consumer or of all, store what is seen, and notify of breaches."""
        checkpoints = {found.consumer: found for store in stores for found in _read_checkpoints(store, consumer)}
        before = {name: sightings.read_consumer(self.variables, name) for name in checkpoints}
        loaded = self._load(
            {
                (self._connection(before[name]), source)
                for name, checkpoint in checkpoints.items()
                for source in _sources(checkpoint)
            }
        )
        seen = [self._see(checkpoint, before[name], loaded) for name, checkpoint in checkpoints.items()]
        for (conn_id, _), history in loaded.items():
            if not isinstance(history, str):
                self._write_table(conn_id, history)
        return seen

    def _connection(self, before: ConsumerSighting | None) -> str:
        return self.iceberg_conn_id if before is None else before.iceberg_conn_id

    def _load(self, wanted: Iterable[tuple[str, Source]]) -> Mapping[tuple[str, Source], Loaded]:
        """Load each table once, for all of its branches."""
        by_table: dict[tuple[str, str], list[Source]] = {}
        for conn_id, source in sorted(wanted):
            by_table.setdefault((conn_id, source.table), []).append(source)
        catalogs = {conn_id: self._open(conn_id) for conn_id in sorted({conn_id for conn_id, _ in by_table})}
        with ThreadPoolExecutor(MAX_CALLS_AT_ONCE, thread_name_prefix="ips-watch") as threads:
            loaded = threads.map(lambda each: _load_branches(catalogs[each[0][0]], each[1]), by_table.items())
        return {
            (conn_id, source): found
            for ((conn_id, _), sources), results in zip(by_table.items(), loaded, strict=True)
            for source, found in zip(sources, results, strict=True)
        }

    def _open(self, conn_id: str) -> Catalog | str:
        try:
            return self.open_by(conn_id)
        except Exception as error:  # noqa: BLE001 - those of another connection are looked at all the same
            return sightings.shown(error)

    def _see(
        self, checkpoint: Checkpoint, before: ConsumerSighting | None, loaded: Mapping[tuple[str, Source], Loaded]
    ) -> ConsumerSighting:
        conn_id, at_ms = self._connection(before), now_ms()
        pending = checkpoint.pending
        seen = ConsumerSighting(
            consumer=checkpoint.consumer,
            dag_id=pending.run.dag_id if pending else checkpoint.last_dag,
            task_id=None,
            iceberg_conn_id=conn_id,
            seen_at_ms=at_ms,
            seen_by=self.seen_by,
            sources=tuple(
                self._see_source(source, checkpoint, before, loaded[conn_id, source], at_ms)
                for source in _sources(checkpoint)
            ),
            target_lag_s=self.target_lags.get(checkpoint.consumer),
            pending=None if pending is None else sightings.in_short(pending),
            held=tuple(_held(checkpoint, [loaded[conn_id, source] for source in _sources(checkpoint)], at_ms)),
        )
        after = self._notified(after_look(before, seen, is_complete=True))
        sightings.measure_lag(after, pending_since_ms=at_ms if pending is None else pending.started_at_ms)
        sightings.write(self.variables, after)
        return after

    def _see_source(
        self,
        source: Source,
        checkpoint: Checkpoint,
        before: ConsumerSighting | None,
        loaded: Loaded,
        at_ms: int,
    ) -> SourceSighting:
        known = None if before is None else before.source_sighting(source)
        look = Look(at_ms=at_ms, by=self.seen_by, skips_changes=known is not None and known.skips_changes)
        committed = checkpoint.position_of(source)
        if isinstance(loaded, str):
            # What was seen before is still the newest that is known, and says when that was.
            if known is not None and known.head is not None and known.committed == committed:
                return replace(known, problem=loaded)
            return unseen_source(source, look, committed=committed, problem=loaded)
        ranges = () if checkpoint.pending is None else checkpoint.pending.ranges
        taken = next((each for each in ranges if each.source == source), None)
        pending = None if taken is None else (taken.to_inclusive, UNKNOWN_VOLUME)
        try:
            return sightings.see_source(loaded, look, committed=committed, pending=pending)
        except Exception as error:  # noqa: BLE001 - one table that cannot be read hides no other
            return unseen_source(source, look, committed=committed, problem=sightings.shown(error))

    def _notified(self, sighting: ConsumerSighting) -> ConsumerSighting:
        """Notify once of a breach, and once of its end. What fails is tried again with the next look."""
        breach = sighting.breach
        if breach is None or (breach.is_open and breach.notified_at_ms is not None):
            return sighting
        notify = self.on_breach if breach.is_open else self.on_recovery
        if notify is None:
            return sighting
        try:
            notify(sighting)
        except Exception as error:  # noqa: BLE001 - other consumers are looked at all the same
            log.error("Notification about %s failed: %s", sighting.consumer, sightings.shown(error))  # noqa: TRY400
            return sighting
        return with_notice(sighting, sighting.seen_at_ms)

    def _write_table(self, conn_id: str, history: IcebergSource) -> None:
        before = sightings.read_table(self.variables, conn_id, Source(history.name, history.branch))
        newest = before.commits[0].snapshot_id if before is not None and before.commits else None
        if before is None or history.head is None or newest != history.head.snapshot_id:
            seen = see_table(history, iceberg_conn_id=conn_id, seen_at_ms=now_ms(), seen_by=self.seen_by)
            sightings.write(self.variables, seen)


def _sources(checkpoint: Checkpoint) -> list[Source]:
    """The sources that it has positions in, and those that its first run has captured and not committed."""
    pending = () if checkpoint.pending is None else checkpoint.pending.ranges
    return list(dict.fromkeys([*(each.source for each in checkpoint.positions), *(each.source for each in pending)]))


def _held(checkpoint: Checkpoint, sources: Sequence[Loaded], at_ms: int) -> Iterator[HeldCapture]:
    """See what branches hold for a consumer, the newest first, each table once."""
    from airflow_provider_ips.iceberg.branches.leases import count_bytes, find_branches

    tables = {source.name: source for source in sources if not isinstance(source, str)}
    held = [
        branch
        for table, source in tables.items()
        for branch in count_bytes(
            source.table.io,
            source.metadata,
            (each for each in find_branches(table, source.metadata) if each.consumer == checkpoint.consumer),
        )
    ]
    for branch in sorted(held, key=lambda each: -each.made_at_ms)[:MAX_HELD]:
        yield HeldCapture(
            name=branch.name, until_ms=branch.held_until_ms, size_bytes=branch.held_bytes, seen_at_ms=at_ms
        )


def _read_checkpoints(store: Store, consumer: str | None) -> Iterator[Checkpoint]:
    """Read each checkpoint once. One that cannot be read is for the doctor to explain."""
    if consumer is not None:
        parsers: list[Callable[[], Checkpoint | None]] = [partial(store.read, consumer)]
    else:
        parsers = [parse for _, name, parse in store.documents() if name is not None]
    for parse in parsers:
        try:
            found = parse()
        except CheckpointError as error:
            log.warning("%s", error)
        else:
            if found is not None:
                yield found


def _load_branches(catalog: Catalog | str, sources: Sequence[Source]) -> list[Loaded]:
    from airflow_provider_ips.iceberg.source.iceberg_source import open_branches

    if isinstance(catalog, str):
        return [catalog for _ in sources]
    try:
        return [
            sightings.shown(each) if isinstance(each, IpsError) else each for each in open_branches(catalog, sources)
        ]
    except Exception as error:  # noqa: BLE001 - one table that cannot be loaded hides no other
        return [sightings.shown(error) for _ in sources]


def ips_watch(
    *,
    schedule: Any = timedelta(minutes=10),  # noqa: ANN401 - whatever Airflow takes
    iceberg_conn_id: str = "iceberg_default",
    target_lag: Mapping[str, timedelta] | None = None,
    on_breach_callback: Callback | Iterable[Callback] = (),
    on_recovery_callback: Callback | Iterable[Callback] = (),
    **dag_options: Any,
) -> DAG:
    """
    Make the DAG ``ips_watch``.

    Each of its runs loads each table once, stores what it sees for pages and for ``airflow ips lag``, and sends
    it as metrics.

    :param schedule: How often to look.
    :param iceberg_conn_id: The connection of the ``iceberg`` store, unless ``[ips] checkpoint_conn_id`` is set, and of
        consumers whose captures have not stored theirs.
    :param target_lag: The target of a consumer by its name, in place of that of its capture.
    :param on_breach_callback: Called once with Airflow's context when a consumer lags by more than its target: a
        notifier of Airflow, or a function. ``ips`` in the context says which, ``{{ ips.message }}`` in words.
    :param on_recovery_callback: Called once when a breach is over of which people were notified.
    :param dag_options: Other options of the DAG, such as ``default_args`` or ``tags``.
    """
    targets = {consumer: parse_target_lag(value) or 0 for consumer, value in (target_lag or {}).items()}
    options = {"start_date": datetime(2025, 1, 1, tzinfo=UTC), "tags": ["ips"], "doc_md": __doc__, **dag_options}
    with DAG(DAG_ID, schedule=schedule, catchup=False, max_active_runs=1, **options) as dag:

        @task(execution_timeout=timedelta(minutes=10))
        def look() -> dict[str, Any]:
            return look_at_all(
                iceberg_conn_id, targets, _callbacks(on_breach_callback), _callbacks(on_recovery_callback)
            )

        look()
    return dag


def look_at_all(
    iceberg_conn_id: str, targets: Mapping[str, int], on_breach: list[Callback], on_recovery: list[Callback]
) -> dict[str, Any]:
    """Look in a task, and return which consumers are in which state, but for those that keep up."""
    from airflow.sdk import get_current_context

    context = get_current_context()
    watcher = Watcher(
        variables=sightings.task_variables(),
        iceberg_conn_id=iceberg_conn_id,
        seen_by=SeenBy.WATCH,
        target_lags=targets,
        on_breach=lambda seen: _notify(on_breach, context, seen),
        on_recovery=lambda seen: _notify(on_recovery, context, seen),
    )
    seen = watcher.look([open_named_store(None, iceberg_conn_id=iceberg_conn_id)])
    states = {each.consumer: each.freshness(now_ms()) for each in seen}
    for consumer in sorted(targets.keys() - states.keys()):
        log.warning(
            "Consumer %s has a target and no checkpoint: it has never captured, or the name is another.", consumer
        )
        states[consumer] = Freshness.UNKNOWN
    found: dict[str, Any] = {"consumers": len(seen)}
    for state in (each for each in Freshness if each is not Freshness.KEPT):
        found[state.value] = [consumer for consumer, its in states.items() if its is state]
    return found


def _callbacks(given: Callback | Iterable[Callback]) -> list[Callback]:
    return [given] if callable(given) else list(given)


def _notify(callbacks: Iterable[Callback], context: Context, seen: ConsumerSighting) -> None:
    for callback in callbacks:
        callback({**context, "ips": notice_of(seen)})  # type: ignore[typeddict-unknown-key]


def notice_of(seen: ConsumerSighting) -> dict[str, Any]:
    """What a callback is given about a breach, or about its end."""
    lag_s, breach = seen.lag_s(seen.seen_at_ms), seen.breach
    is_open = breach is not None and breach.is_open
    since = None if breach is None else format_time(breach.since_ms)
    target = timedelta(seconds=seen.target_lag_s or 0)
    lag = "an unknown time" if lag_s is None else str(timedelta(seconds=int(lag_s)))
    worse = f"lags by {lag}, more than its target of {target}, since {since}"
    better = f"keeps its target of {target} again, which it had missed since {since}"
    return {
        "consumer": seen.consumer,
        "dag_id": seen.dag_id,
        "state": "breached" if is_open else "kept",
        "since": since,
        "lag_seconds": lag_s,
        "target_lag_seconds": seen.target_lag_s,
        "sources": [each.source.label for each in seen.sources],
        "message": f"Consumer {seen.consumer} {worse if is_open else better}.",
    }
