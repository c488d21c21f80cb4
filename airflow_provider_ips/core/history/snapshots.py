"""A table's snapshots and manifests, where they are read from, and the ancestors of a snapshot.

Methods named ``reads_…`` open files: a manifest list, a manifest, an older metadata file. Everything else is in the
table metadata, which one request to the catalog brings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from airflow_provider_ips.core.errors import GapError
from airflow_provider_ips.core.history.files import DELETES, FileFacts, ManifestFacts
from airflow_provider_ips.core.identifiers import digest
from airflow_provider_ips.core.positions import HeadEvidence, Position, format_time
from airflow_provider_ips.core.record import NO_VOLUME, Volume


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """One snapshot, as the table's metadata describes it."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_at_ms: int
    operation: str | None
    summary: Mapping[str, str] = field(default_factory=dict)

    def count(self, name: str) -> int | None:
        """A counter of the summary; None if it is missing or not a number, because unknown is never zero."""
        raw = self.summary.get(name)
        return int(raw) if raw is not None and re.fullmatch("[0-9]{1,19}", raw) else None

    def __str__(self) -> str:
        return f"snapshot {self.snapshot_id} ({self.operation}, {format_time(self.committed_at_ms)})"


class TableHistory(Protocol):
    """Where a table's history is read from: a real table, or an `InMemoryHistory`."""

    @property
    def name(self) -> str:
        """The source's dotted name."""

    @property
    def branch(self) -> str:
        """The branch whose head is read."""

    @property
    def table_uuid(self) -> str:
        """The table's identity; a table that was created again under the same name has another."""

    @property
    def format_version(self) -> int:
        """The table's Iceberg format version: 1, 2 or 3."""

    @property
    def head(self) -> SnapshotFacts | None:
        """The branch's current snapshot; None if it has none yet."""

    @property
    def log_since_ms(self) -> int | None:
        """When the log of the branch's heads begins; None if the table keeps no log of this branch."""

    def head_at(self, time_ms: int) -> int | None:
        """The id of the branch's head at a time; None where the log does not show it."""

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        """A retained snapshot; None if it was expired or never existed."""

    def retained_snapshots(self) -> Iterable[SnapshotFacts]:
        """All retained snapshots, of all branches."""

    def reads_manifests(self, snapshot_id: int) -> Sequence[ManifestFacts]:
        """The manifest list of a retained snapshot. Opens a file."""

    def reads_manifests_written_by(self, snapshot_id: int, writers: Collection[int]) -> Sequence[ManifestFacts]:
        """The listed manifests that one of the given snapshots wrote, and those without a writer. Opens a file."""

    def reads_entries(self, manifest: ManifestFacts) -> Iterable[FileFacts]:
        """The entries of a manifest, with the values that they inherit from it. Opens a file."""

    def reads_old_metadata(self, snapshot_id: int, committed_at_ms: int) -> Mapping[int, SnapshotFacts]:
        """The snapshots, by id, of the metadata file that a snapshot's commit wrote. Opens a file.

        Empty if the table no longer names that file: it keeps only a number of older ones.
        """


def head_position(history: TableHistory) -> Position:
    """The branch's head as a position."""
    return position_of(history, history.head)


def position_of(history: TableHistory, snapshot: SnapshotFacts | None) -> Position:
    """A snapshot as a position; for None, the empty table before its first snapshot."""
    return Position(
        table_uuid=history.table_uuid,
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        sequence_number=snapshot.sequence_number if snapshot else 0,
        committed_at_ms=snapshot.committed_at_ms if snapshot else 0,
    )


def live_volume(head: SnapshotFacts | None) -> Volume:
    """All that is live at a snapshot, by the totals of its summary; a branch without a snapshot is empty."""
    if head is None:
        return NO_VOLUME
    return Volume(
        files=head.count("total-data-files"),
        records=head.count("total-records"),
        size_bytes=head.count("total-files-size"),
    )


