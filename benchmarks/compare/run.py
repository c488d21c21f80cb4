"""Every contender on every history, one table each, and what the judge says of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_provider_ips.core.errors import IpsError
from benchmarks.compare.contenders import Range
from benchmarks.compare.judge import Judgement, Truth, Verdict, judge
from benchmarks.compare.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from py4j.java_gateway import JavaObject

    from benchmarks.compare.contenders import Contender, Entry
    from benchmarks.compare.lake import Lake
    from benchmarks.compare.scenarios import Scenario

FAILURES = (IpsError, PySparkException, Py4JJavaError)
"""What a user would see fail. Anything else is a mistake of this program, and stops it."""

GONE = ("FileNotFoundException", "Cannot find snapshot", "Cannot find the end snapshot")
"""What Spark says when a job reads files or snapshots that the source's maintenance has deleted."""

_STREAM = re.compile(r".*terminated with exception: (?P<cause>.*?)(?: SQLSTATE: \w+)?$")
_CHANGING = re.compile(r"(file:)?/\S+|\b\d{6,}\b|\b\w+_\d+\b|\d{4}-\d\d-\d\dT[\d:]+Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One contender on one history."""

    scenario: str
    contender: str
    judgement: Judgement

    def to_json(self) -> dict[str, Any]:
        """As the committed file has it."""
        return {"scenario": self.scenario, "contender": self.contender, **self.judgement.to_json()}


def compare(lake: Lake, scenarios: Sequence[Scenario], entries: Sequence[Entry], seed: int) -> Iterator[Cell]:
    """All cells, history by history: contenders that leave a table as it is share one, which the seed makes equal."""
    readers = [entry for entry in entries if not entry.writes_to_source]
    groups = [readers, *([entry] for entry in entries if entry.writes_to_source)]
    order = [entry.title for entry in entries]
    for scenario in scenarios:
        cells = [cell for group in groups if group for cell in _on_one_table(lake, scenario, group, seed)]
        yield from sorted(cells, key=lambda cell: order.index(cell.contender))


def _on_one_table(lake: Lake, scenario: Scenario, entries: Sequence[Entry], seed: int) -> list[Cell]:
    consumers = [_Consumer(entry=entry, contender=entry.make(lake)) for entry in entries]

    def catch_up(story: Story) -> None:
        for consumer in consumers:
            consumer.catch_up(story.name)

    story = Story(lake, f"compared.{lake.unused('t')}", seed=f"{seed} {scenario.title}", on_checkpoint=catch_up)
    scenario.write(story)
    story.check_ledger()
    wanted = Range(table=story.name, after=story.checkpoint_id, to=story.head)
    for consumer in consumers:
        consumer.decide(wanted)
    if scenario.then:
        scenario.then(story)
        story.check_ledger()
    before, after = story.ledger.at(story.checkpoint_id), story.ledger.now
    truth = Truth(before=before, after=after, filtered_by=scenario.filtered_by)
    return [
        Cell(scenario=scenario.title, contender=one.entry.title, judgement=one.judged_by(truth)) for one in consumers
    ]


@dataclass(slots=True, kw_only=True)
class _Consumer:
    """One contender on its way through one history, until it fails."""

    entry: Entry
    contender: Contender
    failure: Judgement | None = None

    def catch_up(self, table: str) -> None:
        self._attempt(lambda: self.contender.catch_up(table))

    def decide(self, wanted: Range) -> None:
        if self.failure is None:
            self._attempt(lambda: self.contender.decide(wanted))

    def judged_by(self, truth: Truth) -> Judgement:
        found: list[Judgement] = []
        if self.failure is None:
            # Spark is lazy: it may fail as late as when the judge collects the rows.
            self._attempt(lambda: found.append(judge(self.contender.read(), truth)))
        return self.failure or found[0]

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except FAILURES as failure:
            why = in_short(failure)
            if self.entry.is_ours and not isinstance(failure, IpsError) and not any(gone in why for gone in GONE):
                # An error that this package did not mean to raise is no refusal; nor is a mistake of this program.
                raise
            self.failure = Judgement(verdict=Verdict.LOUD, why=why)


def in_short(failure: Exception) -> str:
    """The cause in one line, without what differs from run to run and from machine to machine."""
    if isinstance(failure, IpsError):
        text = f"{type(failure).__name__}: {failure.problem}"
    elif isinstance(failure, Py4JJavaError):
        text = _root_cause(failure.java_exception)
    else:
        line = str(failure).splitlines()[0]
        text = match["cause"] if (match := _STREAM.match(line)) else line
    return _CHANGING.sub("…", text)


def _root_cause(throwable: JavaObject) -> str:
    while throwable.getCause() is not None:
        throwable = throwable.getCause()
    message = str(throwable.getMessage()).splitlines()[0]
    return f"{throwable.getClass().getSimpleName()}: {message}"
