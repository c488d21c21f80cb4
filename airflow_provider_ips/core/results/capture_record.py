"""The record of a run's capture and of each of its sources, which a capture pushes as XCom and others read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

from airflow_provider_ips.core.identifiers import CapturedBranch, CapturedRange, Source
from airflow_provider_ips.core.json_fields import JsonObject, SnapshotId, Stored, Words, read_object, write_object
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import ColumnRange, Decision, Kind, Verdict, Volume
from airflow_provider_ips.core.requests.request import RunKind, RunRequest

MAX_LISTED_VERDICTS = 50
"""How many verdicts the record lists; the others are only counted. The log has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRecord(JsonObject):
    """A branch of the source that a capture has made, with its snapshot and the time until which it is held."""

    branch: str
    snapshot_id: SnapshotId
    held_until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(JsonObject):
    """One source's part of a capture."""

    source: Annotated[Source, Stored(inline=True)]
    key: str
    kind: Kind
    icdc_table: str | None
    before_table: str | None = None
    """Change capture: where the changed and removed rows came from, as of the start of the range."""

    from_exclusive: Annotated[Position | None, Stored("from")]
    to_inclusive: Annotated[Position, Stored("to")]
    captured_branch: Annotated[BranchRecord | None, Stored(omitted=True)] = None
    """The branch of the source that has the captured rows: in mode BRANCH what ``icdc_table`` names, and with
    ``hold_source`` the one that holds the files of ``icdc_table``."""

    before_branch: Annotated[BranchRecord | None, Stored(omitted=True)] = None
    captured: Annotated[Volume, Stored(inline=True)]
    table: Volume
    before: Volume | None = None
    superset: bool = False
    """The ICDC table holds rows that did not change; ``predicate`` leaves them out where there is one."""

    predicate: str | None = None
    no_predicate: Annotated[Words, Stored(then={"bytes_avoided": "bytes_avoided"})] = ""
    verdict_counts: Annotated[Mapping[Decision, int], Stored("snapshots")] = field(default_factory=dict)
    """The snapshots of the range by what was decided for them; counted from the verdicts if it is not given."""

    verdicts: tuple[Verdict, ...] = ()
    """All of them in a capture, and the newest ones in JSON."""

    ranges: tuple[ColumnRange, ...] = ()
    partitions: tuple[ColumnRange, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Count the verdicts, and refuse counts that are lower."""
        listed = {decision: sum(v.decision is decision for v in self.verdicts) for decision in Decision}
        if not self.verdict_counts:
            object.__setattr__(self, "verdict_counts", listed)
        if lacking := [decision for decision in Decision if self.verdict_counts[decision] < listed[decision]]:
            raise ValueError(f"fewer snapshots are counted as {lacking[0]} than verdicts are listed")

    @property
    def mode(self) -> str:
        """Return ``"BRANCH"`` or ``"RANGE"`` if the rows are read from the source, else ``"ICDC"``."""
        if self.captured_range is not None:
            return "RANGE"
        is_branch = self.icdc_table is not None and CapturedBranch.parse(self.icdc_table) is not None
        return "BRANCH" if is_branch else "ICDC"

    @property
    def captured_range(self) -> CapturedRange | None:
        """Return what an engine reads directly in mode RANGE, parsed from ``icdc_table``; None in the others."""
        return None if self.icdc_table is None else CapturedRange.parse(self.icdc_table)

    @property
    def read_options(self) -> dict[str, str] | None:
        """Return the options with which Spark reads the captured rows in mode RANGE; None if there are none."""
        return None if self.captured_range is None else self.captured_range.read_options

    @property
    def branch(self) -> str | None:
        """Return the name of the branch with the captured rows; None if there is only a table."""
        return None if self.captured_branch is None else self.captured_branch.branch

    @property
    def snapshot_id(self) -> int | None:
        """Return the snapshot with the captured rows, for engines that read a snapshot by its id.

        In mode RANGE all rows of the table are in a snapshot, and those that were appended since another one are not.
        """
        if self.captured_range is not None:
            return self.captured_range.to if self.captured_range.after is None else None
        return None if self.captured_branch is None else self.captured_branch.snapshot_id

    @property
    def icdc_tables(self) -> tuple[str, ...]:
        """Return the names of all tables that the capture made of this source."""
        return tuple(table for table in (self.icdc_table, self.before_table) if table is not None)

    @property
    def made(self) -> tuple[str, ...]:
        """Return the names of all that is to be dropped: the tables, and the branches that hold their files."""
        branches = (branch for branch in (self.captured_branch, self.before_branch) if branch is not None)
        names = (str(CapturedBranch(self.source.table, branch.branch)) for branch in branches)
        return tuple(dict.fromkeys((*self.icdc_tables, *names)))

    @property
    def bytes_avoided(self) -> int | None:
        """Return what the job does not have to read of the whole table; None if that is unknown."""
        if self.captured.size_bytes is None or self.table.size_bytes is None:
            return None
        return max(self.table.size_bytes - self.captured.size_bytes, 0)

    def to_json(self) -> dict[str, Any]:
        """Write it as one entry of the record's ``sources``, bounded in size however long the range is."""
        return write_object(replace(self, verdicts=self.verdicts[-MAX_LISTED_VERDICTS:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReference(JsonObject):
    """Which chunk of a backfill a capture took."""

    number: int
    of: int
    label: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRun(JsonObject):
    """A source that its consumer had never committed, and the ``initial`` by which it started."""

    source: str
    initial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetHead(JsonObject):
    """The head of a target table when the capture began; None for a table that was empty or did not exist."""

    table: str
    snapshot_id: Annotated[SnapshotId | None, Stored("head")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureContext(JsonObject):
    """Under which circumstances a capture ran: its run, its connection, what was requested, what it found."""

    run: RunIdentity
    iceberg_conn_id: str
    engine_catalog: str | None = None
    target_heads: Annotated[tuple[TargetHead, ...], Stored(later=True)] = ()
    first_runs: Annotated[tuple[FirstRun, ...], Stored("started", later=True)] = ()
    request: Annotated[RunRequest, Stored("asked", later=True)] = field(default_factory=RunRequest)
    chunk: Annotated[ChunkReference | None, Stored(omitted=True, then={"detached": "is_detached"})] = None
    replayed: bool = False
    """The run had committed before and was cleared: its commit moves nothing."""

    settled: bool = False
    """There was nothing to process, and the capture itself has moved the checkpoint."""

    @property
    def is_detached(self) -> bool:
        """Tell whether the capture is in no checkpoint, so that its commit moves nothing."""
        return self.request.is_detached

    @property
    def is_refresh_beside(self) -> bool:
        """Tell whether the checkpoint remembers it until its commit, because its job may replace the whole target."""
        return self.is_detached and self.request.kind is RunKind.FULL and self.chunk is None

    @classmethod
    def from_json(cls, raw: object) -> Self:
        """Parse what :meth:`to_json` wrote, and refuse a mark of a detached capture that contradicts the request."""
        read = read_object(cls, raw)
        if isinstance(raw, Mapping) and raw.get("detached", read.is_detached) is not read.is_detached:
            raise ValueError(f"detached is {raw['detached']}, which contradicts asked: {read.request}")
        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRecord(JsonObject):
    """One run's capture over all its sources: what is pushed under the XCom key ``capture``."""

    schema_version: ClassVar = 1

    capture_id: str
    consumer: str
    mode: str
    context: Annotated[CaptureContext, Stored("requested")]
    sources: tuple[SourceRecord, ...]

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to process in any source."""
        return all(source.icdc_table is None for source in self.sources)

    @property
    def icdc_tables(self) -> tuple[str, ...]:
        """Return the names of all tables that the capture made."""
        return tuple(table for source in self.sources for table in source.icdc_tables)

    @property
    def made(self) -> tuple[str, ...]:
        """Return the names of all that is to be dropped, tables and branches."""
        return tuple(name for source in self.sources for name in source.made)
