"""Positions in the history of a table, where a first run starts, and the identity of a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated

from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.json_fields import KeptObject, MapIndex, SnapshotId, Stored, Words


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadEvidence(KeptObject):
    """What a snapshot's manifest list said when a position was taken there, for the day on which it has expired."""

    live_manifests: str
    """A digest of the manifests that may list live files. They never change, so the same digest is the same rows."""

    writer: SnapshotId | None
    """The snapshot that wrote one of the manifests and had the same rows: itself, or an earlier position."""

    writer_number: int
    """The sequence number of the writer; 0 if there is none."""

    has_deletes: bool
    """Whether delete files applied to its rows: then a later snapshot may show rows again that were deleted here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position(KeptObject):
    """A snapshot of one table, as far as everything is captured or processed."""

    table_uuid: str
    snapshot_id: SnapshotId | None
    """None if the table had no snapshot yet."""

    sequence_number: int
    committed_at_ms: int
    evidence: Annotated[HeadEvidence | None, Stored(omitted=True)] = field(default=None, compare=False)
    """None where it was not taken: then nothing proves that a later head is the same table."""

    @property
    def snapshot_text(self) -> str | None:
        """The snapshot's id as text, for JSON and arguments; None for the empty table."""
        return None if self.snapshot_id is None else str(self.snapshot_id)

    def __str__(self) -> str:
        """The snapshot and its time, for messages."""
        if self.snapshot_id is None:
            return "the empty table"
        if not self.committed_at_ms:  # the snapshot expired: only manifests still name it
            return f"snapshot {self.snapshot_id}"
        return f"snapshot {self.snapshot_id} ({format_time(self.committed_at_ms)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialPosition:
    """Where a first run starts: ``full``, ``latest``, after a snapshot, or after a time."""

    kind: str
    snapshot_id: int | None = None
    time_ms: int | None = None

    @classmethod
    def parse(cls, value: object) -> InitialPosition:
        """Read ``full``, ``latest``, a snapshot id (string) or an ISO timestamp."""
        if value in ("full", "latest"):
            return cls(kind=str(value))
        if (place := cls.parse_place(value, parameter="initial")) is not None:
            return place
        raise InputError(
            f"initial={value!r} is none of the four forms",
            consequence="The first run would not know where to start",
            remedy='use "full", "latest", a snapshot id as a string, or an ISO timestamp with its zone such as '
            '"2026-10-01T00:00:00+00:00"',
        )

    @classmethod
    def parse_place(cls, value: object, *, parameter: str) -> InitialPosition | None:
        """Read a snapshot id (string) or an ISO timestamp; None for anything else."""
        if isinstance(value, datetime):
            return cls._at(value, parameter, value)
        if not isinstance(value, str):
            return None
        if value.isascii() and value.isdigit():
            return cls._from_digits(value, parameter)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return cls._at(moment, parameter, value)

    @classmethod
    def _from_digits(cls, value: str, parameter: str) -> InitialPosition:
        """Eight digits may be a compact ISO date; any other number of digits can only be a snapshot id."""
        if len(value) != len("20261118"):
            return cls(kind="snapshot", snapshot_id=int(value))
        raise InputError(
            f"{parameter}={value!r} may be a date or a snapshot id",
            consequence="A guess could start in the wrong place",
            remedy='write a date as "2026-11-18T00:00:00+00:00"',
        )

    @classmethod
    def _at(cls, moment: datetime, parameter: str, value: object) -> InitialPosition:
        if moment.tzinfo is None:
            raise InputError(
                f"{parameter}={value!r} has no time zone",
                consequence="It would mean different moments on different machines",
                remedy=f'add it, for example "{moment.replace(tzinfo=UTC).isoformat()}"',
            )
        return cls(kind="time", time_ms=int(moment.timestamp() * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity(KeptObject):
    """The identity of a run, or of one of its mapped instances.

    ``run_after`` is part of it, because a run id can be used again; start dates change when a run is cleared.
    """

    dag_id: str
    run_id: str
    map_index: MapIndex
    run_after: Words
    deployment: Annotated[str | None, Stored(omitted=True)] = None
    """The address of the Airflow that runs it; None if unknown. Another deployment has runs of the same names."""

    def is_of_run(self, other: RunIdentity) -> bool:
        """Whether both are instances of one run, mapped or not."""
        return replace(self, map_index=other.map_index) == other

    def __str__(self) -> str:
        """``dag/run``, with the index of a mapped instance, for messages."""
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.run_id}{mapped}"


def is_past(position: Position, other: Position) -> bool:
    """Whether a position is later than another of the same table. Format v1 has no sequence numbers: time decides."""
    if position.table_uuid != other.table_uuid:
        return False
    mine, theirs = (position.sequence_number, other.sequence_number)
    return mine > theirs if mine != theirs else position.committed_at_ms > other.committed_at_ms


def is_same(one: Position | None, other: Position | None) -> bool:
    """Positions are equal if table and snapshot are; their other fields only describe the snapshot."""
    if one is None or other is None:
        return one is other
    return (one.table_uuid, one.snapshot_id) == (other.table_uuid, other.snapshot_id)


def format_time(milliseconds: int) -> str:
    """Format a time as ISO 8601 in UTC, to the second. A time after the year 9999 stays a number."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
