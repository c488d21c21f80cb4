"""How a backfill is cut into chunks: units that must stay together, grouped up to a limit.

A unit is everything that the source holds of one value of a partition column, or one snapshot of a range. A chunk is a
run of consecutive units: together the chunks are the whole selection, no unit is in two of them, and a chunk exceeds a
limit only if it is a single unit. With ``max_files=10``:

    units     day 1: 4 files    day 2: 5 files    day 3: 12 files    day 4: 3 files
    chunks    ─────── 1 ──────────────────────    ────── 2 ──────    ────── 3 ─────
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

from airflow_provider_ips.core.backfill.column_values import ChunkValues, PartitionValues
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source, digest
from airflow_provider_ips.core.json_fields import PARSE_ERRORS, JsonObject, Stored, Words, explain, read_object
from airflow_provider_ips.core.record import Decision, Verdict, Volume
from airflow_provider_ips.core.requests.request import RunRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What may not be split: the partitions of one value, or one snapshot."""

    label: str
    volume: Volume
    partitions: int = 0
    """The number of partitions; 0 for a snapshot."""

    values: PartitionValues | None = None
    """The values that these partitions may have in the column that the backfill is cut by; None for a snapshot."""

    last_snapshot: str | None = None
    """The id of the last snapshot of a unit of a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLimits:
    """The most that one chunk may hold. Without any limit, each unit is a chunk."""

    max_units: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None

    @property
    def effective(self) -> ChunkLimits:
        """These limits, or one unit a chunk if there are none."""
        return ChunkLimits(max_units=1) if self == ChunkLimits() else self


def cut_into_chunks(units: Sequence[Unit], limits: ChunkLimits) -> list[tuple[Unit, ...]]:
    """Group consecutive units: a new chunk begins before each unit that does not fit any more."""
    groups: list[list[Unit]] = []
    for unit in units:
        if groups and not exceeds((*groups[-1], unit), limits):
            groups[-1].append(unit)
        else:
            groups.append([unit])
    return [tuple(group) for group in groups]


def exceeds(units: Sequence[Unit], limits: ChunkLimits) -> bool:
    """Whether units together are more than a chunk may hold. An unknown number exceeds every limit."""
    effective, volume = limits.effective, Volume.total(unit.volume for unit in units)
    pairs = (
        (len(units), effective.max_units),
        (volume.files, effective.max_files),
        (volume.size_bytes, effective.max_bytes),
    )
    return any(limit is not None and (number is None or number > limit) for number, limit in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(JsonObject):
    """The part of a backfill that one mapped capture takes: the argument ``chunk`` of an ``IpCaptureOperator``."""

    schema_version: ClassVar = 1

    number: int
    of: int
    label: Words
    source: Annotated[Source, Stored(inline=True)]
    request: Annotated[RunRequest, Stored("asked")]
    values: ChunkValues | None = None
    """The values of a column that it covers; None for a range of snapshots."""

    partitions: int = 0
    """The number of partitions when it was planned."""

    as_of_snapshot: Annotated[str | None, Stored("as_of")] = None
    """The snapshot whose rows it takes; None for the rows that are live when it is captured."""

    volume: Annotated[Volume, Stored(inline=True)]
    claims: tuple[str, ...] = ()
    """The Variables with the claims of its backfill."""

    @property
    def identity(self) -> str:
        """A digest of everything that determines its rows. Chunks of two plans may have the same number."""
        return digest(
            self.source.table,
            self.source.branch,
            repr(sorted(self.request.to_json().items())),
            repr(None if self.values is None else self.values.to_json()),
            self.as_of_snapshot or "",
        )

    @property
    def is_of_partitions(self) -> bool:
        """Whether it takes whole partitions, and not a range of snapshots."""
        return self.values is not None

    def __str__(self) -> str:
        return f"chunk {self.number} of {self.of} ({self.label})"

    @classmethod
    def from_json(cls, raw: object) -> Self:
        """Parse what :meth:`to_json` wrote, and refuse anything else that a task may be given as ``chunk``."""
        try:
            return read_object(cls, raw)
        except PARSE_ERRORS as error:
            raise InputError(
                f"chunk={reprlib.repr(raw)} is not a chunk of a backfill: {explain(error)}",
                consequence="What to capture is not specified",
                remedy="put the capture into a task group that is expanded over the output of an IpBackfillOperator, "
                "and pass it that argument: chunk=chunk",
            ) from error


def units_of_range(verdicts: Sequence[Verdict], last_snapshot: str | None) -> list[Unit]:
    """One unit for each captured snapshot, with the ignored snapshots before it.

    The last unit reaches to the end of the range, so that ignored snapshots after it are passed as well.
    """
    captured = [v for v in verdicts if v.decision is Decision.CAPTURED]
    units = [
        Unit(label=f"snapshot {v.snapshot_id}", volume=v.volume, last_snapshot=str(v.snapshot_id)) for v in captured
    ]
    return [*units[:-1], replace(units[-1], last_snapshot=last_snapshot)] if units else []


def label_of(units: Sequence[Unit]) -> str:
    """The label of a chunk: from its first unit to its last."""
    first, last = units[0].label, units[-1].label
    return first if len(units) == 1 else f"{first} … {last}"
