"""What backfills are at work on, so that no two write the same part of one target at the same time.

A backfill writes down what it will take before it looks at what others have written down, and takes its own note back
if it finds one in its way. So of two that begin in the same moment at least one sees the other: both may be refused,
never neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from airflow_provider_ips.core.errors import CheckpointConflictError
from airflow_provider_ips.core.identifiers import digest
from airflow_provider_ips.core.positions import RunIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION: Final = 1
PREFIX: Final = "ips_backfill-"
"""With a character that no checkpoint's Variable has in its name."""

Span = tuple[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Which part of a source: values of one of its columns, or rows of which that cannot be told.

    Two stretches of its history may both hold rows of one day, so they are never apart for being of different times.
    """

    source: str
    branch: str
    column: str | None
    """None for a stretch of history, and for a table without partitions."""

    spans: tuple[Span, ...] | None
    """Both ends included. None where values cannot be told: then it may be anything."""

    def overlaps(self, other: Extent) -> bool:
        """Tell whether both may reach the same rows of a target. What cannot be compared may."""
        if (self.source, self.branch, self.column) != (other.source, other.branch, other.column):
            return True
        if self.column is None or self.spans is None or other.spans is None:
            return True
        return any(_meet(one, two) for one in self.spans for two in other.spans)

    def to_json(self) -> dict[str, Any]:
        """Names of columns are values, for Airflow masks values under keys like ``token``."""
        return {
            "source": self.source,
            "branch": self.branch,
            "column": self.column,
            "spans": None if self.spans is None else [list(span) for span in self.spans],
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        spans = raw["spans"]
        return cls(
            source=raw["source"],
            branch=raw["branch"],
            column=raw["column"],
            spans=None if spans is None else tuple((low, high) for low, high in spans),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One run's note on one target."""

    target: str
    run: RunIdentity
    task_id: str
    told: str
    """What was asked for, for people."""

    asked: str
    """A digest of all that decides what the chunks are, but for the source's own content."""

    extent: Extent
    as_of: str | None
    """The source's snapshot that it was planned by."""

    claimed_at_ms: int

    is_single: bool = False
    """Of one capture by itself, and not of a plan for many."""

    def concerns(self, other: Claim) -> bool:
        """Tell whether what both write of their target may meet.

        Within one run only two plans can: its captures lie as the DAG wants it. Within one DAG every task follows what
        its run was asked for, so that of two runs the same tasks tell for all, and of a mapped one the same sources.
        Comparing others would have two runs wait for each other, the one's first capture for the other's second.
        """
        if not self.extent.overlaps(other.extent):
            return False
        if self.run.dag_id != other.run.dag_id or not (self.is_single or other.is_single):
            return True
        return not self.run.is_of_run(other.run) and self._is_counterpart(other)

    def _is_counterpart(self, other: Claim) -> bool:
        """Tell whether both do the same in two runs of a DAG. A plan's is a capture of what it plans."""
        sources = [(each.extent.source, each.extent.branch) for each in (self, other)]
        if not (self.is_single and other.is_single):
            return sources[0] == sources[1]
        is_mapped = self.run.map_index >= 0 or other.run.map_index >= 0
        return self.task_id == other.task_id and (not is_mapped or sources[0] == sources[1])

    @property
    def key(self) -> str:
        """Name the Variable."""
        return claim_key(self.target, self.run, self.task_id)

    def to_json(self) -> dict[str, Any]:
        """As the Variable holds it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "target": self.target,
            "run": self.run.to_json(),
            "task_id": self.task_id,
            "told": self.told,
            "asked": self.asked,
            "extent": self.extent.to_json(),
            "as_of": self.as_of,
            "claimed_at_ms": self.claimed_at_ms,
            "is_single": self.is_single,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Parse what :meth:`to_json` wrote."""
        if raw["schema_version"] != SCHEMA_VERSION:
            raise ValueError(raw["schema_version"])
        return cls(
            target=raw["target"],
            run=RunIdentity.from_json(raw["run"]),
            task_id=raw["task_id"],
            told=raw["told"],
            asked=raw["asked"],
            extent=Extent.from_json(raw["extent"]),
            as_of=raw["as_of"],
            claimed_at_ms=raw["claimed_at_ms"],
            is_single=raw.get("is_single", False),
        )


def target_prefix(target: str) -> str:
    """What the names of all Variables begin with that hold claims on a target."""
    return f"{PREFIX}{digest(target, length=12)}-"


def claim_key(target: str, run: RunIdentity, task_id: str) -> str:
    """Name the Variable of one task's claim on one target."""
    return target_prefix(target) + digest(run.dag_id, run.run_id, str(run.map_index), run.run_after, task_id, length=20)


def refused(mine: Claim, other: Claim) -> CheckpointConflictError:
    """Say whose backfill is in the way, and what can be done about it."""
    apart = "" if mine.extent.spans is None else f"; other values of {mine.extent.column} need not wait"
    again = (
        "trigger a new run and ask it for the same; on_active_run='wait' waits for it"
        if mine.is_single
        else "clear this task; on_active_backfill='wait' waits for it"
    )
    return CheckpointConflictError(
        f"the backfill of run {other.run} ({other.told}) writes {mine.target} as well, and is still active",
        consequence="Both would write the same part of it, and whichever ended last would decide what is there, "
        "in parts",
        remedy=f"let that run end, or mark it failed, and {again}{apart}",
    )


def refused_to_wait(mine: Claim, other: Claim) -> CheckpointConflictError:
    """Say that the other one's turn never comes while this one waits."""
    return CheckpointConflictError(
        f"the backfill of run {other.run} ({other.told}) writes {mine.target} as well, and is queued behind this run: "
        "the DAG has max_active_runs=1",
        consequence="It begins when this run has ended, so waiting for it would never end",
        remedy=f"mark one of the two runs failed, and clear the other one's {mine.task_id!r}; or allow more runs at a "
        "time, by max_active_runs of the DAG",
    )


def _meet(one: Span, two: Span) -> bool:
    """A stretch that ends before it begins proves nothing, so it may meet anything."""
    try:
        if one[0] > one[1] or two[0] > two[1]:
            return True
        return bool(one[0] <= two[1] and two[0] <= one[1])
    except TypeError:
        return True