def ancestors(history: TableHistory, start: SnapshotFacts | None) -> Iterator[SnapshotFacts]:
    """Follow parents from ``start``, itself included, as far as they are retained, newest first."""
    seen: set[int] = set()
    current = start
    while current is not None:
        if current.snapshot_id in seen:
            raise GapError(
                f"snapshot {current.snapshot_id} of {history.name} is its own ancestor",
                consequence="No range of it can be proven complete",
                remedy="inspect the table's metadata; it is damaged",
            )
        seen.add(current.snapshot_id)
        yield current
        current = None if current.parent_id is None else history.snapshot(current.parent_id)


def logged_head(log: Sequence[tuple[int, int]], time_ms: int) -> int | None:
    """The head at a time, by a log of (time in milliseconds, snapshot that became the head), oldest entry first.

    Entries are written when the head changes, and expiry removes those of its snapshots. So two entries in a row for
    one snapshot mean that one in between was removed, and that the head is unknown from the first to the second:

        (10:00, 1) (11:00, 2) (12:00, 1)    2 expired:    (10:00, 1) (12:00, 1)    the head at 11:00 is unknown
    """
    begun = [index for index, (since, _) in enumerate(log) if since <= time_ms]
    if not begun:
        return None
    head = log[begun[-1]][1]
    following = log[begun[-1] + 1 : begun[-1] + 2]
    return None if any(next_head == head for _, next_head in following) else head


def take_evidence(history: TableHistory, position: Position, earlier: Position | None = None) -> Position:
    """Add to a position what its manifest list says; nothing if its snapshot is not retained.

    :param earlier: the position before it, if there is one
    """
    snapshot = None if position.snapshot_id is None else history.snapshot(position.snapshot_id)
    if snapshot is None:
        return position
    manifests = history.reads_manifests(snapshot.snapshot_id)
    writer = _writer_of_rows(snapshot, manifests)
    evidence = HeadEvidence(
        live_manifests=digest_of_live_manifests(manifests),
        writer=None if writer is None else writer.added_snapshot_id,
        writer_number=0 if writer is None else writer.sequence_number,
        has_deletes=list_deletes(manifests),
    )
    return replace(position, evidence=_with_writer_before(evidence, earlier))


def _writer_of_rows(snapshot: SnapshotFacts, manifests: Iterable[ManifestFacts]) -> ManifestFacts | None:
    """The manifest whose writer is proven to have had the rows of a snapshot; None if none is.

    snapshot 6 wrote a manifest                     6 itself
    6 wrote none, the newest was written by 5       5: a delete in between would have taken a number
    6 wrote none, the newest was written by 4       none: 5 may have deleted files, and its manifest is not listed
    """
    written = [manifest for manifest in manifests if manifest.added_snapshot_id is not None]
    newest = max(written, key=lambda manifest: manifest.sequence_number, default=None)
    is_close = newest is not None and 0 < newest.sequence_number >= snapshot.sequence_number - 1
    return newest if is_close else None


def _with_writer_before(evidence: HeadEvidence, earlier: Position | None) -> HeadEvidence:
    """An empty commit wrote nothing. If the position before it had the same rows, its writer stands for both."""
    before = None if earlier is None else earlier.evidence
    if evidence.writer is not None or before is None or before.live_manifests != evidence.live_manifests:
        return evidence
    return replace(evidence, writer=before.writer, writer_number=before.writer_number)


def list_deletes(manifests: Iterable[ManifestFacts]) -> bool:
    """Whether any of the manifests may list a live delete file."""
    return any(m.content == DELETES and m.may_have_live_files for m in manifests)


def digest_of_live_manifests(manifests: Iterable[ManifestFacts]) -> str:
    """Identify the rows of a snapshot: manifests are never changed, and each has a name of its own."""
    return digest(*sorted(m.path for m in manifests if m.may_have_live_files))
