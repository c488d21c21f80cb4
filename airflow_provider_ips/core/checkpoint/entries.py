"""The entries of a checkpoint: positions, captured ranges, pending and committed captures, and changes by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from airflow_provider_ips.core.identifiers import CapturedBranch, Source
from airflow_provider_ips.core.json_fields import KeptObject, Stored
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind

MAX_SUPERSEDED: Final = 50
"""How many superseded captures are remembered by their id: a commit of one of them succeeds and changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition(KeptObject):
    """The snapshot of one source up to which everything is processed."""

    source: Annotated[Source, Stored(inline=True)]
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange(KeptObject):
    """The range that one capture takes from one source."""

    source: Annotated[Source, Stored(inline=True)]
    kind: Kind
    from_exclusive: Position | None
    """The committed position when the capture began, None if there was none. It does not depend on ``kind``: a commit
    compares it with the position that is committed then."""

    to_inclusive: Position
    icdc_table: str | None
    before_table: Annotated[str | None, Stored(later=True)] = None
    attempted: Annotated[Position | None, Stored(later=True)] = None
    """The end of the first of the uncommitted captures that this one supersedes: its run may have written rows."""

    selection: Annotated[str | None, Stored(omitted=True)] = None
    """Which settings chose the rows, and which they chose, as :func:`selection_mark` writes it; None if unknown."""

    held: Annotated[bool, Stored(omitted=True)] = False
    """Branches of the source hold the files of its tables."""

    @property
    def icdc_tables(self) -> tuple[str, ...]:
        """The names of its tables, or of the branches that are read in their place."""
        return tuple(table for table in (self.icdc_table, self.before_table) if table is not None)

    @property
    def made(self) -> tuple[str, ...]:
        """The same, and the branches that hold their files."""
        holding = (str(CapturedBranch.holding(self.source, table)) for table in self.icdc_tables if self.held)
        return (*self.icdc_tables, *holding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture(KeptObject):
    """What one task of a run captured of all its sources."""

    capture_id: str
    run: RunIdentity | None
    ranges: tuple[SourceRange, ...]
    supersedes: tuple[str, ...] = ()
    """The ids of earlier uncommitted captures whose ranges it includes."""

    task_id: Annotated[str | None, Stored(omitted=True)] = None
    """The task of the run that made it; None if unknown."""

    @property
    def icdc_tables(self) -> tuple[str, ...]:
        """The names of all tables that it made."""
        return tuple(table for r in self.ranges for table in r.icdc_tables)

    @property
    def made(self) -> tuple[str, ...]:
        """The names of all that has to be removed with it: its tables, and the branches that hold their files."""
        return tuple(name for r in self.ranges for name in r.made)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCapture(Capture):
    """A capture that has begun and is not committed yet."""

    run: RunIdentity
    started_at_ms: int

    @property
    def refreshes(self) -> bool:
        """Whether its job may replace a whole target."""
        return any(r.kind is Kind.FULL for r in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedCapture(Capture):
    """A capture that moved the checkpoint, or the mark that `airflow ips seed` leaves, which has no run."""

    committed_at_ms: int
    released: tuple[str, ...] = ()
    """The ICDC tables that may be dropped since this commit. They are kept here so that a commit that died before it
    dropped them can do so when it is retried."""

    @property
    def wrote(self) -> bool:
        """Whether a job had rows to process. After a seed or an empty capture there were none."""
        return self.run is not None and bool(self.icdc_tables)


def is_made_by(capture: Capture, run: RunIdentity, task_id: str | None) -> bool:
    """Whether a task of a run made a capture, as far as the tasks are known."""
    return capture.run == run and (None in (capture.task_id, task_id) or capture.task_id == task_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention(KeptObject):
    """One command by which a person changed the checkpoint, and the revision that it wrote.

    It is kept in the document itself, because the audit log is elsewhere and may be purged.
    """

    at_ms: int
    who: str
    verb: str
    revision: int
