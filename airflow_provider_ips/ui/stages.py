"""How DAGs feed each other by captures and targets, and how far each chunk of a backfill has come in them.

A backfill in chunks commits in its own DAG, and moves no checkpoint. What its jobs wrote reaches the next stage as any
other commit of the table does. So a chunk has reached a stage once a commit there covers whatever the table had when
the chunk was committed, which may be more than the chunk wrote, and is never less:

    db.daily       1 ── 2 ── 3          the chunk was committed after 2 and before 3
    next stage          ▲ committed     2 is covered: the chunk has reached it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.ui import urls
from airflow_provider_ips.ui.tables import connection_of, reaches, seen_source

if TYPE_CHECKING:
    from airflow_provider_ips.core.checkpoint.entries import SourceRange
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.core.sightings.consumer_sighting import SourceSighting
    from airflow_provider_ips.core.sightings.table_sighting import TableSighting
    from airflow_provider_ips.ui.consumers import Consumer
    from airflow_provider_ips.ui.stored_runs import StoredCapture
    from airflow_provider_ips.ui.tables import SeenTable

SHOWN_BACKFILLS: Final = 10
MOST_CHUNKS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A DAG, or a stage of a backfill, at its place in a drawing."""

    name: str
    label: str
    column: int
    row: int
    text: str
    tone: str
    page: str
    share: float | None = None
    """How much of it is done, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """From one node to another, with a text at either side of it."""

    start: str
    end: str
    above: str
    below: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A table that one DAG writes and another one captures, or a source that no DAG here writes."""

    table: str
    writer: str | None
    reader: Consumer
    seen: SourceSighting | None


def find_edges(consumers: Sequence[Consumer]) -> list[Edge]:
    """Find how DAGs feed each other: an edge for each source of each consumer."""
    writers: dict[str, set[str]] = {}
    for each in consumers:
        for target in each.task.targets if each.task else ():
            writers.setdefault(target.label, set()).add(each.dag_id)
    return [
        Edge(table=label, writer=writer, reader=reader, seen=seen_source(reader, label))
        for reader in consumers
        for label in reader.sources
        for writer in (*sorted(writers.get(label, set()) - {reader.dag_id}),) or (None,)
    ]


def place_stages(consumers: Sequence[Consumer], edges: Sequence[Edge]) -> list[Node]:
    """Place the DAGs that feed each other in columns: each to the right of those that it captures from."""
    by_dag: dict[str, Consumer] = {}
    for each in consumers:  # they come with the most urgent first
        by_dag.setdefault(each.dag_id, each)
    pairs = [(edge.writer, edge.reader.dag_id) for edge in edges if edge.writer is not None]
    return [
        Node(
            name=name,
            label=name,
            column=column,
            row=row,
            text=by_dag[name].state.word,
            tone=by_dag[name].state.tone,
            page=urls.consumer_page(name, by_dag[name].name),
        )
        for name, column, row in _places(pairs)
    ]


def _places(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, int, int]]:
    """Give each name of some arrows a column and a row."""
    fed: dict[str, set[str]] = {}
    for start, end in pairs:
        fed.setdefault(end, set()).add(start)
        fed.setdefault(start, set())
    columns, rows = _columns(fed), dict[int, int]()
    placed = []
    for name in sorted(columns, key=lambda each: (columns[each], each)):
        row = rows.setdefault(columns[name], 0)
        rows[columns[name]] += 1
        placed.append((name, columns[name], row))
    return placed


