"""What a catalog shows of a table: its history, with the metadata files, logs and summaries of real tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.history.files import Content
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_provider_ips.core.history.files import FileFacts, ManifestFacts
    from airflow_provider_ips.core.history.snapshots import SnapshotFacts


@dataclass(frozen=True, slots=True)
class TableTraits:
    """What a table has from its creation on."""

    format_version: int = 2
    shows_head_only: bool = False
    """Its catalog shows the current snapshot alone, without its parent, as Nessie does."""

    bare_summaries: bool = False
    """Its writers leave totals out of their summaries."""

    keeps_old_metadata: bool = True


@dataclass(slots=True)
class Ledger(InMemoryHistory):
    """The whole history."""

    traits: TableTraits = field(default_factory=TableTraits)
    metadata: dict[int, dict[int, SnapshotFacts]] = field(default_factory=dict)
    """By snapshot: the snapshots in the metadata file that its commit wrote."""

    @property
    def log_since_ms(self) -> int:
        return self.log[0][0] if self.log else 0

    def reads_old_metadata(self, snapshot_id: int, committed_at_ms: int) -> dict[int, SnapshotFacts]:
        if snapshot_id <= self.metadata_since or not self.traits.keeps_old_metadata:
            return {}
        return self.metadata.get(snapshot_id, {})

    def _facts(self, *args: Any) -> SnapshotFacts:
        facts = InMemoryHistory._facts(self, *args)
        added, removed = args[3], args[4]
        counts = {
            "added-delete-files": sum(f.content is not Content.DATA for f in added),
            "removed-delete-files": sum(f.content is not Content.DATA for f in removed),
        }
        summary = {**facts.summary, **{name: str(count) for name, count in counts.items() if count}}
        if self.traits.bare_summaries:
            summary = {name: value for name, value in summary.items() if not name.startswith("total-")}
        return replace(facts, summary=summary)


class HeadOnlyView:
    """The same table in a catalog that shows its current snapshot alone."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.name, self.branch = ledger.name, ledger.branch
        self.table_uuid, self.format_version = ledger.table_uuid, ledger.format_version
        self.head = None if ledger.head is None else replace(ledger.head, parent_id=None)

    @property
    def log_since_ms(self) -> int | None:
        return None if self.head is None else self.head.committed_at_ms

    def head_at(self, time_ms: int) -> int | None:
        return None if self.head is None or time_ms < self.head.committed_at_ms else self.head.snapshot_id

    def snapshot(self, snapshot_id: int) -> SnapshotFacts | None:
        return self.head if self.head is not None and self.head.snapshot_id == snapshot_id else None

    def retained_snapshots(self) -> tuple[SnapshotFacts, ...]:
        return () if self.head is None else (self.head,)

    def reads_manifests(self, snapshot_id: int) -> tuple[ManifestFacts, ...]:
        return self._ledger.reads_manifests(snapshot_id)

    def reads_manifests_written_by(self, snapshot_id: int, writers: Collection[int]) -> list[ManifestFacts]:
        return self._ledger.reads_manifests_written_by(snapshot_id, writers)

    def reads_entries(self, manifest: ManifestFacts) -> tuple[FileFacts, ...]:
        return self._ledger.reads_entries(manifest)

    def reads_old_metadata(self, snapshot_id: int, committed_at_ms: int) -> dict[int, SnapshotFacts]:
        return {}
