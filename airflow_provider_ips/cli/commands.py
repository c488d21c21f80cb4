"""The commands: results go to standard output, in the form asked for, and all else to standard error.

A command has the metadata database and no task SDK. Variables are Airflow's models here, and hooks are told that this
is a server process, as `airflow connections test` does.
"""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_ips.checkpoints.access import ServerVariables
from airflow_provider_ips.core.errors import IpsError
from airflow_provider_ips.maintenance import changing, collecting, doctor, looking, replaying
from airflow_provider_ips.maintenance.declared import capture_of, targets_behind
from airflow_provider_ips.maintenance.doctor import longest_gap_ms

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from airflow.serialization.definitions.dag import SerializedDAG

    from airflow_provider_ips.maintenance.desk import Desk, Row

    Verb = Callable[[Desk, Namespace], None]
    Command = Callable[[Namespace], None]

# Airflow's audit log gets every command that changes something, with its arguments.
_audited = cast("Callable[[Command], Command]", action_cli)


@dataclass(frozen=True, slots=True)
class Terminal:
    """Whoever typed the command."""

    output: str
    variables: ServerVariables = field(default_factory=ServerVariables)

    @property
    def who(self) -> str:
        return getpass.getuser()

    def say(self, text: str, end: str = "\n") -> None:
        print(text, end=end, file=sys.stderr, flush=True)  # noqa: T201 - a command speaks to whoever runs it

    def show(self, rows: Sequence[Row]) -> None:
        AirflowConsole().print_as(data=list(rows), output=self.output)

    def ask_for(self, word: str, *, what: str) -> str:
        self.say(f"Type {what} to go on ({word}): ", end="")
        return sys.stdin.readline()

    def who_shadows(self, key: str) -> str | None:
        return self.variables.shadowed_by(key) or ""

    def schedule_gap_ms(self, dag_id: str) -> int | None:
        from datetime import UTC, datetime, timedelta

        dag = _serialized(dag_id)
        if dag is None or not dag.timetable.can_be_scheduled:
            return None
        now = datetime.now(tz=UTC)
        infos = dag.iter_dagrun_infos_between(now, now + timedelta(days=400))
        return longest_gap_ms(int(info.run_after.timestamp() * 1000) for info in infos)

    def on_other_operation(self, dag_id: str, consumer: str) -> str | None:
        return getattr(capture_of(_serialized(dag_id), consumer), "on_other_operation", None)

    def targets_of(self, dag_id: str, consumer: str, *, changed: bool = False) -> set[str]:
        return targets_behind(_serialized(dag_id), consumer, changed=changed)


def _serialized(dag_id: str) -> SerializedDAG | None:
    from airflow.models.serialized_dag import SerializedDagModel

    return SerializedDagModel.get_dag(dag_id)


def _speak(verb: Verb, args: Namespace) -> None:
    """A command ends with what to do and not with a traceback."""
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    try:
        verb(Terminal(args.output), args)
    except IpsError as error:
        raise SystemExit(str(error)) from None


@suppress_logs_and_warning
@providers_configuration_loaded
def list_command(args: Namespace) -> None:
    """Print one row per consumer, damaged ones included."""
    _speak(looking.list_consumers, args)


@suppress_logs_and_warning
@providers_configuration_loaded
def show_command(args: Namespace) -> None:
    """Print where a consumer stands."""
    _speak(looking.show, args)


@suppress_logs_and_warning
@providers_configuration_loaded
def history_command(args: Namespace) -> None:
    """Print what a consumer has committed."""
    _speak(looking.history, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def seed_command(args: Namespace) -> None:
    """Set the first position in a source."""
    _speak(changing.seed, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def rewind_command(args: Namespace) -> None:
    """Go back to before a committed capture, or to a place in a source."""
    _speak(changing.rewind, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def reset_command(args: Namespace) -> None:
    """Forget positions."""
    _speak(changing.reset, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def abandon_command(args: Namespace) -> None:
    """Give up the pending capture."""
    _speak(changing.abandon, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def move_command(args: Namespace) -> None:
    """Move a checkpoint to the other store."""
    _speak(changing.move, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def replay_command(args: Namespace) -> None:
    """Capture the range of a past commit once more, detached from the checkpoint."""
    _speak(replaying.replay, args)


@_audited
@suppress_logs_and_warning
@providers_configuration_loaded
def gc_command(args: Namespace) -> None:
    """Drop ICDC tables that no checkpoint needs, and files that no table names."""
    _speak(collecting.gc, args)


@suppress_logs_and_warning
@providers_configuration_loaded
def doctor_command(args: Namespace) -> None:
    """Look at everything a run depends on."""
    _speak(doctor.doctor, args)
