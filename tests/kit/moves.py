"""What moves a table's head, or its history, and adds no row."""

from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate

from tests.kit.tables import append


def compact(table):
    """Commit a `replace` snapshot, as rewriting manifests does: other metadata, the same rows."""
    table.refresh()
    head = table.current_snapshot()
    snapshot_id = table.metadata.new_snapshot_id()
    totals = {k: v for k, v in head.summary.additional_properties.items() if k.startswith("total-")}
    snapshot = head.model_copy(
        update={
            "snapshot_id": snapshot_id,
            "parent_snapshot_id": head.snapshot_id,
            "sequence_number": None if table.format_version == 1 else table.metadata.last_sequence_number + 1,
            "timestamp_ms": head.timestamp_ms + 1,
            "summary": Summary(Operation.REPLACE, **totals),
        }
    )
    move = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": head.snapshot_id}),),
        (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(move)),
    )


def commit_nothing(table):
    """Append no row."""
    append(table, [])


def roll_back(table):
    """Return to the parent of the head."""
    table.refresh()
    table.manage_snapshots().rollback_to_snapshot(table.current_snapshot().parent_snapshot_id).commit()


def expire(table):
    """Forget all snapshots but the head."""
    table.refresh()
    head = table.current_snapshot().snapshot_id
    older = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != head]
    table.maintenance.expire_snapshots().by_ids(older).commit()


QUIET = [compact, commit_nothing, roll_back, expire]
