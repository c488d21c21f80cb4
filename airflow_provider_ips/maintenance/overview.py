"""The commands that only read checkpoints and what was seen: list, show, history, lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ips import sightings
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, Intervention
from airflow_provider_ips.core.errors import CheckpointError, IpsError
from airflow_provider_ips.core.identifiers import did_you_mean
from airflow_provider_ips.core.positions import Position, format_time
from airflow_provider_ips.core.sightings.consumer_sighting import ConsumerSighting, Freshness, SeenBy, SourceSighting
from airflow_provider_ips.maintenance.console import (
    Console,
    ConsumerOptions,
    Row,
    StoreOptions,
    open_store,
    open_variable_store,
    read_existing,
)
from airflow_provider_ips.maintenance.leases import lease_columns, look_at_leases
from airflow_provider_ips.runs.environment import now_ms

if TYPE_CHECKING:
    from airflow_provider_ips.checkpoints.iceberg import IcebergStore
    from airflow_provider_ips.checkpoints.variable import VariableStore
    from airflow_provider_ips.core.checkpoint.entries import PendingCapture
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.maintenance.server import Server


def list_consumers(console: Console, options: StoreOptions, *, server: Server | None = None) -> None:
    """Print one row per consumer, also for damaged checkpoints.

    :param server: Airflow's runs and stored DAGs; None in a task, which cannot see them.
    """
    read = read_rows(open_store(console, options), server)
    leases = look_at_leases((each for _, each in read if each is not None), options.conn_id, server)
    for row, checkpoint in read if leases is not None else ():
        row.update(lease_columns([] if checkpoint is None else sorted(checkpoint.needed_tables), leases or {}))
    console.show([row for row, _ in read])


def read_rows(store: VariableStore | IcebergStore, server: Server | None = None) -> list[tuple[Row, Checkpoint | None]]:
    """Make one row per document, each of which is read once."""
    read = [_listed(*document) for document in store.documents()]
    waiting = [(row, c, capture) for row, c in read if c is not None and (capture := _awaited(c)) is not None]
    states = {} if server is None else server.states_of(capture.run for _, _, capture in waiting)
    for row, checkpoint, capture in waiting:
        if row["problem"] is None:
            row["problem"] = _problem_of(checkpoint, capture.run, states.get(capture.run), server)
    return read


def _awaited(checkpoint: Checkpoint) -> PendingCapture | None:
    """The capture for whose commit others wait: the pending one, or a full refresh that was never committed."""
    refreshes = (capture for capture in checkpoint.uncommitted if capture.refreshes)
    return checkpoint.pending or next(refreshes, None)


def _problem_of(checkpoint: Checkpoint, run: RunIdentity, state: str | None, server: Server | None) -> str | None:
    """Say why a capture will not be committed; None while its run is active."""
    from airflow.configuration import conf

    here = conf.get("api", "base_url", fallback="") or None
    if server is None or run.deployment not in (None, here):
        return "captured and not committed; whether the run is still active is not known here"
    if state in ("queued", "running"):
        return None
    if checkpoint.pending is None:
        return f"a full refresh has ended ({state or 'deleted'}) without a commit, and all other runs are refused"
    if state is None:
        return "the run was deleted before it committed; the next run captures its range again"
    if server.has_commit(run.dag_id, checkpoint.consumer) is False:
        return f"DAG {run.dag_id} has no IpCommitOperator for it: its checkpoint never moves"
    return f"the run has ended ({state}) without a commit; the next run captures its range again"


def show(console: Console, options: ConsumerOptions) -> None:
    """Print a consumer's position and pending range in each of its sources, and what its captures hold of it."""
    checkpoint = read_existing(open_store(console, options), options.consumer)
    rows, leases = source_rows(checkpoint), look_at_leases([checkpoint], options.conn_id)
    for row in rows if leases is not None else ():
        names = [name for name in checkpoint.needed_tables if name.startswith(f"{row['source']}.branch_")]
        row.update(lease_columns(names, leases or {}))
    console.show(rows)


def history(console: Console, options: ConsumerOptions) -> None:
    """Print what a consumer has committed, and the commands that changed its checkpoint."""
    console.show(history_rows(read_existing(open_store(console, options), options.consumer)))


