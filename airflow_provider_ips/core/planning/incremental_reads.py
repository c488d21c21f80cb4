"""Whether engines read a range by themselves as it was captured: mode RANGE, which makes nothing.

Iceberg's incremental append scan, by which Spark and Flink read, walks the parents from the last snapshot to the first,
and takes what the snapshots with the operation `append` added. Not more, and it applies no delete file:

    operation   files                       the scan takes      an append capture takes
    append      adds 2                      its 2 files         the same
    append      removes an idle delete      its files           the same
    replace     whatever it is              nothing             nothing
    overwrite   adds 2, removes none        nothing: 2 lost     its 2 files
    append      adds 2, removes 1           its 2 files         nothing (on_other_operation="skip")

Where the last column differs, the range is refused: the engine would not say a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider_ips.core.errors import IpsError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.history.files import DATA
from airflow_provider_ips.core.history.selections import CapturePlan
from airflow_provider_ips.core.history.snapshots import TableHistory
from airflow_provider_ips.core.identifiers import CapturedRange
from airflow_provider_ips.core.planning.verdicts import set_checkpoint_to, written_manifests
from airflow_provider_ips.core.record import Decision, Kind, Verdict
from airflow_provider_ips.core.settings import OTHER_MODES, CaptureSettings, refuse_for_range

_NOTHING_DONE: Final = "Nothing was captured and no checkpoint moved"


def range_to_read(history: TableHistory, plan: CapturePlan) -> CapturedRange:
    """Return what an engine is to read by itself; refuse what it would read otherwise than it was captured."""
    if plan.only_partitions is not None:
        refuse_for_range(CaptureSettings(), has_filter=True)
    if plan.kind is Kind.RESYNC or plan.before:
        raise _impossible(history, "it is not what was appended between two snapshots")
    to, start = plan.to_inclusive.snapshot_id, plan.from_exclusive
    if plan.is_empty or to is None:
        return CapturedRange(history.name, None, None)
    if plan.kind is Kind.FULL:
        return CapturedRange(history.name, None, to)
    if start is None or start.snapshot_id is None:
        _refuse_removals(history, plan.verdicts)
        return CapturedRange(history.name, None, to)
    _refuse_unreachable(history, plan.verdicts, start.snapshot_id)
    for verdict in plan.verdicts:
        if why := read_otherwise(history, verdict):
            raise _refused(history, verdict, why)
    return CapturedRange(history.name, start.snapshot_id, to)


def _refuse_removals(history: TableHistory, verdicts: Iterable[Verdict]) -> None:
    """A range from the empty table on has no first snapshot to name. It is read as of its end, if nothing was removed.

    append 1, append 2            as of 2: both
    append 1, delete 2 (skip)     as of 2: without the rows that 2 deleted, which the log of appends has
    """
    for verdict in verdicts:
        if verdict.decision is Decision.IGNORED and verdict.operation != "replace":
            snapshot = history.snapshot(verdict.snapshot_id)
            if snapshot is None or any(
                m.deleted_files != 0 or m.content != DATA for m in written_manifests(history, snapshot)
            ):
                raise _refused(history, verdict, "the range begins with the table, so it is read as of its end")


def _refuse_unreachable(history: TableHistory, verdicts: Iterable[Verdict], start: int) -> None:
    """Refuse a range whose first snapshot does not name the start as its parent: the scan would not find it."""
    first = next((history.snapshot(verdict.snapshot_id) for verdict in verdicts), None)
    if first is None or first.parent_id != start:
        raise _impossible(history, f"no retained snapshot has {start}, after which it begins, as its parent")


def read_otherwise(history: TableHistory, verdict: Verdict) -> str:
    """Say why an incremental read takes other files of a snapshot than were captured; empty if it takes the same."""
    is_read = verdict.operation == "append"
    if verdict.decision is Decision.CAPTURED and not is_read:
        return "an incremental read takes snapshots with the operation append only"
    if verdict.decision is Decision.IGNORED and is_read:
        snapshot = history.snapshot(verdict.snapshot_id)
        written = None if snapshot is None else written_manifests(history, snapshot)
        if written is None or any(m.added_files != 0 for m in written if m.content == DATA):
            return "an incremental read takes what it added all the same"
    return ""


def _refused(history: TableHistory, verdict: Verdict, why: str) -> IpsError:
    snapshot = history.snapshot(verdict.snapshot_id)
    by_hand = (
        ""
        if snapshot is None
        else f"; or pause the DAG, process it by hand, and {set_checkpoint_to(history, snapshot)}"
    )
    return RefusedOperationError(
        f"{history.name}: snapshot {verdict.snapshot_id} ({verdict.operation}) is {verdict.decision.value}, because "
        f"{verdict.reason}; an engine would read it otherwise: {why}",
        consequence=f"The job would lose rows, or read other ones, without an error. {_NOTHING_DONE}",
        remedy=f"use {OTHER_MODES} for this source{by_hand}",
    )


def _impossible(history: TableHistory, why: str) -> IpsError:
    return UnsupportedTableError(
        f"the range of {history.name} cannot be read by an engine itself: {why}",
        consequence=_NOTHING_DONE,
        remedy=f"use {OTHER_MODES} for this source",
    )
