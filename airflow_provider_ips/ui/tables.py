"""Tables from the side of their readers: who has processed which commit, and how DAGs feed each other by them.

A reader sees of a table what they see of its consumers: a table that only other DAGs capture is not there for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.sightings.consumer_sighting import SourceSighting
from airflow_provider_ips.core.sightings.table_sighting import Commit, Effect, TableSighting

if TYPE_CHECKING:
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.ui.consumers import Consumer
    from airflow_provider_ips.ui.stored_runs import StoredCapture


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTable:
    """A source with those of its consumers that the reader may see."""

    label: str
    iceberg_conn_id: str | None
    consumers: tuple[Consumer, ...]
    sighting: TableSighting | None = None

    @property
    def dag_id(self) -> str:
        """A DAG by which the reader may see it."""
        return self.consumers[0].dag_id


def list_tables_of(consumers: Iterable[Consumer], sightings: Sequence[TableSighting]) -> list[SeenTable]:
    """List the sources of consumers, by connection, each with what was seen of it through that connection."""
    seen = {(each.iceberg_conn_id, each.source.label): each for each in sightings}
    found: dict[tuple[str, str | None], list[Consumer]] = {}
    for consumer in consumers:
        for label in consumer.sources:
            found.setdefault((label, _connection(consumer)), []).append(consumer)
    return [
        SeenTable(
            label=label,
            iceberg_conn_id=connection,
            consumers=tuple(members),
            sighting=seen.get((connection, label)) if connection else None,
        )
        for (label, connection), members in sorted(found.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))
    ]


def _connection(consumer: Consumer) -> str | None:
    if consumer.seen is not None:
        return consumer.seen.iceberg_conn_id
    named = consumer.task.settings.get("iceberg_conn_id") if consumer.task else None
    return named if isinstance(named, str) and "{{" not in named else None


_VERDICTS: Final = {
    Effect.APPEND: "adds rows",
    Effect.CHANGE: "changes or removes rows",
    Effect.COMPACTION: "compaction: no row changes",
    Effect.NOTHING: "no row changes",
    Effect.UNKNOWN: "its counts do not say",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLine:
    """One commit, what it did to the rows, and how far each consumer is with it."""

    commit: Commit
    verdict: str
    has_rows: bool
    words: tuple[str, ...]
    """One for each consumer: ``processed``, ``captured``, ``waits`` or ``unknown``."""


def commit_lines(table: SeenTable) -> list[CommitLine]:
    """Put each seen commit of a table on a line, newest first."""
    if table.sighting is None:
        return []
    sighting = table.sighting
    order = {commit.snapshot_id: index for index, commit in enumerate(sighting.commits)}
    places = [_places(consumer, table.label) for consumer in table.consumers]
    return [
        CommitLine(
            commit=commit,
            verdict=_VERDICTS[commit.effect],
            has_rows=commit.effect in (Effect.APPEND, Effect.CHANGE, Effect.UNKNOWN),
            words=tuple(_word(commit, committed, pending, sighting, order) for committed, pending in places),
        )
        for commit in sighting.commits
    ]


def _places(consumer: Consumer, label: str) -> tuple[Position | None, Position | None]:
    """Return the committed position of a consumer in a source, and the end of its pending capture there."""
    checkpoint = consumer.checkpoint
    if checkpoint is None:
        seen = _seen_source(consumer, label)
        return (None, None) if seen is None else (seen.committed, seen.pending.to_inclusive if seen.pending else None)
    committed = next((p.position for p in checkpoint.positions if p.source.label == label), None)
    ranges = checkpoint.pending.ranges if checkpoint.pending is not None else ()
    return committed, next((r.to_inclusive for r in ranges if r.source.label == label), None)


def _seen_source(consumer: Consumer, label: str) -> SourceSighting | None:
    sources = () if consumer.seen is None else consumer.seen.sources
    return next((each for each in sources if each.source.label == label), None)


def _word(
    commit: Commit,
    committed: Position | None,
    pending: Position | None,
    sighting: TableSighting,
    order: Mapping[int, int],
) -> str:
    is_processed = _reaches(committed, commit, sighting, order)
    if is_processed is None:
        return "unknown"
    if is_processed:
        return "processed"
    return "captured" if _reaches(pending, commit, sighting, order) else "waits"


def _reaches(
    position: Position | None, commit: Commit, sighting: TableSighting, order: Mapping[int, int]
) -> bool | None:
    """Whether a position is at a commit or after it; None if that is not known.

    The seen commits are one line of parents, so a position that is one of them decides by its place. Another one may be
    at a commit that was rolled back. Then only numbers that grow with each commit of a table prove something:

        at 9, number 2; commit 3, number 3    not processed: it was committed later
        at 9, number 2; commit 1, number 1    unknown: it need not be among the parents of 9
    """
    if position is None or position.snapshot_id is None:
        return False
    if position.table_uuid != sighting.table_uuid:
        return None
    if position.snapshot_id in order:
        return order[commit.snapshot_id] >= order[position.snapshot_id]
    is_later = 0 < position.sequence_number < commit.sequence_number
    return False if is_later else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A DAG in the graph of stages, at its place in the drawing."""

    dag_id: str
    column: int
    row: int
    state: str
    tone: str
    page: str


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
        Edge(table=label, writer=writer, reader=reader, seen=_seen_source(reader, label))
        for reader in consumers
        for label in reader.sources
        for writer in (*sorted(writers.get(label, set()) - {reader.dag_id}),) or (None,)
    ]


