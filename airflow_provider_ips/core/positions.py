"""A place in a source's history, and the run that stood there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a consumer stands in one table. ``snapshot_id`` is None when the table had no snapshot yet."""

    table_uuid: str
    snapshot_id: int | None
    sequence_number: int
    committed_at_ms: int

    def to_json(self) -> dict[str, Any]:
        """Snapshot ids travel as strings: they do not survive a browser's numbers."""
        return {
            "table_uuid": self.table_uuid,
            "snapshot_id": None if self.snapshot_id is None else str(self.snapshot_id),
            "sequence_number": self.sequence_number,
            "committed_at_ms": self.committed_at_ms,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        snapshot_id = raw["snapshot_id"]
        if snapshot_id is not None and not isinstance(snapshot_id, str):
            raise TypeError(f"snapshot_id {snapshot_id!r} is not a string")
        numbers = (raw["sequence_number"], raw["committed_at_ms"])
        if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise TypeError(f"sequence_number and committed_at_ms must be whole numbers, not {numbers!r}")
        if not isinstance(raw["table_uuid"], str):
            raise TypeError(f"table_uuid {raw['table_uuid']!r} is not a string")
        return cls(
            table_uuid=raw["table_uuid"],
            snapshot_id=None if snapshot_id is None else int(snapshot_id),
            sequence_number=numbers[0],
            committed_at_ms=numbers[1],
        )

    def __str__(self) -> str:
        """Short enough for a log line."""
        if self.snapshot_id is None:
            return "the empty table"
        if not self.committed_at_ms:  # known by its manifests only
            return f"snapshot {self.snapshot_id}"
        return f"snapshot {self.snapshot_id} ({format_time(self.committed_at_ms)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """What makes a run this run: ids get reused and clearing changes start dates, so ``run_after`` belongs to it."""

    dag_id: str
    run_id: str
    map_index: int
    run_after: str

    def to_json(self) -> dict[str, Any]:
        """All four, by name."""
        return {
            "dag_id": self.dag_id,
            "run_id": self.run_id,
            "map_index": self.map_index,
            "run_after": self.run_after,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        texts = (raw["dag_id"], raw["run_id"], raw["run_after"])
        if any(not isinstance(text, str) for text in texts):
            raise TypeError(f"dag_id, run_id and run_after must be strings, not {texts!r}")
        if isinstance(raw["map_index"], bool) or not isinstance(raw["map_index"], int):
            raise TypeError(f"map_index {raw['map_index']!r} is not a whole number")
        return cls(dag_id=texts[0], run_id=texts[1], map_index=raw["map_index"], run_after=texts[2])

    def is_of_run(self, other: RunIdentity) -> bool:
        """Tell whether both are instances of one run, mapped or not."""
        return (self.dag_id, self.run_id, self.run_after) == (other.dag_id, other.run_id, other.run_after)

    def __str__(self) -> str:
        """As people name a run."""
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.run_id}{mapped}"


def format_time(milliseconds: int) -> str:
    """UTC, to the second, ISO 8601."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
