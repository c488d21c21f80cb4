"""What a target table tells of a job's work: a stamp in its history, or at least that its head has moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import EvidenceError
from airflow_provider_ips.core.history import ancestors
from airflow_provider_ips.core.stamps import STAMP, carries_stamp

if TYPE_CHECKING:
    from airflow_provider_ips.core.history import TableHistory

MAINTENANCE: Final = "replace"
"""The operation of a compaction: the head moves, and no row with it."""


def demand_stamp(target: TableHistory, capture_id: str) -> None:
    """A task can succeed without having written, or having written elsewhere; the target itself knows."""
    if carries_stamp(target, capture_id):
        return
    raise EvidenceError(
        f"no snapshot of {target.name} carries the stamp of capture {capture_id}",
        consequence="The job may have written nothing, or elsewhere; moving the checkpoint would lose its rows",
        remedy=f"let the job set the snapshot property {STAMP!r} (with Spark, by "
        f'conf={{"spark.sql.iceberg.snapshot-property.{STAMP}": capture.output["capture_id"]}}), and clear it',
    )


def demand_moved_head(target: TableHistory, capture_id: str, *, head_then: int | None) -> None:
    """Demand that something was written since the capture, ``head_then`` being where the target stood before it."""
    if carries_stamp(target, capture_id):
        return
    moved = []
    for snapshot in ancestors(target, target.head):
        if snapshot.snapshot_id == head_then:
            break
        moved.append(snapshot)
    else:
        if head_then is not None:
            raise _lost(target, head_then)
    if all(snapshot.operation == MAINTENANCE for snapshot in moved):
        raise EvidenceError(
            f"nothing was written to {target.name} since capture {capture_id} began: its head "
            + (f"moved from {head_then} by compaction alone" if moved else f"is still {head_then}"),
            consequence="The job may have written nothing, or elsewhere; moving the checkpoint would lose its rows",
            remedy="look at the job's log, and clear it. A job that may rightly write nothing should stamp its "
            "snapshots, or be asked for no target",
        )


def _lost(target: TableHistory, head_then: int) -> EvidenceError:
    return EvidenceError(
        f"{target.name} stood at snapshot {head_then} when the capture began, and its history does not hold that any "
        "more: it was rolled back or expired",
        consequence="Whether the job's rows are in it cannot be told; moving the checkpoint might lose them",
        remedy=f"clear the capture to process the range again, or let the job stamp its snapshots with {STAMP!r}",
    )
