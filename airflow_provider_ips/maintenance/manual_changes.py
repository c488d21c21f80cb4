"""The commands that change a checkpoint: seed, rewind, reset, abandon, move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_ips import config
from airflow_provider_ips.core.checkpoint import manual_changes
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import SourcePosition
from airflow_provider_ips.core.checkpoint.manual_changes import plan_move
from airflow_provider_ips.core.checkpoint.store import CheckpointStore
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.history.snapshots import take_evidence
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import InitialPosition, Position
from airflow_provider_ips.maintenance.console import (
    ChangeOptions,
    ConnectionOptions,
    Console,
    Row,
    StoreOptions,
    WriteOptions,
    may_write,
    open_store,
    read_existing,
    write_with_note,
)
from airflow_provider_ips.maintenance.overview import change_rows, source_rows
from airflow_provider_ips.runs.environment import now_ms, open_catalog


@dataclass(frozen=True, kw_only=True)
class SeedOptions(ChangeOptions):
    """A source, and a place in its history: exactly one of ``snapshot``, ``time`` and ``latest``."""

    table: str
    branch: str = "main"
    snapshot: str | None = None
    time: str | None = None
    latest: bool = False


@dataclass(frozen=True, kw_only=True)
class RewindOptions(ChangeOptions):
    """A committed capture, by its id or its run; or a place in one source, by snapshot or time."""

    capture_id: str | None = None
    run_id: str | None = None
    table: str | None = None
    branch: str = "main"
    snapshot: str | None = None
    time: str | None = None


@dataclass(frozen=True, kw_only=True)
class ResetOptions(ChangeOptions):
    """One source, or all of them if ``table`` is None."""

    table: str | None = None
    branch: str = "main"


@dataclass(frozen=True, kw_only=True)
class AbandonOptions(ChangeOptions):
    """Whether the job is known to have written nothing."""

    wrote_nothing: bool = False


@dataclass(frozen=True, kw_only=True)
class MoveOptions(ConnectionOptions, WriteOptions):
    """A consumer, and the store to which its checkpoint moves."""

    consumer: str
    to: str


def seed(console: Console, options: SeedOptions) -> None:
    """Set a consumer's first position in a source."""
    store = open_store(console, options)
    before = store.read(options.consumer)
    source = Source(options.table, options.branch)
    position = _look_up(options, source, snapshot=options.snapshot, time=options.time, latest=options.latest)
    entry = SourcePosition(source=source, position=position)
    after = manual_changes.seed(before, consumer=options.consumer, positions=(entry,), now_ms=now_ms())
    console.say(f"Everything up to {position} will count as processed by {options.consumer}.")
    _change(console, options, store, before, after, "seed")


def rewind(console: Console, options: RewindOptions) -> None:
    """Go back to before a committed capture, or to a snapshot or a time in one source."""
    store = open_store(console, options)
    before = read_existing(store, options.consumer)
    if options.snapshot or options.time:
        after = _rewind_one_source(before, options)
    else:
        capture_id = find_commit(before, capture_id=options.capture_id, run_id=options.run_id)
        _refuse_one_source(options, "rewinds all sources of a capture", "name a place by --snapshot or --time")
        after = manual_changes.rewind(before, capture_id=capture_id)
    console.say(f"The next run of {options.consumer} will process everything after the position below again.")
    _change(console, options, store, before, after, "rewind")


def _rewind_one_source(before: Checkpoint, options: RewindOptions) -> Checkpoint:
    if options.capture_id or options.run_id:
        raise InputError(
            "--capture-id or --run-id is given together with --snapshot or --time",
            consequence="It is not clear to which place to go back",
            remedy="give exactly one of the four",
        )
    sources = [p.source for p in before.positions if p.source.branch == options.branch]
    if not options.table and len(sources) != 1:
        raise InputError(
            f"consumer {options.consumer!r} has {len(sources)} sources on branch {options.branch!r}",
            consequence="A snapshot or a time is a place in one source; the others keep their positions",
            remedy="name the source by --table and --branch; to rewind all sources together, give --capture-id or "
            "--run-id",
        )
    source = Source(options.table, options.branch) if options.table else sources[0]
    position = _look_up(options, source, snapshot=options.snapshot, time=options.time)
    return manual_changes.rewind_source(before, source=source, position=position)


def reset(console: Console, options: ResetOptions) -> None:
    """Forget a consumer's position in one source, or in all."""
    store = open_store(console, options)
    before = read_existing(store, options.consumer)
    if not options.table:
        _refuse_one_source(options, "resets all sources", "name the source by --table as well")
    sources = [Source(options.table, options.branch)] if options.table else None
    after = manual_changes.reset(before, sources=sources)
    console.say(
        f"The next run of {options.consumer} will start where the capture's `initial` says: by default, with all "
        "files. If you want to seed a position instead, pause the DAG first, so that no run starts in between."
    )
    console.say(
        "Rows that are in the target already are not known any more: if the job is not one that replaces its target, "
        "rebuild the target before that run. A capture of changes never takes back what the source has deleted since."
    )
    _change(console, options, store, before, after, "reset")


