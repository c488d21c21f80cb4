"""The verbs in a task, for people who have no command line: a trigger form takes the place of options and questions."""

from __future__ import annotations

import logging
from argparse import Namespace
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.checkpoints.access import TaskVariables
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.maintenance import changing, collecting, doctor, looking, replaying

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_ips.maintenance.desk import Desk, Row

log = logging.getLogger(__name__)

VERBS: Final[Mapping[str, Callable[[Desk, Namespace], None]]] = {
    "list": looking.list_consumers,
    "show": looking.show,
    "history": looking.history,
    "doctor": doctor.doctor,
    "seed": changing.seed,
    "rewind": changing.rewind,
    "reset": changing.reset,
    "abandon": changing.abandon,
    "move": changing.move,
    "replay": replaying.replay,
    "gc": collecting.gc,
}
WITHOUT_CONSUMER: Final = ("list", "doctor", "gc")
DEFAULTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("consumer", "store", "table", "snapshot", "time", "capture_id", "run_id", "initial", "to")),
    **dict.fromkeys(("namespace", "location")),
    **dict.fromkeys(("latest", "gone_consumers", "write_probe", "yes"), False),
    "conn_id": "iceberg_default",
    "branch": "main",
    "on_other_operation": "fail",
    "older_than_days": 7.0,
    "dry_run": True,
}


@dataclass(slots=True)
class TaskDesk:
    """Whoever filled in the trigger form; what they typed to confirm stands there already."""

    who: str
    confirmation: str
    rows: list[Row] = field(default_factory=list)
    variables: TaskVariables = field(default_factory=TaskVariables)

    def say(self, text: str) -> None:
        log.info("%s", text)

    def show(self, rows: Sequence[Row]) -> None:
        self.rows.extend(rows)
        for row in rows:
            log.info("%s", ", ".join(f"{name}: {value}" for name, value in row.items() if value is not None))

    def ask_for(self, word: str, *, what: str) -> str:
        log.info("To confirm, %s has to be typed into the form: %s", what, word)
        return self.confirmation

    def who_shadows(self, _key: str, /) -> str | None:
        """Secrets backends of the server are not a worker's to ask."""
        return None

    def schedule_gap_ms(self, _dag_id: str, /) -> int | None:
        """Schedules are in the metadata database."""
        return None

    def on_other_operation(self, _dag_id: str, _consumer: str, /) -> str | None:
        """So are DAGs."""
        return None

    def targets_of(self, _dag_id: str, _consumer: str, /, *, changed: bool = False) -> None:
        """Likewise."""


def run_verb(verb: str, options: Mapping[str, Any], *, who: str, confirmation: str = "") -> list[Row]:
    """Do what the command of that name does, and return its rows. Without options it is a dry run."""
    given = {name: value for name, value in options.items() if value not in (None, "")}
    if verb not in VERBS or (unknown := sorted(set(given) - set(DEFAULTS))):
        raise InputError(
            f"{verb!r} is no verb of maintenance" if verb not in VERBS else f"unknown options {unknown}",
            consequence="Nothing was done",
            remedy=f"use one of {', '.join(VERBS)}"
            if verb not in VERBS
            else f"use some of {', '.join(sorted(DEFAULTS))}",
        )
    args = Namespace(**{**DEFAULTS, **given, "yes": False})
    needed = [] if verb in WITHOUT_CONSUMER else ["consumer"]
    needed += {"seed": ["table"], "move": ["to"]}.get(verb, [])
    if missing := [name for name in needed if not getattr(args, name)]:
        raise InputError(
            f"{verb} needs {' and '.join(missing)}",
            consequence="Nothing was done",
            remedy="fill in the form's field of that name",
        )
    desk = TaskDesk(who, confirmation)
    VERBS[verb](desk, args)
    return desk.rows