def _columns(fed: Mapping[str, set[str]]) -> dict[str, int]:
    """Give each name the longest way to it from a first one. Names in a circle stop growing after as many rounds."""
    columns = dict.fromkeys(fed, 0)
    for _ in fed:
        grown = {name: max((columns[each] + 1 for each in before), default=0) for name, before in fed.items()}
        if grown == columns:
            break
        columns = {name: min(column, len(fed) - 1) for name, column in grown.items()}
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How far one chunk is in one stage: ``committed``, ``at work``, ``not committed``, ``waits`` or ``unknown``."""

    word: str
    at_ms: int | None = None
    """When it was committed there, if that is known."""


_WAITS: Final = Step(word="waits")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillStage:
    """A capture that the chunks of a backfill pass."""

    name: str
    dag_id: str
    page: str
    steps: Mapping[int, Step] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return sum(step.word == "committed" for step in self.steps.values())

    @property
    def done_at_ms(self) -> int | None:
        """When the last chunk was committed; None if not all are."""
        times = [step.at_ms for step in self.steps.values() if step.word == "committed"]
        known = [at for at in times if at is not None]
        return max(known) if known and len(known) == len(self.steps) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A run that processes a table in chunks, and the stages that these pass, the first one first."""

    dag_id: str
    run_id: str
    labels: Mapping[int, str]
    stages: tuple[BackfillStage, ...]
    arrows: tuple[Arrow, ...]

    @property
    def of(self) -> int:
        return len(self.labels)

    @property
    def nodes(self) -> list[Node]:
        """The stages as they are drawn."""
        pairs = [(arrow.start, arrow.end) for arrow in self.arrows]
        places = {name: (column, row) for name, column, row in _places(pairs)}
        of_dag = Counter(each.dag_id for each in self.stages)
        return [
            Node(
                name=each.name,
                label=each.dag_id if of_dag[each.dag_id] == 1 else each.name,
                column=places.get(each.name, (0, number))[0],
                row=places.get(each.name, (0, number))[1],
                text=f"{each.done:,} of {self.of:,} committed",
                tone="success" if each.done == self.of else "running" if each.done else "none",
                page=each.page,
                share=each.done / self.of,
            )
            for number, each in enumerate(self.stages)
        ]


def find_backfills(
    captures: Iterable[StoredCapture], edges: Sequence[Edge], tables: Iterable[SeenTable]
) -> list[Backfill]:
    """Find the newest backfills among the records of chunks, and follow each chunk through the stages after it."""
    runs: dict[tuple[str, str], list[StoredCapture]] = {}
    for each in captures:
        if chunk_of(each) is not None:
            runs.setdefault((each.dag_id, each.run_id), []).append(each)
    seen = {(each.iceberg_conn_id, each.label): each.sighting for each in tables}
    return [_backfill(*run, chunks, edges, seen) for run, chunks in list(runs.items())[:SHOWN_BACKFILLS]]


def chunk_of(stored: StoredCapture) -> tuple[int, int, str] | None:
    """Return the number of the chunk, of how many it is one, and its label, if the record says so."""
    context = stored.value.get("requested") if isinstance(stored.value, dict) else None
    chunk = context.get("chunk") if isinstance(context, dict) else None
    if not isinstance(chunk, dict):
        return None
    number, of = chunk.get("number"), chunk.get("of")
    if not isinstance(number, int) or not isinstance(of, int) or not 1 <= number <= of <= MOST_CHUNKS:
        return None
    return number, of, str(chunk.get("label") or number)


def _backfill(
    dag_id: str,
    run_id: str,
    captures: Sequence[StoredCapture],
    edges: Sequence[Edge],
    seen: Mapping[tuple[str | None, str], TableSighting | None],
) -> Backfill:
    known = {chunk[0]: chunk for each in captures if (chunk := chunk_of(each)) is not None}
    of = max(chunk[1] for chunk in known.values())
    labels = {number: known[number][2] if number in known else str(number) for number in range(1, of + 1)}
    stages = _own_stages(dag_id, run_id, captures, labels)
    arrows: list[Arrow] = []
    ahead = [(dag_id, each) for each in stages]
    while ahead:
        writer, stage = ahead.pop(0)
        for edge in edges:
            name = edge.reader.name
            if edge.writer != writer or edge.reader.dag_id == dag_id or any(x.end == name for x in arrows):
                continue
            arrows.append(Arrow(start=stage.name, end=name, above=edge.table, below=""))
            sighting = seen.get((connection_of(edge.reader), edge.table))
            steps = {number: _next_step(stage.steps.get(number, _WAITS), edge, sighting) for number in labels}
            page = urls.consumer_page(edge.reader.dag_id, name)
            stages.append(BackfillStage(name=name, dag_id=edge.reader.dag_id, page=page, steps=steps))
            ahead.append((edge.reader.dag_id, stages[-1]))
    return Backfill(dag_id=dag_id, run_id=run_id, labels=labels, stages=tuple(stages), arrows=tuple(arrows))


