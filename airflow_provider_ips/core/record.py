"""What is decided and counted in a capture: its kind, verdicts, volumes and bounds; JSON out and in again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from airflow_provider_ips.core.json_fields import JsonObject, SnapshotId, Stored, Words


class Kind(StrEnum):
    """How the captured files were chosen."""

    RANGE = "range"
    FULL = "full"
    RESYNC = "resync"
    EMPTY = "empty"


class Decision(StrEnum):
    """What capture did with one snapshot."""

    CAPTURED = "captured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(JsonObject):
    """What capture decided for one snapshot of the range, and why. ``None`` counts are unknown, never zero."""

    snapshot_id: SnapshotId
    operation: str
    decision: Decision
    reason: Words
    files: int | None = 0
    records: int | None = 0
    size_bytes: Annotated[int | None, Stored("bytes")] = 0

    @property
    def volume(self) -> Volume:
        return Volume(files=self.files, records=self.records, size_bytes=self.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange(JsonObject):
    """Bounds of one column over the captured files. Both are None when the metadata of any file lacks them.

    The column is a value, not a key: Airflow masks values under keys that look like secrets.
    """

    column: str
    lower: Any
    upper: Any
    known: bool
    reason: Words = ""
    has_nulls: Annotated[bool | None, Stored("nulls", omitted=True)] = None
    """Whether captured files hold NULLs of the column, which lie beyond all bounds; None if that is unknown."""

    @property
    def shown(self) -> str:
        """Both bounds in words: "1 to 5", or "1 to 5, and NULL". Empty if they are unknown."""
        if not self.known:
            return ""
        is_one = self.lower == self.upper
        return (f"{self.lower}" if is_one else f"{self.lower} to {self.upper}") + (
            ", and NULL" if self.has_nulls else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(JsonObject):
    """Files, records and bytes. ``None`` is unknown."""

    files: int | None
    records: int | None
    size_bytes: Annotated[int | None, Stored("bytes")]

    @classmethod
    def total(cls, volumes: Iterable[Volume]) -> Self:
        """Add up. A number that is unknown for one of them is unknown in total."""
        listed = list(volumes)
        return cls(
            files=total(volume.files for volume in listed),
            records=total(volume.records for volume in listed),
            size_bytes=total(volume.size_bytes for volume in listed),
        )


UNKNOWN_VOLUME: Final = Volume(files=None, records=None, size_bytes=None)
NO_VOLUME: Final = Volume(files=0, records=0, size_bytes=0)


def total(numbers: Iterable[int | None]) -> int | None:
    """Add up. One that is unknown makes the total unknown."""
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)