def _refuse_one_source(options: RewindOptions | ResetOptions, what: str, remedy: str) -> None:
    """Refuse options of one source that would not be followed. The form always gives the branch ``main``."""
    if options.table or options.branch != "main":
        given = f"--table {options.table}" if options.table else f"--branch {options.branch}"
        raise InputError(
            f"{given} names one source, and this command {what}",
            consequence="The positions of other sources would change as well",
            remedy=f"leave it out; or, for one source, {remedy}",
        )


def abandon(console: Console, options: AbandonOptions) -> None:
    """Give up the pending capture."""
    store = open_store(console, options)
    before = read_existing(store, options.consumer)
    after = manual_changes.abandon(before, wrote_nothing=options.wrote_nothing)
    if before.pending is not None:
        console.say(
            f"The pending capture of run {before.pending.run} will be given up; if that run still commits, its commit "
            "fails."
        )
    if options.wrote_nothing:
        console.say(
            "What jobs may have written without a commit is forgotten. A capture of changes never takes back such a "
            "row that the source has deleted since: the target must be right as it is."
        )
    _change(console, options, store, before, after, "abandon", rows=source_rows(before))


def move(console: Console, options: MoveOptions) -> None:
    """Move a checkpoint to the other store: mark it as moved here, write it there, and read it back."""
    consumer, to = options.consumer, options.to
    (other,) = (name for name in config.STORES if name != to)
    source, target = (open_store(console, StoreOptions(conn_id=options.conn_id, store=name)) for name in (other, to))
    here, there = (store.read(consumer, even_if_moved=True) for store in (source, target))
    plan = plan_move(consumer, here, there, to=to)
    console.say(
        f"The checkpoint of {consumer} moves to the store {to!r}. Captures and commands that use the other store for "
        f"it fail until [ips] checkpoint_store, or the capture, names {to!r}."
    )
    console.show(change_rows(None, plan.at_target))
    if not may_write(console, options, consumer, what="the consumer's name"):
        return
    if plan.at_origin is not None:
        source.write(plan.at_origin, expected_revision=None if here is None else here.revision)
    arrived = write_with_note(console, target, there, plan.at_target, "move")
    if target.read(consumer) != arrived:
        raise InputError(
            f"the checkpoint of consumer {consumer!r} reads back from the store {to!r} as something else",
            consequence="Another process wrote it at the same time, or a cache lags; nothing is lost",
            remedy=f"look at it with `airflow ips show --consumer {consumer} --store {to}`",
        )
    console.say(f"Moved: the store {to!r} holds the checkpoint of {consumer} at revision {arrived.revision}.")


def _change(
    console: Console,
    options: ChangeOptions,
    store: CheckpointStore,
    before: Checkpoint | None,
    after: Checkpoint,
    command: str,
    *,
    rows: Sequence[Row] | None = None,
) -> None:
    """Show what changes, by default the positions, and write it if the user agrees."""
    console.show(change_rows(before, after) if rows is None else rows)
    if may_write(console, options, options.consumer, what="the consumer's name"):
        written = write_with_note(console, store, before, after, command)
        console.say(f"Written: the checkpoint of {options.consumer} is now at revision {written.revision}.")


def _look_up(
    options: ConnectionOptions, source: Source, *, snapshot: str | None, time: str | None, latest: bool = False
) -> Position:
    """Find a place in the source's history: one that is not in its lineage is refused now, and not by the next run."""
    given = [bool(snapshot), bool(time), latest].count(True)
    if given != 1:
        raise InputError(
            f"{given} of --snapshot, --time and --latest are given",
            consequence="It is not clear at which place the consumer continues",
            remedy="give exactly one of them",
        )
    snapshot_id = _snapshot_id(snapshot) if snapshot else None
    time_ms = _milliseconds(time) if time else None
    from airflow_provider_ips.iceberg.source.iceberg_source import open_source, position_at

    history = open_source(open_catalog(options.conn_id), source)
    return take_evidence(history, position_at(history, snapshot_id=snapshot_id, time_ms=time_ms))


def _snapshot_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError(
            f"--snapshot {text!r} is not a snapshot id",
            consequence="No snapshot can be looked up by it",
            remedy="take the number from the table's history, for example `SELECT * FROM db.t.snapshots` in Spark",
        )
    return int(text)


def _milliseconds(text: str) -> int:
    place = InitialPosition.parse_place(text, parameter="--time")
    if place is None or place.time_ms is None:
        raise InputError(
            f"--time {text!r} is not an ISO 8601 time",
            consequence="No snapshot can be looked up by it",
            remedy='write it like "2026-10-01T00:00:00+00:00"',
        )
    return place.time_ms


def find_commit(checkpoint: Checkpoint, *, capture_id: str | None, run_id: str | None) -> str:
    """Find the committed capture that ``--capture-id`` or ``--run-id`` names, and return its id."""
    history = f"`airflow ips history --consumer {checkpoint.consumer}`"
    if bool(capture_id) == bool(run_id):
        raise InputError(
            "exactly one of --capture-id and --run-id is needed",
            consequence="It is not clear which capture is meant",
            remedy=f"choose one from {history}",
        )
    if capture_id:
        return capture_id
    found = [c.capture_id for c in checkpoint.history if c.run is not None and c.run.run_id == run_id]
    if len(found) == 1:
        return found[0]
    raise InputError(
        f"consumer {checkpoint.consumer!r} remembers {len(found)} captures committed by run {run_id!r}",
        consequence="It is not clear which capture is meant",
        remedy=f"choose one by --capture-id from {history}",
    )