@dataclass(frozen=True, kw_only=True)
class LagOptions(StoreOptions):
    """Which consumer, and whether to look now."""

    consumer: str | None = None
    look: bool = False


def lag(console: Console, options: LagOptions, *, server: Server | None = None) -> int:
    """Print how far consumers are from the heads of their sources, by what was seen. Return the worst, for monitors.

    :param server: what reads all of them by one query; None in a task, which reads one after the other

    0: all keep up. 1: a breach, a gap, or a checkpoint that is stranded soon. 2: nothing worse than what is not known.
    """
    seen = look_now(console, options) if options.look else _seen(console, options, server)
    now = now_ms()
    console.show(list(lag_rows(seen, now, in_full=console.shows_documents)))
    if unplaced := sorted(each.consumer for each in seen if not any(source.committed for source in each.sources)):
        console.say(f"Not known, because no position was seen: {', '.join(unplaced)}.")
    wanted = {options.consumer} if options.consumer else _stored_consumers(console)
    if missing := sorted(wanted - {each.consumer for each in seen}):
        hint = _hint(console, options)
        console.say(f"Never seen: {', '.join(missing)}. {hint[0].upper()}{hint[1:]}.")
    found = {each.freshness(now) for each in seen} | ({Freshness.UNKNOWN} if missing or not seen else set())
    if found & {Freshness.GAP, Freshness.BREACHED, Freshness.STRANDED_SOON}:
        return 1
    return 2 if Freshness.UNKNOWN in found else 0


def _seen(console: Console, options: LagOptions, server: Server | None) -> list[ConsumerSighting]:
    if server is None or options.consumer is not None:
        return sightings.read_seen(console.variables, options.consumer)
    return list(server.sightings())


def look_now(console: Console, options: LagOptions) -> list[ConsumerSighting]:
    """Look at the tables of one consumer or of all."""
    from airflow_provider_ips.maintenance.watch import Watcher

    watcher = Watcher(variables=console.variables, iceberg_conn_id=options.conn_id, seen_by=SeenBy.COMMAND)
    return watcher.look([open_store(console, options)], options.consumer)


def lag_rows(seen: Iterable[ConsumerSighting], now_ms: int, *, in_full: bool) -> Iterator[Row]:
    """Make one row per consumer and source.

    :param in_full: with all that a program may want, and not only what fits on a screen
    """
    for sighting in seen:
        for source in sighting.sources:
            yield {**_lag_row(sighting, source, now_ms), **(_lag_details(sighting, source, now_ms) if in_full else {})}


def _lag_row(sighting: ConsumerSighting, source: SourceSighting, now_ms: int) -> Row:
    lag_s, runway_s = source.lag_s(now_ms), source.runway_s(now_ms)
    return {
        "consumer": sighting.consumer,
        "source": source.source.label,
        "state": sighting.freshness(now_ms).value,
        "lag_s": None if lag_s is None else int(lag_s),
        "target_lag_s": sighting.target_lag_s,
        "commits": source.lag.commits,
        "records": source.lag.volume.records,
        "runway_s": None if runway_s is None else int(runway_s),
        "seen": format_time(source.seen_at_ms),
        "problem": source.gap or source.problem,
    }


def _lag_details(sighting: ConsumerSighting, source: SourceSighting, now_ms: int) -> Row:
    oldest_ms, pending, breach = source.lag.oldest_unprocessed_at_ms, sighting.pending, sighting.breach
    return {
        "files": source.lag.volume.files,
        "bytes": source.lag.volume.size_bytes,
        "oldest_unprocessed": None if oldest_ms is None else format_time(oldest_ms),
        "breached_since": None if breach is None or not breach.is_open else format_time(breach.since_ms),
        "pending_run": None if pending is None else str(pending.run),
        "pending_s": None if pending is None else max(now_ms - pending.started_at_ms, 0) // 1000,
        "head": None if source.head is None else source.head.snapshot_text,
        "seen_by": source.seen_by.value,
    }


