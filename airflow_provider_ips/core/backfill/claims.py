"""Claims of backfills on targets, so that no two of them write the same rows of one target at the same time.

A plan writes its claims before it looks for claims of others, and removes them again if one of these conflicts. So of
two that begin at the same moment at least one sees the other: both may be refused, but never neither. A detached run
that is not part of a backfill claims nothing; it only gives way to claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from airflow_provider_ips.core.errors import ActiveRunError, CheckpointConflictError
from airflow_provider_ips.core.identifiers import Source, digest
from airflow_provider_ips.core.json_fields import KeptObject, Stored, Words
from airflow_provider_ips.core.positions import RunIdentity

PREFIX: Final = "ips_backfill-"
"""The ``-`` is in no name of a checkpoint's Variable."""

Ends = tuple[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent(KeptObject):
    """The rows of a source that a backfill takes, as far as they can be compared with those of another one.

    For two backfills by the column ``day``, or one by snapshots:

        2026-10-01 to 2026-10-03, and 2026-10-03 to 2026-10-05    overlap in one day
        2026-10-01 to 2026-10-03, and 2026-10-04 to 2026-10-05    do not overlap
        2026-10-01 to 2026-10-03, and snapshots 5 to 9            may overlap: any of these may have added rows of a day
    """

    source: Annotated[Source | None, Stored(inline=True)]
    """None for a capture of several sources."""

    column: str | None
    """None for a range of snapshots, and for a table without partitions."""

    spans: tuple[Ends, ...] | None
    """Ranges of values, ends included. None if the values are not known."""

    def overlaps(self, other: Extent) -> bool:
        """Whether both may reach the same rows of a target. Extents that cannot be compared may."""
        if (self.source, self.column) != (other.source, other.column):
            return True
        if self.column is None or self.spans is None or other.spans is None:
            return True
        return any(_share_value(one, two) for one in self.spans for two in other.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(KeptObject):
    """A note that one run writes some rows of one target."""

    schema_version: ClassVar = 1

    target: str
    run: RunIdentity
    task_id: str
    description: Annotated[Words, Stored("told")]
    """What the run was requested to do, in words."""

    request_digest: Annotated[str, Stored("asked")]
    """A digest of everything that determines the chunks, except the content of the source."""

    extent: Extent
    as_of_snapshot: Annotated[str | None, Stored("as_of")]
    """The snapshot of the source that was planned."""

    claimed_at_ms: int

    def conflicts_with(self, other: Claim) -> bool:
        """Whether both plans may write the same rows, given that they write the same target."""
        return self.extent.overlaps(other.extent)

    def conflicts_with_capture(self, run: RunIdentity, extent: Extent) -> bool:
        """Whether the plan and a detached capture may write the same rows of the plan's target at the same time.

        Runs of two DAGs conflict if their extents overlap. Within one DAG the author has ordered the tasks, and all
        captures of a run follow one request. There a capture is compared with the plan of another run only if both are
        of the same source:

            plan of run A, stage 1 of run B       conflict if their extents overlap
            plan of run A, next stage of run A    no conflict: the DAG orders them
            plan of run A, next stage of run B    no conflict: the plan of run B has waited for that of run A
        """
        if not self.extent.overlaps(extent):
            return False
        if self.run.dag_id != run.dag_id:
            return True
        return not self.run.is_of_run(run) and self.extent.source == extent.source

    @property
    def key(self) -> str:
        return claim_key(self.target, self.run, self.task_id)


def target_prefix(target: str) -> str:
    """The beginning of the names of all Variables with claims on a target."""
    return f"{PREFIX}{digest(target, length=12)}-"


def claim_key(target: str, run: RunIdentity, task_id: str) -> str:
    """Name the Variable of one task's claim on one target."""
    return target_prefix(target) + digest(run.dag_id, run.run_id, str(run.map_index), run.run_after, task_id, length=20)


def plan_conflict_error(mine: Claim, other: Claim) -> CheckpointConflictError:
    """The error of a plan that conflicts with an active backfill."""
    return _conflict_error(other, mine.extent, "clear this task; on_active_backfill='wait' waits for it")


def capture_conflict_error(extent: Extent, other: Claim) -> CheckpointConflictError:
    """The error of a detached capture that conflicts with an active backfill."""
    return _conflict_error(other, extent, "trigger a new run with the same request; on_active_run='wait' waits for it")


def _conflict_error(other: Claim, extent: Extent, again: str) -> ActiveRunError:
    elsewhere = "" if extent.spans is None else f"; other values of {extent.column} need not wait"
    return ActiveRunError(
        f"the backfill of run {other.run} ({other.description}) writes {other.target} as well, and is still active",
        consequence="Both would write the same rows, and parts of each would remain, whichever ended last",
        remedy=f"let that run end, or mark it failed and wait 20 seconds; then {again}{elsewhere}",
    )


def endless_wait_error(task_id: str, other: Claim) -> CheckpointConflictError:
    """The error of a task that would wait for a run which starts only after its own has ended."""
    return CheckpointConflictError(
        f"the backfill of run {other.run} ({other.description}) writes {other.target} as well, and is queued after "
        "this run: the DAG has max_active_runs=1",
        consequence="It begins when this run has ended, so waiting for it would never end",
        remedy=f"mark one of the two runs failed, and clear {task_id!r} of the other one; or allow more runs at a "
        "time, by max_active_runs of the DAG",
    )


def _share_value(one: Ends, two: Ends) -> bool:
    """Whether two ranges overlap. Ends that cannot be compared, or are in the wrong order, prove nothing."""
    try:
        if one[0] > one[1] or two[0] > two[1]:
            return True
        return bool(one[0] <= two[1] and two[0] <= one[1])
    except TypeError:
        return True
