"""Runs a command in a task, for people who have no command line: a trigger form replaces options and questions."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

from airflow_provider_ips.checkpoints.variable import TaskVariables
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.maintenance import clean_up, doctor, estimate, manual_changes, overview, replay
from airflow_provider_ips.maintenance.console import Console, ConsumerOptions, Row, StoreOptions

log = logging.getLogger(__name__)

DAG_ID: Final = "ips_maintenance"
"""The example DAG that runs them. The page *Incremental* starts runs of a DAG of this name."""

COMMANDS: Final[Mapping[str, tuple[Callable[[Console, Any], object], type[Any]]]] = {
    "list": (overview.list_consumers, StoreOptions),
    "show": (overview.show, ConsumerOptions),
    "history": (overview.history, ConsumerOptions),
    "lag": (overview.lag, overview.LagOptions),
    "doctor": (doctor.doctor, doctor.DoctorOptions),
    "estimate": (estimate.estimate, estimate.EstimateOptions),
    "seed": (manual_changes.seed, manual_changes.SeedOptions),
    "rewind": (manual_changes.rewind, manual_changes.RewindOptions),
    "reset": (manual_changes.reset, manual_changes.ResetOptions),
    "abandon": (manual_changes.abandon, manual_changes.AbandonOptions),
    "move": (manual_changes.move, manual_changes.MoveOptions),
    "replay": (replay.replay, replay.ReplayOptions),
    "gc": (clean_up.gc, clean_up.CleanUpOptions),
}
"""Each command with the class of its options."""

_OPTIONS: Final = sorted({option.name for _, options in COMMANDS.values() for option in fields(options)})


@dataclass(slots=True)
class TaskConsole:
    """A task's log. The word that confirms a change is in the trigger form."""

    user: str
    confirmation: str
    rows: list[Row] = field(default_factory=list)
    variables: TaskVariables = field(default_factory=TaskVariables)
    shows_documents: bool = False

    def show(self, rows: Sequence[Row]) -> None:
        self.rows.extend(rows)
        for row in rows:
            log.info("%s", ", ".join(f"{name}: {value}" for name, value in row.items() if value is not None))

    def show_document(self, document: Mapping[str, Any]) -> None:
        log.info("%s", json.dumps(document))

    def say(self, text: str) -> None:
        log.info("%s", text)

    def read_confirmation(self, word: str, *, what: str) -> str:
        log.info("To confirm, type %s into the form: %s", what, word)
        return self.confirmation


def run_command(name: str, form: Mapping[str, Any], *, user: str, confirmation: str = "") -> list[Row]:
    """Do what `airflow ips <name>` does, and return its rows. Without ``dry_run=False`` nothing is written.

    :param form: Options of the command, and of others: the form is the same for all commands.
    """
    run, options = command_of(name, form)
    console = TaskConsole(user, confirmation)
    run(console, options)
    return console.rows


def command_of(name: str, form: Mapping[str, Any]) -> tuple[Callable[[Console, Any], object], Any]:
    """Return a command and its options, as a form gives them.

    :param form: Options of the command, and of others: a form may be the same for all commands.
    """
    # No form may answer its own confirmation.
    given = {option: value for option, value in form.items() if value not in (None, "") and option != "yes"}
    if name not in COMMANDS:
        raise _nothing_done(f"{name!r} is not a command", f"use one of {', '.join(COMMANDS)}")
    if unknown := sorted(set(given) - set(_OPTIONS)):
        raise _nothing_done(f"unknown options {unknown}", f"use some of {', '.join(_OPTIONS)}")
    run, options = COMMANDS[name]
    required = [option.name for option in fields(options) if option.default is MISSING]
    if missing := [option for option in required if option not in given]:
        raise _nothing_done(f"{name} needs {' and '.join(missing)}", "fill in the form's field of that name")
    return run, options(**{option.name: given[option.name] for option in fields(options) if option.name in given})


def _nothing_done(problem: str, remedy: str) -> InputError:
    return InputError(problem, consequence="Nothing was done", remedy=remedy)
