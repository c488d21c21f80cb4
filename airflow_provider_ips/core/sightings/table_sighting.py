"""What was seen of a table's branch: its newest commits, so that a page can draw each and tell who has processed it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Annotated, ClassVar, Final, Self

from airflow_provider_ips.core.history.snapshots import SnapshotFacts, TableHistory, ancestors, live_volume
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.json_fields import JsonObject, SnapshotId, Stored
from airflow_provider_ips.core.planning.verdicts import KNOWN_OPERATIONS
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.sightings.consumer_sighting import (
    MAX_BYTES,
    SeenBy,
    fitting,
    sighting_key,
    size_of,
    to_text,
)

MAX_COMMITS: Final = 200


class Effect(StrEnum):
    """What a commit did to the rows, by the counts of its summary alone: no file is opened for a sighting."""

    APPEND = "append"
    CHANGE = "change"
    COMPACTION = "compaction"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(JsonObject):
    """One commit. Counts are None where its summary lacks them."""

    snapshot_id: Annotated[SnapshotId, Stored("id")]
    parent_id: Annotated[SnapshotId | None, Stored("parent")]
    committed_at_ms: Annotated[int, Stored("at_ms")]
    sequence_number: Annotated[int, Stored("number")]
    operation: str | None
    effect: Effect
    added_files: int | None
    removed_files: int | None
    added_records: int | None
    removed_records: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSighting(JsonObject):
    """The newest commits of one branch of a table, as one connection reaches it."""

    schema_version: ClassVar = 1

    iceberg_conn_id: str
    source: Annotated[Source, Stored(inline=True)]
    table_uuid: str
    seen_at_ms: int
    seen_by: SeenBy
    table: Volume
    """All that was live at the head."""

    commits: tuple[Commit, ...]
    """The head is first, and each next one is the parent of the one before it."""

    has_more: bool
    """Whether the history goes on beyond the last of them: retained and not listed, or expired."""

    @property
    def key(self) -> str:
        """The name of its Variable."""
        return table_sighting_key(self.iceberg_conn_id, self.source)

    def to_text(self) -> str:
        """Write it in at most ``MAX_BYTES``: the oldest commits are left out first."""
        bare = replace(self, commits=())
        commits = fitting(self.commits, MAX_BYTES - size_of(to_text(bare)))
        return to_text(replace(self, commits=commits, has_more=self.has_more or len(commits) < len(self.commits)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what :meth:`to_text` wrote. Raises one of ``PARSE_ERRORS`` for anything else."""
        return cls.from_json(json.loads(text))


def table_sighting_key(iceberg_conn_id: str, source: Source) -> str:
    """Name the Variable of a table's sighting."""
    return sighting_key("table", iceberg_conn_id, source.full_label)


def see_table(history: TableHistory, *, iceberg_conn_id: str, seen_at_ms: int, seen_by: SeenBy) -> TableSighting:
    """List the newest commits of a history, by what is in memory of it."""
    chain = list(islice(ancestors(history, history.head), MAX_COMMITS))
    return TableSighting(
        iceberg_conn_id=iceberg_conn_id,
        source=Source(history.name, history.branch),
        table_uuid=history.table_uuid,
        seen_at_ms=seen_at_ms,
        seen_by=seen_by,
        table=whole_table(history.head),
        commits=tuple(map(commit_of, chain)),
        has_more=bool(chain) and chain[-1].parent_id is not None,
    )


def whole_table(head: SnapshotFacts | None) -> Volume:
    """All that is live at the head of a table, as sightings of tables and of consumers show it."""
    return live_volume(head)


def commit_of(snapshot: SnapshotFacts) -> Commit:
    """Describe one commit by its summary."""
    count = _Counts(snapshot)
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_id,
        committed_at_ms=snapshot.committed_at_ms,
        sequence_number=snapshot.sequence_number,
        operation=snapshot.operation or None,
        effect=effect_of(snapshot),
        added_files=count("added-data-files"),
        removed_files=count("deleted-data-files"),
        added_records=count("added-records"),
        removed_records=count("deleted-records"),
    )


_REMOVING: Final = ("deleted-data-files", "added-delete-files", "removed-delete-files")


def effect_of(snapshot: SnapshotFacts) -> Effect:
    """What a commit did. Writers leave out counters that are zero, which is only known if the summary has others.

    replace                            compaction
    added files, nothing removed       append
    anything removed, or delete files  change
    no counter but totals              nothing
    no counter at all                  unknown
    """
    if snapshot.operation not in KNOWN_OPERATIONS:
        return Effect.UNKNOWN
    if snapshot.operation == "replace":
        return Effect.COMPACTION
    count = _Counts(snapshot)
    removed = [count(name) for name in _REMOVING]
    if any(removed):
        return Effect.CHANGE
    added = count("added-data-files")
    if None in (*removed, added):
        return Effect.UNKNOWN
    return Effect.APPEND if added else Effect.NOTHING


class _Counts:
    """The counters of a summary: one that is left out is zero if the writer has written totals, else unknown."""

    def __init__(self, snapshot: SnapshotFacts) -> None:
        self._snapshot = snapshot
        self._missing = 0 if snapshot.count("total-data-files") is not None else None

    def __call__(self, name: str) -> int | None:
        counted = self._snapshot.count(name)
        return self._missing if counted is None and name not in self._snapshot.summary else counted
