"""Captures that were never committed: their runs may have written, so what follows has to account for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import GapError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.core.checkpoint import Checkpoint
    from airflow_provider_ips.core.history import TableHistory
    from airflow_provider_ips.core.lineage import Lineage
    from airflow_provider_ips.core.positions import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Where captures ended that were never committed: the first of them, and the newest."""

    first: Position | None = None
    last: Position | None = None

    @classmethod
    def of(cls, first: Position | None, last: Position | None) -> Attempts:
        """Where one is known only, it is both."""
        return cls(first=first or last, last=last or first)

    @classmethod
    def pending(cls, checkpoint: Checkpoint | None, source: str, branch: str) -> Attempts:
        """Those that a checkpoint still waits for."""
        pending = None if checkpoint is None else checkpoint.pending
        ranges = () if pending is None else pending.ranges
        taken = next((r for r in ranges if (r.source, r.branch) == (source, branch)), None)
        return cls() if taken is None else cls.of(taken.attempted, taken.to_inclusive)

    def __bool__(self) -> bool:
        """Tell whether there was any."""
        return self.first is not None


NOBODY: Final = Attempts()
"""Every capture so far was committed."""


def ids_of(after: Position, lineage: Lineage) -> list[int | None]:
    """The snapshots of a range and the one before it."""
    return [after.snapshot_id, *(s.snapshot_id for s in lineage.snapshots)]


def refuse_rolled_back(history: TableHistory, attempts: Attempts, lineage: Sequence[int | None]) -> None:
    """Nobody can account for rows of a snapshot that the table no longer has."""
    gone = next((a for a in (attempts.first, attempts.last) if a and a.snapshot_id not in lineage), None)
    if gone is None:
        return
    raise GapError(
        f"a run that was never committed captured {history.name} up to {gone}, which is not in the lineage of "
        f"branch {history.branch!r}: the table was rolled back since",
        consequence="That run may have written rows, or removed some, that the table's history no longer accounts for",
        remedy="rebuild the target: `airflow ips reset`, then a run with initial='full'",
    )
