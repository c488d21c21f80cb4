"""Evidence in the target that a job has written: the stamp of the capture in a snapshot, or a head that moved."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from airflow_provider_ips.core.errors import EvidenceError
from airflow_provider_ips.core.history.snapshots import TableHistory, ancestors

STAMP: Final = "ips-capture-id"
"""The snapshot property with the id of the capture whose rows were written.

Spark sets it by the conf ``spark.sql.iceberg.snapshot-property.ips-capture-id``."""


def has_stamp(target: TableHistory, capture_id: str) -> bool:
    """Whether a snapshot in the target's lineage has the stamp of this capture.

    A snapshot that was rolled back does not count, because the target no longer has its rows.
    """
    return any(snapshot.summary.get(STAMP) == capture_id for snapshot in ancestors(target, target.head))


def stamp_since(target: TableHistory, mark: str, *, known: Collection[str], after_ms: int) -> str | None:
    """The newest stamp in the target's lineage that ends in a mark, is not known, and is newer than a time.

    consumer_mark of a consumer, and the ids in its checkpoint: a stamp that is found is of a capture that the consumer
    made later than the checkpoint that was read.
    """
    for snapshot in ancestors(target, target.head):
        stamp = snapshot.summary.get(STAMP, "")
        if stamp.endswith(mark) and stamp not in known and snapshot.committed_at_ms > after_ms:
            return stamp
    return None


COMPACTION: Final = "replace"
"""The operation of a compaction: it moves the head and changes no row."""


def require_stamp(target: TableHistory, capture_id: str) -> None:
    """Refuse a commit if no snapshot of the target has the stamp.

    A task can succeed although it wrote nothing, or wrote to another table. Only the target shows what it has.
    """
    if has_stamp(target, capture_id):
        return
    raise EvidenceError(
        f"no snapshot of {target.name} has the stamp of capture {capture_id}",
        consequence="The job may have written nothing, or to another table, and a commit would then lose its rows",
        remedy=f"let the job set the snapshot property {STAMP!r} (with Spark, by "
        f'conf={{"spark.sql.iceberg.snapshot-property.{STAMP}": capture.output["capture_id"]}}), and clear it',
    )


def require_moved_head(target: TableHistory, capture_id: str, *, head_before: int | None) -> None:
    """Refuse a commit if nothing was written to the target since the capture, when its head was ``head_before``.

    head before    since then                      the commit
    5              6 append                        is allowed
    5              6 replace                       is refused: a compaction writes no rows
    5              none                            is refused
    5              5 is not in the lineage         is refused: the target was rolled back, or 5 has expired
    """
    if has_stamp(target, capture_id):
        return
    moved = []
    for snapshot in ancestors(target, target.head):
        if snapshot.snapshot_id == head_before:
            break
        moved.append(snapshot)
    else:
        if head_before is not None:
            raise _head_not_in_lineage(target, head_before)
    if all(snapshot.operation == COMPACTION for snapshot in moved):
        raise EvidenceError(
            f"nothing was written to {target.name} since capture {capture_id} began: its head "
            + (f"moved from {head_before} by compaction alone" if moved else f"is still {head_before}"),
            consequence="The job may have written nothing, or to another table, and a commit would then lose its rows",
            remedy="look at the job's log, and clear it. If a job may rightly write nothing, let it stamp its "
            "snapshots, or set no verify_target",
        )


def _head_not_in_lineage(target: TableHistory, head_before: int) -> EvidenceError:
    return EvidenceError(
        f"snapshot {head_before}, the head of {target.name} when the capture began, is no longer in its lineage: the "
        "table was rolled back, or the snapshot has expired",
        consequence="It is not known whether the table has the job's rows; to move the checkpoint might lose them",
        remedy=f"clear the capture to process the range again, or let the job stamp its snapshots with {STAMP!r}",
    )
