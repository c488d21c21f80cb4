"""The commands and their arguments. Every `airflow` command imports this module, so it imports nothing else of ours."""

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
    return Arg(flags, **settings)  # type: ignore[no-untyped-call]


_CONSUMER: Final = _arg(
    "--consumer", help="Whose checkpoint: <dag_id>.<capture task_id> unless the capture names another", required=True
)
_CONN_ID: Final = _arg(
    "--conn-id",
    help="The Iceberg connection, also of the iceberg store unless [ips] checkpoint_conn_id is set "
    "(default: iceberg_default)",
    default="iceberg_default",
)
_TABLE: Final = _arg("--table", help="The source table, as source_tables names it, e.g. db.playback", required=True)
_ONE_TABLE: Final = _arg("--table", help="Only this source; without it, all of them")
_BRANCH: Final = _arg("--branch", help="The source's branch (default: main)", default="main")
_SNAPSHOT: Final = _arg("--snapshot", help="The last snapshot that counts as processed")
_TIME: Final = _arg(
    "--time",
    help="Snapshots committed up to this time count as processed: ISO 8601 with its zone, "
    "e.g. 2026-10-01T00:00:00+00:00",
)
_LATEST: Final = _arg("--latest", help="All there is now counts as processed", action="store_true", default=False)
_CAPTURE_ID: Final = _arg("--capture-id", help="The committed capture, from `airflow ips history`")
_RUN_ID: Final = _arg("--run-id", help="Or the DAG run that committed it")
_DRY_RUN: Final = _arg(
    "-n", "--dry-run", help="Show what would be written, and write nothing", action="store_true", default=False
)
_STORE: Final = _arg(
    "--store",
    help="Where the checkpoint lives (default: [ips] checkpoint_store)",
    choices=["variable", "iceberg"],
)
_TO: Final = _arg("--to", help="The store it goes to", choices=["variable", "iceberg"], required=True)
_INITIAL: Final = _arg("--initial", help="The capture's `initial`, if it began there: a snapshot id, or an ISO time")
_OTHER: Final = _arg(
    "--on-other-operation",
    help="As on the capture (default: fail)",
    choices=["fail", "skip_retention", "skip"],
    default="fail",
)
_NAMESPACE: Final = _arg("--namespace", help="Where ICDC tables are (default: [ips] icdc_namespace)")
_LOCATION: Final = _arg("--location", help="The folder of ICDC tables, where captures set icdc_location")
_OLDER: Final = _arg("--older-than-days", help="Leave alone what is younger (default: 7)", type=float, default=7.0)
_GONE: Final = _arg(
    "--gone-consumers",
    help="Take tables of consumers without a checkpoint too: only if no other deployment uses this namespace",
    action="store_true",
    default=False,
)
_ONE_CONSUMER: Final = _arg("--consumer", help="Only this consumer; without it, all of them")
_PROBE: Final = _arg(
    "--write-probe", help="Make and drop a table in the ICDC namespace", action="store_true", default=False
)
_WHERE: Final = (_STORE, _CONN_ID)
_READ: Final = (_CONSUMER, *_WHERE, ARG_OUTPUT, ARG_VERBOSE)
_ASKED: Final = (_DRY_RUN, ARG_YES, ARG_OUTPUT, ARG_VERBOSE)
_CHANGE: Final = (_CONSUMER, *_WHERE, *_ASKED)
_MODULE: Final = "airflow_provider_ips.cli.commands"


def get_ips_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its own commands."""
    return [
        GroupCommand(
            name="ips",
            help="Look at and move the checkpoints of incremental DAGs",
            subcommands=(
                _command("list", "List consumers and how far they are", (*_WHERE, ARG_OUTPUT, ARG_VERBOSE)),
                _command("show", "Show where a consumer stands in each of its sources", _READ),
                _command("history", "List the captures that a consumer has committed, newest last", _READ),
                _command(
                    "seed",
                    "Set the first position in a source, for a DAG whose target exists already",
                    (_TABLE, _BRANCH, _SNAPSHOT, _TIME, _LATEST, *_CHANGE),
                ),
                _command(
                    "rewind",
                    "Go back to before a committed capture, or to a place; the next run takes everything since",
                    (_CAPTURE_ID, _RUN_ID, _SNAPSHOT, _TIME, _ONE_TABLE, _BRANCH, *_CHANGE),
                ),
                _command(
                    "reset",
                    "Forget where a consumer stands; its next run starts by the capture's `initial`",
                    (_ONE_TABLE, _BRANCH, *_CHANGE),
                ),
                _command("abandon", "Give up a pending capture; the next run takes its range again", _CHANGE),
                _command(
                    "replay",
                    "Capture the range of a past commit once more, detached from the checkpoint",
                    (
                        *(_CONSUMER, _CAPTURE_ID, _RUN_ID, _INITIAL, _OTHER, _NAMESPACE, _LOCATION, *_WHERE),
                        *(_DRY_RUN, ARG_OUTPUT, ARG_VERBOSE),
                    ),
                ),
                _command(
                    "gc",
                    "Drop ICDC tables that no checkpoint needs, and files that no table names",
                    (_OLDER, _GONE, _NAMESPACE, _LOCATION, _CONN_ID, *_ASKED),
                ),
                _command(
                    "doctor",
                    "Look at everything a run depends on, before a run does",
                    (_ONE_CONSUMER, _NAMESPACE, _PROBE, _CONN_ID, ARG_OUTPUT, ARG_VERBOSE),
                ),
                _command("move", "Move a checkpoint to the other store", (_CONSUMER, _TO, _CONN_ID, *_ASKED)),
            ),
        )
    ]


def _command(name: str, summary: str, args: tuple[Arg, ...]) -> ActionCommand:
    return ActionCommand(name=name, help=summary, func=lazy_load_command(f"{_MODULE}.{name}_command"), args=args)