def _hint(console: Console, options: LagOptions) -> str:
    """What to do about consumers that were never seen. Whether a name is misspelt, only their store can say."""
    look = "the DAG ips_watch looks at them, and --look does so now"
    if options.consumer is None:
        return look
    try:
        store = open_store(console, options)
        if store.read(options.consumer, even_if_moved=True) is None:
            return did_you_mean(options.consumer, store.consumers(), otherwise=look)
    except IpsError:
        return look
    return look


def _stored_consumers(console: Console) -> set[str]:
    """The consumers that have a checkpoint, as far as that is known without a catalog."""
    return {name for store in open_variable_store(console).values() for name in store.consumers()}


def _listed(place: str, consumer: str | None, parse: Callable[[], Checkpoint | None]) -> tuple[Row, Checkpoint | None]:
    row: Row = {"consumer": consumer or place, "sources": None, "last_commit": None, "pending_run": None}
    if consumer is None:
        return {**row, "problem": "damaged"}, None
    try:
        found = parse()
    except CheckpointError as error:
        return {**row, "problem": error.problem}, None
    if found is None:
        return {**row, "problem": "no document yet"}, None
    captured = set() if found.pending is None else {taken.source.label for taken in found.pending.ranges}
    row["sources"] = ", ".join(sorted(captured | {p.source.label for p in found.positions}))
    if found.history:
        row["last_commit"] = format_time(found.history[-1].committed_at_ms)
    if found.pending is not None:
        row["pending_run"] = str(found.pending.run)
    return {**row, "problem": None}, found


def source_rows(checkpoint: Checkpoint) -> list[Row]:
    """Make one row per source: its committed position, and the end of its pending range."""
    pending = {} if checkpoint.pending is None else {r.source: r for r in checkpoint.pending.ranges}
    committed = {p.source: p.position for p in checkpoint.positions}
    return [
        {
            **source.to_json(),
            **_place("", committed.get(source)),
            **_place("pending_", pending[source].to_inclusive if source in pending else None),
            "pending_run": str(checkpoint.pending.run) if checkpoint.pending and source in pending else None,
        }
        for source in sorted({*committed, *pending})
    ]


def history_rows(checkpoint: Checkpoint) -> list[Row]:
    """Make one row per committed capture and source, and one per command, oldest first."""
    commits = [(capture.committed_at_ms, row) for capture in checkpoint.history for row in _commit_rows(capture)]
    commands = [(entry.at_ms, _command_row(entry)) for entry in checkpoint.interventions]
    return [row for _, row in sorted((*commits, *commands), key=lambda entry: entry[0])]


def _commit_rows(capture: CommittedCapture) -> list[Row]:
    return [
        {
            "capture_id": capture.capture_id,
            "run": "seed" if capture.run is None else str(capture.run),
            "committed_at": format_time(capture.committed_at_ms),
            **taken.source.to_json(),
            "kind": taken.kind.value,
            "from_snapshot": _snapshot(taken.from_exclusive),
            "to_snapshot": _snapshot(taken.to_inclusive),
        }
        for taken in capture.ranges
    ]


def _command_row(entry: Intervention) -> Row:
    return {
        "capture_id": None,
        "run": f"{entry.verb} by {entry.who}",
        "committed_at": format_time(entry.at_ms),
        **dict.fromkeys(("source", "branch", "kind", "from_snapshot", "to_snapshot")),
    }


def change_rows(before: Checkpoint | None, after: Checkpoint) -> list[Row]:
    """Make one row per source: its position before and after a command."""
    sources = {p.source for c in (before, after) if c is not None for p in c.positions}
    return [
        {
            **source.to_json(),
            "from_snapshot": _snapshot(None if before is None else before.position_of(source)),
            "to_snapshot": _snapshot(after.position_of(source)),
            "to_time": _place("", after.position_of(source))["committed_at"],
        }
        for source in sorted(sources)
    ]


def _place(prefix: str, position: Position | None) -> Row:
    has_snapshot = position is not None and position.snapshot_id is not None
    return {
        f"{prefix}snapshot": _snapshot(position),
        f"{prefix}committed_at": format_time(position.committed_at_ms) if position and has_snapshot else None,
    }


def _snapshot(position: Position | None) -> str | None:
    """Show a position. The position in a table without a snapshot is not the same as no position."""
    return None if position is None else position.snapshot_text or "empty table"
