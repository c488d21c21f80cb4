"""Defines the commands and their options. Every `airflow` command imports this module; it imports no other of ours."""

from __future__ import annotations

from typing import Any, Final

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ARG_YES,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)


def _arg(*flags: str, **settings: Any) -> Arg:
    settings["help"] = settings["help"].replace("[ips]", r"\[ips]")  # Airflow prints help texts as rich markup
    return Arg(flags, **settings)  # type: ignore[no-untyped-call]


def _switch(*flags: str, **settings: Any) -> Arg:
    return _arg(*flags, action="store_true", default=False, **settings)


_CONSUMER: Final = _arg(
    "--consumer", help="The consumer: <dag_id>.<capture task_id>, unless the capture names another", required=True
)
_CONN_ID: Final = _arg(
    "--conn-id",
    help="The Iceberg connection; also for the iceberg store, unless [ips] checkpoint_conn_id is set "
    "(default: that of the consumer's capture, or iceberg_default)",
)
_TABLE: Final = _arg("--table", help="The source table, as source_tables names it, e.g. db.playback", required=True)
_ONE_TABLE: Final = _arg("--table", help="Only this source (default: all)")
_BRANCH: Final = _arg("--branch", help="The source's branch (default: main)", default="main")
_SNAPSHOT: Final = _arg("--snapshot", help="The last snapshot that counts as processed")
_TIME: Final = _arg(
    "--time",
    help="Snapshots committed up to this time count as processed: ISO 8601 with a time zone, "
    "e.g. 2026-10-01T00:00:00+00:00",
)
_LATEST: Final = _switch("--latest", help="Everything up to the current snapshot counts as processed")
_CAPTURE_ID: Final = _arg("--capture-id", help="The committed capture, from `airflow ips history`")
_RUN_ID: Final = _arg("--run-id", help="The DAG run that committed the capture")
_DRY_RUN: Final = _switch("-n", "--dry-run", help="Show what would be written, and write nothing")
_STORES: Final = ["variable", "iceberg"]
_STORE: Final = _arg("--store", help="The checkpoint's store (default: [ips] checkpoint_store)", choices=_STORES)
_TO: Final = _arg("--to", help="The store to move the checkpoint to", choices=_STORES, required=True)
_INITIAL: Final = _arg("--initial", help="The capture's `initial`, if its range began there: a snapshot id, or a time")
_ON_OTHER_OPERATION: Final = _arg(
    "--on-other-operation",
    help="The parameter of that name on the capture (default: fail)",
    choices=["fail", "skip_retention", "skip"],
    default="fail",
)
_NAMESPACE: Final = _arg("--namespace", help="The namespace of ICDC tables (default: [ips] icdc_namespace)")
_LOCATION: Final = _arg("--location", help="The folder of ICDC tables, if captures set icdc_location")
_OLDER_THAN: Final = _arg("--older-than-days", help="Keep what is younger (default: 7)", type=float, default=7.0)
_WITHOUT_CHECKPOINT: Final = _switch(
    "--without-checkpoint",
    help="Also drop tables of consumers that have no checkpoint; only if no other deployment uses this namespace",
)
_WROTE_NOTHING: Final = _switch(
    "--wrote-nothing",
    help="Also forget what its job may have written, and a replay; only if it wrote nothing, or the target was "
    "repaired",
)
_ONE_CONSUMER: Final = _arg("--consumer", help="Only this consumer (default: all)")
_LOOK: Final = _switch("--look", help="Look at the tables now, and store what is seen")
_WRITE_PROBE: Final = _switch("--write-probe", help="Create and drop a table in the ICDC namespace")

_MIGRATING: Final = _arg(
    "--migrating",
    help="Only check whether the second DAG, an incremental one, can take over from the first, a plain one",
    nargs=2,
    metavar=("PLAIN_DAG", "INCREMENTAL_DAG"),
)
_LOOKBACK: Final = _arg(
    "--lookback", help="The days that the job reads again in every run (default: 14d)", default="14d"
)
_COLUMN: Final = _arg("--column", help="The column that the job filters by (default: the table is partitioned by it)")
_RUNS: Final = _arg("--runs", help="How many days back to look, one run a day (default: 30d)", default="30d")

