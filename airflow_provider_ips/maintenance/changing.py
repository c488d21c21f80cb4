"""Verbs that move a checkpoint: seed, rewind, reset, abandon, move."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_ips.core import administration
from airflow_provider_ips.core.checkpoint import SourcePosition
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.moving import plan_move
from airflow_provider_ips.maintenance.desk import (
    existing,
    may_go_on,
    now_ms,
    open_catalog,
    open_store,
    open_stores,
    write_noted,
)
from airflow_provider_ips.maintenance.rows import change_rows

if TYPE_CHECKING:
    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.store import CheckpointStore
    from airflow_provider_ips.maintenance.desk import Desk


def seed(desk: Desk, args: Namespace) -> None:
    """Set the first position in a source."""
    store = open_store(desk, args)
    before = store.read(args.consumer)
    entry = SourcePosition(source=args.table, branch=args.branch, position=_position(args))
    after = administration.seed(before, consumer=args.consumer, positions=(entry,), now_ms=now_ms())
    desk.say(f"Everything up to {entry.position} will count as processed by {args.consumer}.")
    _change(desk, args, store, before, after, "seed")


def rewind(desk: Desk, args: Namespace) -> None:
    """Go back to before a committed capture, or to a snapshot or a time of one source."""
    store = open_store(desk, args)
    before = existing(store, args.consumer)
    if args.snapshot or args.time:
        after = _rewound_to_a_place(before, args)
    else:
        after = administration.rewind(before, capture_id=committed_capture(before, args))
    desk.say(f"The next run of {args.consumer} will process everything after the position below, again.")
    _change(desk, args, store, before, after, "rewind")


def _rewound_to_a_place(before: Checkpoint, args: Namespace) -> Checkpoint:
    if args.capture_id or args.run_id:
        raise InputError(
            "--capture-id or --run-id, and --snapshot or --time, are given",
            consequence="Where to go back to must be said exactly once",
            remedy="give one of the four",
        )
    sources = [p.source for p in before.positions if p.branch == args.branch]
    if not args.table and len(sources) != 1:
        raise InputError(
            f"consumer {args.consumer!r} has {len(sources)} sources on branch {args.branch!r}",
            consequence="A snapshot, or a time, is a place in one of them; the others stay where they are",
            remedy="name it by --table and --branch; to take all sources back together, give --capture-id or --run-id",
        )
    source = args.table or sources[0]
    place = Namespace(**{**vars(args), "table": source, "latest": False})
    return administration.rewind_source(before, source=source, branch=args.branch, position=_position(place))


def reset(desk: Desk, args: Namespace) -> None:
    """Forget positions."""
    store = open_store(desk, args)
    before = existing(store, args.consumer)
    after = administration.reset(before, sources=[(args.table, args.branch)] if args.table else None)
    desk.say(
        f"The next run of {args.consumer} will start as its capture's `initial` says; by default, with all files. "
        "If you mean to seed it anew, pause its DAG first: a run in between would start so."
    )
    _change(desk, args, store, before, after, "reset")


def abandon(desk: Desk, args: Namespace) -> None:
    """Give up the pending capture."""
    store = open_store(desk, args)
    before = existing(store, args.consumer)
    after = administration.abandon(before)
    run = None if before.pending is None else before.pending.run
    desk.say(f"The pending capture of run {run} will be given up; if that run still commits, its commit fails.")
    _change(desk, args, store, before, after, "abandon")


def move(desk: Desk, args: Namespace) -> None:
    """Move a checkpoint to the other store: mark it as moved here, write it there, read it back."""
    stores = open_stores(desk, args)
    source, target = next(store for name, store in stores.items() if name != args.to), stores[args.to]
    here, there = (store.read(args.consumer, even_if_moved=True) for store in (source, target))
    plan = plan_move(args.consumer, here, there, to=args.to)
    desk.say(
        f"The checkpoint of {args.consumer} goes to the store {args.to!r}. What still looks for it in the other one "
        f"fails from now on, until [ips] checkpoint_store, or the capture, says {args.to!r}."
    )
    desk.show(change_rows(None, plan.arrive))
    if not may_go_on(desk, args, args.consumer, what="the consumer's name"):
        return
    if plan.leave is not None:
        source.write(plan.leave, expected_revision=None if here is None else here.revision)
    arrived = write_noted(desk, target, there, plan.arrive, "move")
    if target.read(args.consumer) != arrived:
        raise InputError(
            f"the checkpoint of consumer {args.consumer!r} reads back from {args.to!r} as something else",
            consequence="Somebody wrote it in this moment, or a cache lags behind; nothing is lost",
            remedy=f"look at it with `airflow ips show --consumer {args.consumer} --store {args.to}`",
        )
    desk.say(f"Moved: the store {args.to!r} holds the checkpoint of {args.consumer} at revision {arrived.revision}.")


def _change(
    desk: Desk, args: Namespace, store: CheckpointStore, before: Checkpoint | None, after: Checkpoint, verb: str
) -> None:
    desk.show(change_rows(before, after))
    if may_go_on(desk, args, args.consumer, what="the consumer's name"):
        written = write_noted(desk, store, before, after, verb)
        desk.say(f"Written: the checkpoint of {args.consumer} is at revision {written.revision} now.")


def _position(args: Namespace) -> Position:
    """Ask the source itself, so that a position which is not in its lineage is refused now and not by the first run."""
    chosen = [name for name in ("snapshot", "time", "latest") if getattr(args, name)]
    if len(chosen) != 1:
        raise InputError(
            f"{len(chosen)} of --snapshot, --time and --latest are given",
            consequence="Where the consumer starts must be said exactly once",
            remedy="give one of them",
        )
    snapshot_id = _snapshot_id(args.snapshot) if args.snapshot else None
    time_ms = _milliseconds(args.time) if args.time else None
    from airflow_provider_ips.iceberg import open_source, position_at

    return position_at(
        open_source(open_catalog(args), args.table, args.branch), snapshot_id=snapshot_id, time_ms=time_ms
    )


def _snapshot_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError(
            f"--snapshot {text!r} is not a snapshot id",
            consequence="No snapshot can be looked up by it",
            remedy="take the number from the table's history, for example `SELECT * FROM db.t.snapshots` in Spark",
        )
    return int(text)


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"--time {text!r} is not an ISO 8601 time",
            consequence="No snapshot can be looked up by it",
            remedy='write it like "2026-10-01T00:00:00+00:00"',
        ) from None
    if moment.tzinfo is None:
        raise InputError(
            f"--time {text!r} has no time zone",
            consequence="It would mean different moments on different machines",
            remedy=f'add it, for example "{moment.replace(tzinfo=UTC).isoformat()}"',
        )
    return int(moment.timestamp() * 1000)


def committed_capture(checkpoint: Checkpoint, args: Namespace) -> str:
    """Find the capture that ``--capture-id`` or ``--run-id`` means."""
    if bool(args.capture_id) == bool(args.run_id):
        raise InputError(
            "give one of --capture-id and --run-id",
            consequence="Which capture is meant must be said exactly once",
            remedy=f"see `airflow ips history --consumer {args.consumer}`",
        )
    if args.capture_id:
        return str(args.capture_id)
    found = [c.capture_id for c in checkpoint.history if c.run is not None and c.run.run_id == args.run_id]
    if len(found) == 1:
        return found[0]
    raise InputError(
        f"consumer {args.consumer!r} remembers {len(found)} captures committed by run {args.run_id!r}",
        consequence="It is not clear which one is meant",
        remedy=f"choose by --capture-id from `airflow ips history --consumer {args.consumer}`",
    )
