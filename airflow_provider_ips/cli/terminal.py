"""Runs commands in a terminal. Results go to standard output in the chosen format, all else to standard error.

A command has the metadata database and no task SDK. Variables are Airflow's models here, and the process is
marked as one of the server for hooks, as `airflow connections test` does.
"""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.maintenance import clean_up, doctor, manual_changes, overview, replay
from airflow_provider_ips.maintenance.console import ConsumerOptions, StoreOptions
from airflow_provider_ips.maintenance.doctor import Server

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from airflow_provider_ips.maintenance.console import Console, Row

    CliFunction = Callable[[Namespace], None]


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal in which the command was typed."""

    output: str
    variables: ServerVariables = field(default_factory=ServerVariables)

    @property
    def user(self) -> str:
        return getpass.getuser()

    def show(self, rows: Sequence[Row]) -> None:
        AirflowConsole().print_as(data=list(rows), output=self.output)

    def say(self, text: str, end: str = "\n") -> None:
        print(text, end=end, file=sys.stderr, flush=True)  # noqa: T201 - a command speaks to the person who runs it

    def read_confirmation(self, word: str, *, what: str) -> str:
        self.say(f"Type {what} to confirm ({word}): ", end="")
        return sys.stdin.readline()


def _cli_function(name: str, run: Callable[[Console, Any], None], options: type[Any]) -> CliFunction:
    """Make the function that Airflow calls for a command, with what was parsed as typed options."""

    def call(args: Namespace) -> None:
        os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
        given = {option.name: getattr(args, option.name) for option in fields(options)}
        try:
            run(Terminal(args.output), options(**given))
        except IpsError as error:  # a command ends with what to do, and not with a traceback
            raise SystemExit(str(error)) from None

    call.__name__ = f"{name}_command"  # Airflow's audit log calls the event cli_<this name>
    return cast("CliFunction", suppress_logs_and_warning(providers_configuration_loaded(call)))


# Airflow's audit log gets every command that writes, with its arguments.
_audited = cast("Callable[[CliFunction], CliFunction]", action_cli)

list_command = _cli_function("list", overview.list_consumers, StoreOptions)
show_command = _cli_function("show", overview.show, ConsumerOptions)
history_command = _cli_function("history", overview.history, ConsumerOptions)
doctor_command = _cli_function("doctor", partial(doctor.doctor, server=Server()), doctor.DoctorOptions)
seed_command = _audited(_cli_function("seed", manual_changes.seed, manual_changes.SeedOptions))
rewind_command = _audited(_cli_function("rewind", manual_changes.rewind, manual_changes.RewindOptions))
reset_command = _audited(_cli_function("reset", manual_changes.reset, manual_changes.ResetOptions))
abandon_command = _audited(_cli_function("abandon", manual_changes.abandon, manual_changes.AbandonOptions))
move_command = _audited(_cli_function("move", manual_changes.move, manual_changes.MoveOptions))
replay_command = _audited(_cli_function("replay", replay.replay, replay.ReplayOptions))
gc_command = _audited(_cli_function("gc", clean_up.gc, clean_up.CleanUpOptions))
