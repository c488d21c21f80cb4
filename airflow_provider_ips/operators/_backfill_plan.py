"""What a backfill shall do, and what was planned for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.asked import PREFIX, Run
from airflow_provider_ips.core.backfill import total
from airflow_provider_ips.core.claims import claim_key
from airflow_provider_ips.core.identifiers import digest

if TYPE_CHECKING:
    from airflow_provider_ips.core.asked import Asked
    from airflow_provider_ips.core.backfill import Bounds, Chunk, Unit
    from airflow_provider_ips.core.positions import Position, RunIdentity
    from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
    from airflow_provider_ips.operators._backfill_stages import Reached, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be planned, checked."""

    run: RunIdentity
    task_id: str
    source: SourceTable
    settings: CaptureSettings
    asked: Asked
    chunk_by: str | None
    bounds: Bounds
    as_of_plan: bool
    targets: tuple[str, ...]
    stages: tuple[str, ...]
    max_chunks: int
    notes: tuple[str, ...] = ()
    """What the log has to warn of, whatever the plan will be."""

    @property
    def of_partitions(self) -> bool:
        """Rows that are live, and not a range."""
        return self.asked.run in (Run.FULL, Run.PARTITIONS)

    @property
    def digest(self) -> str:
        """Everything that decides what the chunks are, but for the source's content: a retry asks for the same."""
        asked = {name: value for name, value in self.asked.to_json().items() if name != "dry_run"}
        said = (self.source.table, self.source.branch, repr(sorted(asked.items())), repr(self.chunk_by))
        return digest(*said, repr(self.bounds), repr(self.settings), repr(self.as_of_plan))

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """Where it says what it is at work on."""
        return tuple(claim_key(target, self.run, self.task_id) for target in self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The chunks, what they were cut from, and what lies further down."""

    wanted: Wanted
    planned_at: Position
    """Where the source stood."""

    from_exclusive: Position | None
    column: str | None
    units: tuple[Unit, ...]
    """All that will be captured, to the file; of a range these are its snapshots, whole, unless it is a dry run."""

    chunks: tuple[Chunk, ...]
    spans: tuple[tuple[Any, Any], ...] | None
    was_pinned: bool
    warnings: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    reached: Reached | None = None
    """Of a dry run of a range: which values its rows are of, where that is known."""

    def to_json(self) -> dict[str, Any]:
        """The XCom ``backfill``: small, for a chunk is told by its ends and amounts."""
        source = self.wanted.source
        return {
            "schema_version": 1,
            "asked": self.wanted.asked.to_json(),
            "dry_run": self.wanted.asked.dry_run,
            "source": source.table,
            "branch": source.branch,
            "planned_at": self.planned_at.to_json(),
            "from": None if self.from_exclusive is None else self.from_exclusive.to_json(),
            "chunk_by": self.column,
            "targets": list(self.wanted.targets),
            "files": total(unit.files for unit in self.units),
            "records": total(unit.records for unit in self.units),
            "bytes": total(unit.size_bytes for unit in self.units),
            "partitions": sum(unit.partitions for unit in self.units),
            "chunks": [_told(chunk) for chunk in self.chunks],
            "stages": [stage.to_json() for stage in self.stages],
            "warnings": list(self.warnings),
        }


def _told(chunk: Chunk) -> dict[str, Any]:
    return {
        "label": chunk.label,
        "partitions": chunk.partitions,
        "files": chunk.files,
        "records": chunk.records,
        "bytes": chunk.size_bytes,
        "asked": {name: value for name, value in chunk.asked.to_json().items() if name != PREFIX},
    }
