"""A story: tables, a consumer, and what happens to them. It is plain data, so it can be printed and shortened."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_ips.core.settings import CaptureSettings
from tests.model.catalog import Catalog, model_catalog
from tests.model.consumer import Consumer
from tests.model.known import KNOWN
from tests.model.ledger import TableTraits
from tests.model.table import Table
from tests.model.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

Action = tuple[Any, ...]
"""A name and its arguments: a method of `Consumer`, or of `Table` with the table's number as first argument."""

OF_CONSUMERS: Final = ("run", "full", "clear", "late_commit", "reset", "correct")
CATCH_UP_RUNS: Final = 6


@dataclass(frozen=True, slots=True)
class Story:
    """All that a history consists of."""

    actions: tuple[Action, ...]
    job: str = "insert"
    settings: dict[str, Any] = field(default_factory=dict)
    tables: tuple[dict[str, Any], ...] = ({},)
    consumer: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """As it can be pasted into a test."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "actions"}
        given = [f"    {name}={value!r}," for name, value in told.items() if value != getattr(Story(()), name)]
        return "\n".join(["Story(", "    (", *(f"        {a!r}," for a in self.actions), "    ),", *given, ")"])


@dataclass(slots=True)
class Stage:
    """A story while it is played."""

    tables: list[Table]
    consumer: Consumer
    jobs: set[str]
    """All jobs that the consumer will have."""

    avoiding: Mapping[str, Callable[[Stage, Action], bool]]
    lines: list[str] = field(default_factory=list)

    def play(self, action: Action) -> str:
        """Let one thing happen, and say what came of it."""
        name, *arguments = action
        self.lines.append(f"{action!r}")
        known = next((label for label, would_meet in self.avoiding.items() if would_meet(self, action)), None)
        if known is not None:
            result = f"left out: {known}"
        elif name in OF_CONSUMERS:
            result = str(getattr(self.consumer, name)(*arguments))
        else:
            result = str(getattr(self.tables[arguments[0]], name)(*arguments[1:]) or "")
        self.lines[-1] += f" {result}" if result else ""
        return result

    def finish(self) -> None:
        """Let new runs catch up, until there is nothing to process or an error is reported."""
        self.consumer.correct("", {"max_snapshots": None, "max_files": None})
        for _ in range(CATCH_UP_RUNS):
            result = self.play(("run",))
            if "advanced" not in result:
                return


def staged(story: Story, avoiding: Collection[str] = ()) -> Stage:
    """Set the stage. ``avoiding``: names out of `KNOWN`."""
    keys, warehouse = count(1), Warehouse()
    tables = [
        Table(f"db.t{number}", warehouse, lambda: next(keys), TableTraits(**traits))
        for number, traits in enumerate(story.tables)
    ]
    catalog = Catalog(sources={table.name: table for table in tables})
    consumer = Consumer(catalog, tables, CaptureSettings(**story.settings), story.job, **story.consumer)
    jobs = {story.job, *(action[1] for action in story.actions if action[0] == "correct")}
    return Stage(tables, consumer, jobs, {name: KNOWN[name] for name in avoiding})


def play(story: Story, avoiding: Collection[str] = ()) -> list[str]:
    """Play a story to its end, and say what happened; raises where the law is broken."""
    with model_catalog():
        return _played(staged(story, avoiding), story)


def failure_of(story: Story, avoiding: Collection[str] = ()) -> Exception | None:
    """What a story breaks, the law or the code under test; None if nothing. A model catalog must be open."""
    try:
        _played(staged(story, avoiding), story)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return error
    return None


def _played(stage: Stage, story: Story) -> list[str]:
    try:
        for action in story.actions:
            stage.play(action)
        stage.finish()
    except Exception as error:
        error.add_note("\n".join(stage.lines))
        raise
    return stage.lines
