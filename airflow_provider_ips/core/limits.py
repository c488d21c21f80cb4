"""Where bounded catch-up ends a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.record import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_ips.core.record import Verdict
    from airflow_provider_ips.core.settings import CaptureSettings


class Taken:
    """What a range holds so far, against its limits. Running sums, for a range may have ten thousand snapshots."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        self._snapshots = self._files = self._bytes = 0

    def add(self, verdict: Verdict) -> None:
        """Take one more snapshot; only captured ones count."""
        if verdict.decision is Decision.CAPTURED:
            self._snapshots, self._files, self._bytes = self._with(verdict)

    @property
    def is_full(self) -> bool:
        """No snapshot with files in it fits any more."""
        totals = (self._snapshots, self._files, self._bytes)
        return self._snapshots > 0 and any(total >= limit for limit, total in self._limited(totals))

    def has_room_for(self, verdict: Verdict) -> bool:
        """The first captured snapshot always fits: a range never ends inside one, and must get on."""
        if verdict.decision is not Decision.CAPTURED or not self._snapshots:
            return True
        return all(total <= limit for limit, total in self._limited(self._with(verdict)))

    def _with(self, verdict: Verdict) -> tuple[int, int, int]:
        if verdict.size_bytes is None and self._settings.max_bytes is not None:
            raise InputError(
                f"max_bytes={self._settings.max_bytes} cannot be kept: snapshot {verdict.snapshot_id} does not say how "
                "many bytes it added",
                consequence="The limit would be ignored without anyone noticing",
                remedy="use max_snapshots or max_files for this table",
            )
        return self._snapshots + 1, self._files + (verdict.files or 0), self._bytes + (verdict.size_bytes or 0)

    def _limited(self, totals: tuple[int, int, int]) -> Iterable[tuple[int, int]]:
        limits = (self._settings.max_snapshots, self._settings.max_files, self._settings.max_bytes)
        return ((limit, total) for limit, total in zip(limits, totals, strict=True) if limit is not None)