# Options that several commands have.
_LIST: Final = (_STORE, _CONN_ID, ARG_OUTPUT, ARG_VERBOSE)
_READ: Final = (_CONSUMER, *_LIST)
_WRITE: Final = (_DRY_RUN, ARG_YES, ARG_OUTPUT, ARG_VERBOSE)
_CHANGE: Final = (_CONSUMER, _STORE, _CONN_ID, *_WRITE)
_CAPTURE: Final = (_CAPTURE_ID, _RUN_ID)
_ICDC: Final = (_NAMESPACE, _LOCATION)
_READING: Final = ("list", "show", "history", "lag")


def get_ips_cli_commands() -> list[CLICommand]:
    """Return the group `ips`, which Airflow adds to its own commands."""
    return [
        GroupCommand(
            name="ips",
            help="Show and change the checkpoints of incremental DAGs",
            subcommands=(
                _command("list", "List all consumers with their sources and last commits", _LIST),
                _command("show", "Show the position of a consumer in each of its sources", _READ),
                _command("history", "List the captures that a consumer has committed, newest last", _READ),
                _command(
                    "lag",
                    "Show how far consumers are from the heads of their sources; exits with 0 if all keep up, 1 if one "
                    "does not, 2 if that is not known",
                    (_ONE_CONSUMER, _LOOK, *_LIST),
                ),
                _command(
                    "seed",
                    "Set the first position in a source, for a DAG whose target already exists",
                    (_TABLE, _BRANCH, _SNAPSHOT, _TIME, _LATEST, *_CHANGE),
                ),
                _command(
                    "rewind",
                    "Go back to before a committed capture, or to a place; the next run captures everything after it",
                    (*_CAPTURE, _SNAPSHOT, _TIME, _ONE_TABLE, _BRANCH, *_CHANGE),
                ),
                _command(
                    "reset",
                    "Forget the position of a consumer; its next run starts where the capture's `initial` says",
                    (_ONE_TABLE, _BRANCH, *_CHANGE),
                ),
                _command(
                    "abandon",
                    "Give up a pending capture; the next run takes its range again",
                    (_WROTE_NOTHING, *_CHANGE),
                ),
                _command(
                    "replay",
                    "Capture the range of a past commit again, detached from the checkpoint",
                    (_CONSUMER, *_CAPTURE, _INITIAL, _ON_OTHER_OPERATION, *_ICDC, _DRY_RUN, *_LIST),
                ),
                _command(
                    "gc",
                    "Delete ICDC tables that no checkpoint needs, and files that no table references",
                    (_OLDER_THAN, _WITHOUT_CHECKPOINT, *_ICDC, _CONN_ID, *_WRITE),
                ),
                _command(
                    "doctor",
                    "Check everything that a run depends on, before a run does",
                    (_ONE_CONSUMER, _MIGRATING, _NAMESPACE, _WRITE_PROBE, _CONN_ID, ARG_OUTPUT, ARG_VERBOSE),
                ),
                _command(
                    "estimate",
                    "Compare what a lookback reads of a table with what captures would, from metadata alone",
                    (_TABLE, _LOOKBACK, _COLUMN, _RUNS, _BRANCH, _CONN_ID, ARG_OUTPUT, ARG_VERBOSE),
                ),
                _command("move", "Move a checkpoint to the other store", (_CONSUMER, _TO, _CONN_ID, *_WRITE)),
            ),
        )
    ]


def _command(name: str, summary: str, args: tuple[Arg, ...]) -> ActionCommand:
    path = f"airflow_provider_ips.cli.{'reading' if name in _READING else 'tables'}.{name}_command"
    return ActionCommand(name=name, help=summary, func=lazy_load_command(path), args=args)