def place_stages(consumers: Sequence[Consumer], edges: Sequence[Edge]) -> list[Stage]:
    """Place the DAGs that feed each other in columns: each to the right of those that it captures from."""
    fed: dict[str, set[str]] = {}
    for edge in edges:
        if edge.writer is not None:
            fed.setdefault(edge.reader.dag_id, set()).add(edge.writer)
            fed.setdefault(edge.writer, set())
    by_dag: dict[str, Consumer] = {}
    for each in consumers:  # they come with the most urgent first
        by_dag.setdefault(each.dag_id, each)
    columns = _columns(fed)
    rows: dict[int, int] = {}
    placed = []
    for dag_id in sorted(columns, key=lambda each: (columns[each], each)):
        row = rows.setdefault(columns[dag_id], 0)
        rows[columns[dag_id]] += 1
        worst = by_dag[dag_id]
        placed.append(
            Stage(
                dag_id=dag_id,
                column=columns[dag_id],
                row=row,
                state=worst.state.word,
                tone=worst.state.tone,
                page=worst.name,
            )
        )
    return placed


def _columns(fed: Mapping[str, set[str]]) -> dict[str, int]:
    """Give each DAG the longest way to it from a first one. DAGs in a circle stop growing after as many rounds."""
    columns = dict.fromkeys(fed, 0)
    for _ in fed:
        grown = {dag_id: max((columns[each] + 1 for each in before), default=0) for dag_id, before in fed.items()}
        if grown == columns:
            break
        columns = {dag_id: min(column, len(fed) - 1) for dag_id, column in grown.items()}
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkProgress:
    """How far the chunks of a backfill have come in one stage of one run."""

    dag_id: str
    run_id: str
    task_id: str
    of: int
    done: tuple[int, ...]
    failed: tuple[int, ...]
    at_work: tuple[int, ...]
    done_at: datetime | None
    """When the last chunk was done; None until then."""


def chunk_progress(captures: Iterable[StoredCapture]) -> list[ChunkProgress]:
    """Tell from the records of chunks which of them was committed in which stage."""
    stages: dict[tuple[str, str, str, int], dict[int, StoredCapture]] = {}
    for each in captures:
        if (chunk := _chunk_of(each)) is not None:
            stages.setdefault((each.dag_id, each.run_id, each.task_id, chunk[1]), {}).setdefault(chunk[0], each)
    return [_progress(stage, newest) for stage, newest in stages.items()]


def _progress(stage: tuple[str, str, str, int], chunks: Mapping[int, StoredCapture]) -> ChunkProgress:
    dag_id, run_id, task_id, of = stage
    done = tuple(sorted(number for number, each in chunks.items() if each.outcome is not None))
    rest = sorted(set(chunks) - set(done))
    has_ended = any(each.run_state in ("failed", "success") for each in chunks.values())
    ends = [each.run_ended_at for each in chunks.values() if each.run_ended_at is not None]
    return ChunkProgress(
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        of=of,
        done=done,
        failed=tuple(rest) if has_ended else (),
        at_work=() if has_ended else tuple(rest),
        done_at=max(ends, default=None) if len(done) == of else None,
    )


def _chunk_of(stored: StoredCapture) -> tuple[int, int] | None:
    """Return the number of the chunk and of how many it is one, if the record says so."""
    context = stored.value.get("requested") if isinstance(stored.value, dict) else None
    chunk = context.get("chunk") if isinstance(context, dict) else None
    number, of = (chunk.get("number"), chunk.get("of")) if isinstance(chunk, dict) else (None, None)
    return (number, of) if isinstance(number, int) and isinstance(of, int) else None


def snapshots_of(tables: Iterable[SeenTable]) -> Iterator[tuple[str, Commit]]:
    """List the seen commits of some tables, for a form in which a snapshot is chosen."""
    for table in tables:
        for commit in table.sighting.commits if table.sighting else ():
            yield table.label, commit
