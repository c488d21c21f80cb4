"""Files that an ICDC table names and that are gone, in words for whoever has to decide what to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

MAX_NAMED: Final = 20
"""How many files a message names by path; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFile:
    """One file that was captured and does not exist any more."""

    path: str
    snapshot_id: int | None
    """The snapshot of the source that added it."""
    records: int
    is_delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What is left of one ICDC table: how many files it names, and which of them are gone."""

    icdc_table: str
    source: str
    files: int
    lost: tuple[LostFile, ...] = ()

    @property
    def is_intact(self) -> bool:
        """Every file that the table names can still be read."""
        return not self.lost

    def __str__(self) -> str:
        """How many, of which snapshots, with how many rows, and their names."""
        if self.is_intact:
            return f"all {self.files} files of {self.icdc_table} are still there"
        rows = sum(file.records for file in self.lost if not file.is_delete)
        named = ", ".join(file.path for file in self.lost[:MAX_NAMED])
        more = len(self.lost) - MAX_NAMED
        return (
            f"{len(self.lost)} of the {self.files} files of {self.icdc_table} are gone, with {rows} rows "
            f"({self._by_snapshot()}): {named}{f' and {more} more' if more > 0 else ''}"
        )

    def _by_snapshot(self) -> str:
        counts = Counter(file.snapshot_id for file in self.lost)
        shown = [f"{number} of snapshot {snapshot_id}" for snapshot_id, number in counts.most_common(MAX_NAMED)]
        more = len(counts) - len(shown)
        return ", ".join(shown) + (f" and of {more} other snapshots" if more else "")