def _own_stages(
    dag_id: str, run_id: str, captures: Sequence[StoredCapture], labels: Mapping[int, str]
) -> list[BackfillStage]:
    tasks: dict[str, dict[int, Step]] = {}
    for each in captures:  # newest first: a chunk that was cleared counts as it is now
        if (chunk := chunk_of(each)) is not None:
            tasks.setdefault(each.task_id, {}).setdefault(chunk[0], _own_step(each))
    return [
        BackfillStage(
            name=f"{dag_id}.{task_id}",
            dag_id=dag_id,
            page=urls.run_page(dag_id, run_id),
            steps={number: steps.get(number, _WAITS) for number in labels},
        )
        for task_id, steps in sorted(tasks.items())
    ]


def _own_step(stored: StoredCapture) -> Step:
    if stored.outcome is None:
        return Step(word="not committed" if stored.run_state in ("failed", "success") else "at work")
    at = stored.committed_at
    return Step(word="committed", at_ms=None if at is None else int(at.timestamp() * 1000))


def _next_step(before: Step, edge: Edge, sighting: TableSighting | None) -> Step:
    """Find the commit of a stage that covers what its source had when a chunk was committed in the stage before."""
    if before.word != "committed":
        return _WAITS
    if before.at_ms is None:
        return Step(word="unknown")
    at_ms, reader = before.at_ms, edge.reader
    begun = "at work" if reader.state.word == "running" else "not committed"
    if (checkpoint := reader.document.read_in_full()) is None:  # it is in Iceberg, or there is none
        return _seen_step(edge.seen, at_ms, sighting, begun)

    def is_covered(ranges: Iterable[SourceRange]) -> bool:
        return any(r.source.label == edge.table and _covers(r.to_inclusive, at_ms, sighting) for r in ranges)

    if (covering := next((entry for entry in checkpoint.history if is_covered(entry.ranges)), None)) is not None:
        return Step(word="committed", at_ms=max(covering.committed_at_ms, at_ms))
    is_begun = checkpoint.pending is not None and is_covered(checkpoint.pending.ranges)
    return Step(word=begun) if is_begun else _WAITS


def _seen_step(seen: SourceSighting | None, at_ms: int, sighting: TableSighting | None, begun: str) -> Step:
    """Decide by what was seen of a consumer: when it committed is not known then."""
    if seen is None or seen.committed is None:
        return _WAITS
    if _covers(seen.committed, at_ms, sighting):
        return Step(word="committed")
    is_begun = seen.pending is not None and _covers(seen.pending.to_inclusive, at_ms, sighting)
    return Step(word=begun) if is_begun else _WAITS


def _covers(position: Position, at_ms: int, sighting: TableSighting | None) -> bool:
    """Whether a position is at or after all commits that its table had at a time."""
    if position.committed_at_ms >= at_ms:
        return True
    if sighting is None or sighting.seen_at_ms < at_ms:
        return False
    newest = next((commit for commit in sighting.commits if commit.committed_at_ms <= at_ms), None)
    order = {commit.snapshot_id: index for index, commit in enumerate(sighting.commits)}
    return newest is not None and reaches(position, newest, sighting, order) is True
