"""A table's history as facts, and the walk along its parents.

Reading history costs: ``reads_manifests`` opens a manifest list, ``reads_past`` an older metadata file. Everything else
is in the table metadata that one catalog load brings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.positions import Position, format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from airflow_provider_ips.core.files import FileFacts

DATA = "data"
DELETES = "deletes"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """One snapshot, as table metadata tells it."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_at_ms: int
    operation: str | None
    summary: Mapping[str, str] = field(default_factory=dict)

    def count(self, name: str) -> int | None:
        """Read a summary counter; None when it is missing or no number, for unknown is never zero."""
        raw = self.summary.get(name)
        return int(raw) if raw is not None and raw.isascii() and raw.isdigit() else None

    def __str__(self) -> str:
        """As logs and errors name a snapshot."""
        return f"snapshot {self.snapshot_id} ({self.operation}, {format_time(self.committed_at_ms)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFacts:
    """One manifest, as a manifest list tells it. Counts are None where a v1 list leaves them out."""

    path: str
    length: int
    content: str
    spec_id: int
    added_snapshot_id: int | None
    sequence_number: int
    min_sequence_number: int
    added_files: int | None
    existing_files: int | None
    deleted_files: int | None
    added_rows: int | None
    existing_rows: int | None
    deleted_rows: int | None

    @property
    def counts_known(self) -> bool:
        """Whether the list says how many entries of each kind the manifest holds."""
        return None not in (self.added_files, self.existing_files, self.deleted_files)

    @property
    def volume_known(self) -> bool:
        """Whether the list says how many files and rows are live in it."""
        return self.counts_known and None not in (self.added_rows, self.existing_rows, self.deleted_rows)


class TableHistory(Protocol):
    """Where history is read from: a real table, or :class:`~airflow_provider_ips.core.memory.InMemoryHistory`."""

    @property
    def name(self) -> str:
        """The source's dotted name."""

    @property
    def branch(self) -> str:
        """The branch whose head is read."""

    @property
    def table_uuid(self) -> str:
        """The table's identity; a table re-created under its name has another."""

    @property
    def format_version(self) -> int:
        """1, 2 or 3."""

    @property
    def head(self) -> SnapshotFacts | None:
        """The branch's newest snapshot; None for a table without any."""

    @property
    def log_since_ms(self) -> int | None:
        """Since when it is known what was the branch's head; None for a branch of which no log is kept."""

    def head_at(self, time_ms: int) -> int | None:
        """The id of the branch's newest snapshot at a time; None where the table keeps no log of it."""

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        """A retained snapshot, or None when it is expired or never was."""

    def retained(self) -> Iterable[SnapshotFacts]:
        """All retained snapshots, of whatever branch."""

    def reads_manifests(self, snapshot_id: int) -> Sequence[ManifestFacts]:
        """The manifest list of a retained snapshot. Costs a file read."""

    def reads_manifests_written_by(self, snapshot_id: int, writers: Collection[int]) -> Sequence[ManifestFacts]:
        """Those of the list that one of the given snapshots wrote, or that do not say who did. Costs the same read."""

    def reads_entries(self, manifest: ManifestFacts) -> Iterable[FileFacts]:
        """The entries of a manifest, with what they inherit from it. Costs a file read."""

    def reads_past(self, snapshot_id: int, committed_at_ms: int) -> Mapping[int, SnapshotFacts]:
        """The snapshots, by id, of the metadata file that a snapshot's commit wrote. Costs a file read.

        Empty where that file is not known any more: the table names only so many of its older ones.
        """


def head_position(history: TableHistory) -> Position:
    """Where the branch stands now."""
    return position_of(history, history.head)


def position_of(history: TableHistory, snapshot: SnapshotFacts | None) -> Position:
    """A snapshot as a position; None is the table before its first snapshot."""
    return Position(
        table_uuid=history.table_uuid,
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        sequence_number=snapshot.sequence_number if snapshot else 0,
        committed_at_ms=snapshot.committed_at_ms if snapshot else 0,
    )


def walk_back(history: TableHistory, start: SnapshotFacts | None) -> list[SnapshotFacts]:
    """Follow parents from ``start`` as far as they are retained, newest first."""
    return list(ancestors(history, start))


def ancestors(history: TableHistory, start: SnapshotFacts | None) -> Iterator[SnapshotFacts]:
    """The same one by one: who finds what they look for need not walk a history of ten thousand snapshots."""
    seen: set[int] = set()
    current = start
    while current is not None:
        if current.snapshot_id in seen:
            raise GapError(
                f"the history of {history.name} runs in a circle at snapshot {current.snapshot_id}",
                consequence="No range of it can be proven complete",
                remedy="inspect the table's metadata; it is damaged",
            )
        seen.add(current.snapshot_id)
        yield current
        current = None if current.parent_id is None else history.snapshot(current.parent_id)
