"""A backfill in chunks: units that must stay together, grouped until a bound is met.

A unit is all that the source holds of one value of a partition column, or one snapshot of a range. Chunks are runs of
consecutive units: together they are the whole selection, no unit is in two of them, and only a unit that exceeds a
bound by itself makes a chunk that does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from airflow_provider_ips.core.asked import Asked
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import digest
from airflow_provider_ips.core.record import Decision, Volume
from airflow_provider_ips.core.spans import Held, Values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_ips.core.record import Verdict

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What may not be split. ``None`` is unknown, never zero."""

    label: str
    partitions: int = 0
    """How many it is made of; none for a snapshot."""

    held: Held | None = None
    """What these hold of the column that the units are of; None for a snapshot."""

    end: str | None = None
    """The snapshot that a range ends with here, inclusive."""

    files: int | None = 0
    records: int | None = 0
    size_bytes: int | None = 0

    @property
    def volume(self) -> Volume:
        """How much it is."""
        return Volume(files=self.files, records=self.records, size_bytes=self.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one chunk may hold. Without any, each unit is a chunk."""

    max_units: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None

    @property
    def effective(self) -> Bounds:
        """A backfill that nobody bounds goes unit by unit."""
        return Bounds(max_units=1) if self == Bounds() else self


def grouped(units: Sequence[Unit], bounds: Bounds) -> list[tuple[Unit, ...]]:
    """Cut a row of units before each one that does not fit any more."""
    bounds = bounds.effective
    groups: list[list[Unit]] = []
    for unit in units:
        if groups and _fits((*groups[-1], unit), bounds):
            groups[-1].append(unit)
        else:
            groups.append([unit])
    return [tuple(group) for group in groups]


def exceeded(units: Sequence[Unit], bounds: Bounds) -> bool:
    """Tell of a group whether it has more than a chunk may, which a single unit alone can."""
    return not _fits(units, bounds.effective)


def _fits(units: Sequence[Unit], bounds: Bounds) -> bool:
    """What is unknown fits nowhere: a bound that cannot be checked would be none."""
    sums = (len(units), total(unit.files for unit in units), total(unit.size_bytes for unit in units))
    limits = (bounds.max_units, bounds.max_files, bounds.max_bytes)
    return all(
        limit is None or (amount is not None and amount <= limit) for amount, limit in zip(sums, limits, strict=True)
    )


def total(amounts: Any) -> int | None:  # noqa: ANN401 - any iterable of numbers and None
    """Add up; one that is unknown makes the sum unknown."""
    listed = list(amounts)
    return None if None in listed else sum(listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What one mapped capture takes: the argument ``chunk`` of an ``IpCaptureOperator``."""

    number: int
    of: int
    label: str
    source: str
    branch: str
    asked: Asked
    values: Values | None = None
    """What it is made of; None where it is a range of snapshots."""

    partitions: int = 0
    """How many the plan has counted."""

    as_of: str | None = None
    """The snapshot whose rows are meant; None for those that are live when the chunk is captured."""

    files: int | None
    records: int | None
    size_bytes: int | None
    claims: tuple[str, ...] = ()
    """Where its backfill says what it is at work on."""

    @property
    def identity(self) -> str:
        """What makes it this chunk, and not another one at the same place of another plan."""
        return digest(
            self.source,
            self.branch,
            repr(sorted(self.asked.to_json().items())),
            repr(None if self.values is None else self.values.to_json()),
            self.as_of or "",
        )

    @property
    def is_of_partitions(self) -> bool:
        """Whole partitions, not a range."""
        return self.values is not None

    def __str__(self) -> str:
        """As logs and errors tell it."""
        return f"chunk {self.number} of {self.of} ({self.label})"

    def to_json(self) -> dict[str, Any]:
        """As the plan pushes it. Names of columns are values, for Airflow masks values under keys like ``token``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "number": self.number,
            "of": self.of,
            "label": self.label,
            "source": self.source,
            "branch": self.branch,
            "asked": self.asked.to_json(),
            "values": None if self.values is None else self.values.to_json(),
            "partitions": self.partitions,
            "as_of": self.as_of,
            "files": self.files,
            "records": self.records,
            "bytes": self.size_bytes,
            "claims": list(self.claims),
        }

    @classmethod
    def from_json(cls, raw: object) -> Self:
        """Parse what :meth:`to_json` wrote."""
        try:
            return cls._parsed(raw)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            shown = repr(raw)
            raise InputError(
                f"chunk={shown[:200]} is no chunk of a backfill",
                consequence="It does not say what to capture",
                remedy="put the capture into a task group that is expanded over the output of an IpBackfillOperator, "
                "and pass it that argument: chunk=chunk",
            ) from error

    @classmethod
    def _parsed(cls, raw: Mapping[str, Any]) -> Self:
        if raw["schema_version"] != SCHEMA_VERSION:
            raise ValueError(raw["schema_version"])
        return cls(
            number=raw["number"],
            of=raw["of"],
            label=raw["label"],
            source=raw["source"],
            branch=raw["branch"],
            asked=Asked.from_json(raw["asked"]),
            values=None if raw["values"] is None else Values.from_json(raw["values"]),
            partitions=raw["partitions"],
            as_of=raw["as_of"],
            files=raw["files"],
            records=raw["records"],
            size_bytes=raw["bytes"],
            claims=tuple(raw["claims"]),
        )


def units_of_range(verdicts: Sequence[Verdict], end: str | None) -> list[Unit]:
    """One for each captured snapshot, with those before it that hold nothing; the last one reaches to the end."""
    captured = [v for v in verdicts if v.decision is Decision.CAPTURED]
    units = [
        Unit(
            label=f"snapshot {v.snapshot_id}",
            end=str(v.snapshot_id),
            files=v.files,
            records=v.records,
            size_bytes=v.size_bytes,
        )
        for v in captured
    ]
    return [*units[:-1], replace(units[-1], end=end)] if units else []


def label_of(units: Sequence[Unit]) -> str:
    """From the first to the last."""
    first, last = units[0].label, units[-1].label
    return first if len(units) == 1 else f"{first} … {last}"
