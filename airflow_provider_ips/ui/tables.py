"""Tables from the side of their readers: who has processed which commit, and how DAGs feed each other by them.

A reader sees of a table what they see of its consumers: a table that only other DAGs capture is not there for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.sightings.consumer_sighting import SourceSighting
from airflow_provider_ips.core.sightings.table_sighting import Commit, Effect, TableSighting

if TYPE_CHECKING:
    from airflow_provider_ips.core.positions import Position
    from airflow_provider_ips.ui.consumers import Consumer


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
            found.setdefault((label, connection_of(consumer)), []).append(consumer)
    return [
        SeenTable(
            label=label,
            iceberg_conn_id=connection,
            consumers=tuple(members),
            sighting=_newest_look(seen.get((connection, label)), label, members) if connection else None,
        )
        for (label, connection), members in sorted(found.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))
    ]


def _newest_look(sighting: TableSighting | None, label: str, consumers: Iterable[Consumer]) -> TableSighting | None:
    """Count the looks for its consumers that found the same head: a table is written down for a new head only."""
    if sighting is None or not sighting.commits:
        return sighting
    head = sighting.commits[0].snapshot_id
    looks = (look for each in consumers if (look := seen_source(each, label)) is not None)
    same = (look for look in looks if look.head is not None and look.head.snapshot_id == head)
    newest = max(same, key=_seen_at, default=None)
    if newest is None or newest.seen_at_ms <= sighting.seen_at_ms:
        return sighting
    return replace(sighting, seen_at_ms=newest.seen_at_ms, seen_by=newest.seen_by)


def _seen_at(look: SourceSighting) -> int:
    return look.seen_at_ms


def connection_of(consumer: Consumer) -> str | None:
    """Return the connection of a consumer, as far as it is known."""
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
        seen = seen_source(consumer, label)
        return (None, None) if seen is None else (seen.committed, seen.pending.to_inclusive if seen.pending else None)
    committed = next((p.position for p in checkpoint.positions if p.source.label == label), None)
    ranges = checkpoint.pending.ranges if checkpoint.pending is not None else ()
    return committed, next((r.to_inclusive for r in ranges if r.source.label == label), None)


def seen_source(consumer: Consumer, label: str) -> SourceSighting | None:
    """Return what was seen of one source of a consumer."""
    sources = () if consumer.seen is None else consumer.seen.sources
    return next((each for each in sources if each.source.label == label), None)


def _word(
    commit: Commit,
    committed: Position | None,
    pending: Position | None,
    sighting: TableSighting,
    order: Mapping[int, int],
) -> str:
    is_processed = reaches(committed, commit, sighting, order)
    if is_processed is None:
        return "unknown"
    if is_processed:
        return "processed"
    return "captured" if reaches(pending, commit, sighting, order) else "waits"


def reaches(
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


def snapshots_of(tables: Iterable[SeenTable]) -> Iterator[tuple[str, Commit]]:
    """List the seen commits of some tables, for a form in which a snapshot is chosen."""
    for table in tables:
        for commit in table.sighting.commits if table.sighting else ():
            yield table.label, commit
