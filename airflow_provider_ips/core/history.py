"""A table's history as facts, and the walk that proves a range.

Reading history costs: ``reads_manifests`` opens a manifest list. Everything else is in the table metadata that one
catalog load brings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.positions import Position, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        return self.counts_known and None not in (self.added_rows, self.existing_rows)


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

    def head_at(self, time_ms: int) -> int | None:
        """The id of the branch's newest snapshot at a time; None where the table keeps no log of it."""

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        """A retained snapshot, or None when it is expired or never was."""

    def reads_manifests(self, snapshot_id: int) -> Sequence[ManifestFacts]:
        """The manifest list of a retained snapshot. Costs a file read."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The snapshots of a range, oldest first, proven to follow on ``from`` without a hole."""

    snapshots: tuple[SnapshotFacts, ...]


def walk_back(history: TableHistory, start: SnapshotFacts | None) -> list[SnapshotFacts]:
    """Follow parents from ``start`` as far as they are retained, newest first."""
    chain: list[SnapshotFacts] = []
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
        chain.append(current)
        current = None if current.parent_id is None else history.snapshot(current.parent_id)
    return chain


def prove_lineage(history: TableHistory, *, after: Position, to: SnapshotFacts | None) -> Lineage:
    """Walk from ``to`` until ``after`` is reached, or raise :class:`GapError` saying why it never was.

    Walking until parents run out is not enough: after a rollback the walk passes ``after`` by and returns everything,
    after expiry it stops early and returns too little.
    """
    _same_table(history, after)
    chain: list[SnapshotFacts] = []
    for snapshot in walk_back(history, to):
        if snapshot.snapshot_id == after.snapshot_id:
            return Lineage(snapshots=tuple(reversed(chain)))
        chain.append(snapshot)
        if after.snapshot_id is not None and snapshot.parent_id == after.snapshot_id:
            return Lineage(snapshots=tuple(reversed(chain)))
    if after.snapshot_id is None and (not chain or is_proven_root(history, chain[-1])):
        return Lineage(snapshots=tuple(reversed(chain)))
    raise _gap(history, after, chain)


def is_proven_root(history: TableHistory, oldest: SnapshotFacts) -> bool:
    """Tell the table's first snapshot from one whose parents were expired.

    Expiry may clear the parent of the oldest snapshot it keeps, so a missing parent proves nothing. A first snapshot
    lists only what it added itself; a cut-off one lists files, or manifests, of the snapshots before it.
    """
    if oldest.parent_id is not None:
        return False
    return all(
        manifest.added_snapshot_id == oldest.snapshot_id
        and manifest.existing_files == 0
        and manifest.deleted_files == 0
        for manifest in history.reads_manifests(oldest.snapshot_id)
    ) and _counts_only_itself(oldest)


def has_seen_older_files(history: TableHistory, position: Position, to: SnapshotFacts) -> bool:
    """Tell whether every file of ``to`` that is not newer by number was in the lineage of ``position``.

    Numbers count the commits of all branches. Where the head was set to another branch, it holds files with smaller
    numbers that ``position`` never saw. So the head's newest older snapshot must be an ancestor of ``position``.
    """
    chain = walk_back(history, to)
    there = None if position.snapshot_id is None else history.snapshot(position.snapshot_id)
    older = next((s.snapshot_id for s in chain if s.sequence_number <= position.sequence_number), None)
    if older is not None:
        return older in {s.snapshot_id for s in walk_back(history, there)}
    # Expired together with all that came before the head's retained history, or the head begins anew.
    return there is None or is_proven_root(history, chain[-1])


def _counts_only_itself(oldest: SnapshotFacts) -> bool:
    """A first snapshot's totals are what it added. A cut-off snapshot that emptied the table lists nothing either."""
    removed = oldest.count("deleted-data-files") or 0
    total, added = oldest.count("total-data-files"), oldest.count("added-data-files")
    return removed == 0 and (total is None or added is None or total == added)


def _same_table(history: TableHistory, position: Position) -> None:
    if position.table_uuid != history.table_uuid:
        raise GapError(
            f"{history.name} is another table now: the checkpoint belongs to uuid {position.table_uuid}, "
            f"the catalog has {history.table_uuid}",
            consequence="It was dropped and created again, or replaced, so no range connects the two",
            remedy="if the new table continues the old one, start again from it: on_gap='full' for one run, "
            "or `airflow ips reset` and then `airflow ips seed`",
        )


def _gap(history: TableHistory, after: Position, chain: list[SnapshotFacts]) -> GapError:
    still_there = after.snapshot_id is not None and history.snapshot(after.snapshot_id) is not None
    cut_off = chain[-1].parent_id is not None if chain else False
    oldest = f"the walk ended at {chain[-1]}" if chain else f"branch {history.branch!r} has no snapshots"
    if cut_off:
        why = "snapshots between it and the head were expired, or the table was rolled back before that"
    elif still_there:
        why = "it is retained but not an ancestor of the head: the table was rolled back or the branch moved elsewhere"
    else:
        why = "it was expired, or the table was rolled back"
    return GapError(
        f"the checkpoint of {history.name} at {after} is not in the lineage of branch {history.branch!r} "
        f"({why}; {oldest})",
        consequence="What was added since cannot be told from what was processed already, so nothing was captured",
        remedy=_choices(history, after),
    )


def _choices(history: TableHistory, after: Position) -> str:
    head = history.head
    whole = "the whole table"
    if head is not None:
        whole = f"the whole table ({head.count('total-data-files')} files, {head.count('total-files-size')} bytes)"
    newer = (
        f"on_gap='resync' captures the live files newer than sequence number {after.sequence_number} "
        "(no loss, possibly rows processed before)"
        if after.sequence_number > 0 and history.format_version > 1
        else "on_gap='resync' is not possible here, for sequence numbers prove nothing on this table"
    )
    return (
        f"set one for the next run: on_gap='full' captures {whole}; {newer}; "
        "or set the checkpoint anew by `airflow ips reset` and `airflow ips seed`"
    )
