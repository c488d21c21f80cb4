"""What the commands do: results go to standard output, in the form asked for, and all else to standard error.

A command has the metadata database and no task SDK. Variables are Airflow's models here, and hooks are told that this
is a server process, as `airflow connections test` does.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_ips.checkpoints.access import ServerVariables
from airflow_provider_ips.checkpoints.variable import VariableStore
from airflow_provider_ips.cli.tables import change_rows, consumer_row, history_rows, problem_row, source_rows
from airflow_provider_ips.core.administration import abandon, reset, rewind, seed
from airflow_provider_ips.core.checkpoint import SourcePosition
from airflow_provider_ips.core.errors import CheckpointError, InputError, IpsError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.positions import Position


# Airflow's audit log gets every command that changes something, with its arguments.
_audited = cast("Callable[[Callable[[Namespace], None]], Callable[[Namespace], None]]", action_cli)


@suppress_logs_and_warning
@providers_configuration_loaded
def list_command(args: Namespace) -> None:
    """Print one row per consumer, damaged ones included."""
    with _plain_errors():
        store = _store()
        rows = []
        for key, consumer in store.documents():
            try:
                found = None if consumer is None else store.read(consumer)
                rows.append(
                    problem_row(f"Variable {key}", "damaged") if found is None else consumer_row(str(consumer), found)
                )
            except CheckpointError as error:
                rows.append(problem_row(str(consumer), error.problem))
    AirflowConsole().print_as(data=rows, output=args.output)


@suppress_logs_and_warning
@providers_configuration_loaded
def show_command(args: Namespace) -> None:
    """Print where a consumer stands."""
    with _plain_errors():
        checkpoint = _existing(_store(), args.consumer)
    AirflowConsole().print_as(data=source_rows(checkpoint), output=args.output)


@suppress_logs_and_warning
@providers_configuration_loaded
def history_command(args: Namespace) -> None:
    """Print what a consumer has committed."""
    with _plain_errors():
        checkpoint = _existing(_store(), args.consumer)
    AirflowConsole().print_as(data=history_rows(checkpoint), output=args.output)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def seed_command(args: Namespace) -> None:
    """Set the first position in a source."""
    with _plain_errors():
        store = _store()
        before = store.read(args.consumer)
        entry = SourcePosition(source=args.table, branch=args.branch, position=_position(args))
        now_ms = time.time_ns() // 1_000_000
        after = seed(before, consumer=args.consumer, positions=(entry,), now_ms=now_ms)
        _say(f"Everything up to {entry.position} will count as processed by {args.consumer}.")
        _change(store, before, after, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def rewind_command(args: Namespace) -> None:
    """Go back to before a committed capture."""
    with _plain_errors():
        store = _store()
        before = _existing(store, args.consumer)
        after = rewind(before, capture_id=_committed_capture(before, args))
        _say(f"The next run of {args.consumer} will process everything after the position below, again.")
        _change(store, before, after, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def reset_command(args: Namespace) -> None:
    """Forget positions."""
    with _plain_errors():
        store = _store()
        before = _existing(store, args.consumer)
        after = reset(before, sources=None if args.table is None else [(args.table, args.branch)])
        _say(
            f"The next run of {args.consumer} will start as its capture's `initial` says; by default, with all files. "
            "If you mean to seed it anew, pause its DAG first: a run in between would start so."
        )
        _change(store, before, after, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def abandon_command(args: Namespace) -> None:
    """Give up the pending capture."""
    with _plain_errors():
        store = _store()
        before = _existing(store, args.consumer)
        after = abandon(before)
        run = None if before.pending is None else before.pending.run
        _say(f"The pending capture of run {run} will be given up; if that run still commits, its commit fails.")
        _change(store, before, after, args)


def _change(store: VariableStore, before: Checkpoint | None, after: Checkpoint, args: Namespace) -> None:
    AirflowConsole().print_as(data=change_rows(before, after), output=args.output)
    if args.dry_run:
        _say("Dry run: nothing was written.")
        return
    if not args.yes:
        _confirm(args.consumer)
    store.write(after, expected_revision=None if before is None else before.revision)
    _say(f"Written: the checkpoint of {args.consumer} is at revision {after.revision} now.")


def _confirm(consumer: str) -> None:
    """Ask for the name and not for a letter: a checkpoint moved by mistake shows up days later, as missing rows."""
    _say(f"Type the consumer's name to go on ({consumer}): ", end="")
    if sys.stdin.readline().strip() != consumer:
        raise InputError(
            "not confirmed",
            consequence="Nothing was written",
            remedy="type the consumer's name when asked, or use --yes",
        )


def _store() -> VariableStore:
    from airflow.configuration import conf

    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    kind = conf.get("ips", "checkpoint_store", fallback="variable")
    if kind != "variable":
        raise InputError(
            f"[ips] checkpoint_store={kind!r} is unknown",
            consequence="The commands do not know where checkpoints live",
            remedy="set it to variable",
        )
    return VariableStore(access=ServerVariables())


def _existing(store: VariableStore, consumer: str) -> Checkpoint:
    checkpoint = store.read(consumer)
    if checkpoint is None:
        raise InputError(
            f"consumer {consumer!r} has no checkpoint",
            consequence="It has never captured here, or under another name",
            remedy="see the names that there are with `airflow ips list`",
        )
    return checkpoint


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
    from airflow_provider_ips.hooks.ips import IpsHook
    from airflow_provider_ips.iceberg import open_source, position_at

    source = open_source(IpsHook(args.conn_id).catalog, args.table, args.branch)
    return position_at(source, snapshot_id=snapshot_id, time_ms=time_ms)


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


def _committed_capture(checkpoint: Checkpoint, args: Namespace) -> str:
    if bool(args.capture_id) == bool(args.run_id):
        raise InputError(
            "give one of --capture-id and --run-id",
            consequence="Where to go back to must be said exactly once",
            remedy=f"see `airflow ips history --consumer {args.consumer}`",
        )
    if args.capture_id:
        return str(args.capture_id)
    found = [c.capture_id for c in checkpoint.history if c.run is not None and c.run.run_id == args.run_id]
    if len(found) == 1:
        return found[0]
    raise InputError(
        f"consumer {args.consumer!r} remembers {len(found)} captures committed by run {args.run_id!r}",
        consequence="It is not clear where to go back to",
        remedy=f"choose by --capture-id from `airflow ips history --consumer {args.consumer}`",
    )


@contextmanager
def _plain_errors() -> Iterator[None]:
    """A command ends with what to do and not with a traceback."""
    try:
        yield
    except IpsError as error:
        raise SystemExit(str(error)) from None


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)  # noqa: T201 - a command speaks to whoever runs it
