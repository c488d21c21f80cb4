"""Runs commands in a terminal. Results go to standard output in the chosen format, all else to standard error.

A command has the metadata database and no task SDK. Variables are Airflow's models here, and the process is
marked as one of the server for hooks, as `airflow connections test` does.
"""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from rich.markup import escape

from airflow_provider_ips.checkpoints.variable import ServerVariables
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.maintenance.console import DEFAULT_CONN_ID
from airflow_provider_ips.maintenance.server import Server

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

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
        shown = [{name: _as_written(value) for name, value in row.items()} for row in rows]
        AirflowConsole().print_as(data=shown if self.output == "table" else list(rows), output=self.output)

    @property
    def shows_documents(self) -> bool:
        return self.output in ("json", "yaml")

    def show_document(self, document: Mapping[str, Any]) -> None:
        console = AirflowConsole()
        (console.print_as_json if self.output == "json" else console.print_as_yaml)(dict(document))

    def say(self, text: str, end: str = "\n") -> None:
        print(text, end=end, file=sys.stderr, flush=True)  # noqa: T201 - a command speaks to the person who runs it

    def read_confirmation(self, word: str, *, what: str) -> str:
        self.say(f"Type {what} to confirm ({word}): ", end="")
        return sys.stdin.readline()


def _as_written(value: str | int | None) -> str | int | None:
    """Keep rich, which prints tables, from taking the section of an option, such as ``[ips]``, for markup."""
    return escape(value) if isinstance(value, str) else value


def _connection_of(consumer: str | None) -> str:
    """Return the connection of a consumer's capture, as far as its DAG shows it."""
    return (Server().connection_of(consumer) if consumer else None) or DEFAULT_CONN_ID


def cli_function(name: str, run: Callable[[Console, Any], None], options: type[Any]) -> CliFunction:
    """Make the function that Airflow calls for a command, with what was parsed as typed options."""

    def call(args: Namespace) -> None:
        os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
        given = {option.name: getattr(args, option.name) for option in fields(options)}
        try:
            if "conn_id" in given and given["conn_id"] is None:
                given["conn_id"] = _connection_of(given.get("consumer"))
            run(Terminal(args.output), options(**given))
        except IpsError as error:  # a command ends with what to do, and not with a traceback
            raise SystemExit(str(error)) from None

    call.__name__ = f"{name}_command"  # Airflow's audit log calls the event cli_<this name>
    return cast("CliFunction", suppress_logs_and_warning(providers_configuration_loaded(call)))
