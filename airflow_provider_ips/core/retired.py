"""Deletes of whole old files: what daily retention looks like, and what the log of appends may pass over.

A delete is passed over if the partitions that it removed files from gained nothing in the range. Then no row that it
took away was appended in the range, whatever the files' numbers say: compaction keeps rows in their partition, and
where partitions cannot be compared, nothing is passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.core.errors import RefusedOperationError
from airflow_provider_ips.core.files import Reach
from airflow_provider_ips.core.gaps import may_hold_live
from airflow_provider_ips.core.history import DATA
from airflow_provider_ips.core.record import Decision
from airflow_provider_ips.core.steps import read_step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_ips.core.files import FileFacts
    from airflow_provider_ips.core.history import SnapshotFacts, TableHistory
    from airflow_provider_ips.core.steps import Step
    from airflow_provider_ips.core.verdicts import Judged

Place = tuple[int, tuple[Any, ...]]
"""A partition spec and a partition of it."""


def check_retired(history: TableHistory, judged: Sequence[Judged]) -> None:
    """Refuse the range if one of the deletes that it passes over was more than retention. Costs nothing without any."""
    retiring = [item for item in judged if item.retires]
    if not retiring:
        return
    gained = {_place(file): file.path for item in judged for file in _appended(history, item)}
    for item in retiring:
        snapshot = history.snapshot(item.verdict.snapshot_id)
        if snapshot is None:
            continue  # a range is planned only while all of its snapshots are retained
        why = _why_not(history, snapshot, read_step(history, snapshot, item.retires), gained)
        if why:
            raise _more_than_retention(history, snapshot, why)


def _appended(history: TableHistory, item: Judged) -> Iterator[FileFacts]:
    if item.verdict.decision is not Decision.CAPTURED:
        return
    for manifest in item.manifests:
        for file in history.reads_entries(manifest):
            if file.is_live and file.snapshot_id == item.verdict.snapshot_id:
                yield file


def _place(file: FileFacts) -> Place:
    """NaN is a partition of its own and does not equal itself."""
    return file.spec_id, tuple("NaN" if value != value else value for value in file.partition)  # noqa: PLR0124


def _why_not(history: TableHistory, snapshot: SnapshotFacts, step: Step, gained: dict[Place, str]) -> str:
    says = snapshot.count("deleted-data-files")
    if says is not None and says != len(step.removed):
        return f"its summary says that {says} data files were removed, its manifests name {len(step.removed)}"
    specs = {spec_id for spec_id, _ in gained}
    for file in (located.file for located in step.removed):
        if _place(file) in gained:
            return f"it removes {file.path} from a partition that gained rows in the range ({gained[_place(file)]})"
        if specs - {file.spec_id}:
            return (
                f"it removes {file.path}, and files of the range are partitioned by another spec, so whether its "
                "partition gained rows cannot be told"
            )
    return _brings_back(history, snapshot, step)


def _brings_back(history: TableHistory, snapshot: SnapshotFacts, step: Step) -> str:
    """Delete files go with the data that they apply to. One that applied to files which stay has its rows back."""
    reaches = [Reach.of(located.file) for located in step.removed_deletes]
    if not reaches:
        return ""
    for manifest in history.reads_manifests(snapshot.snapshot_id):
        for file in history.reads_entries(manifest) if manifest.content == DATA and may_hold_live(manifest) else ():
            if file.is_live and any(reach.covers(file) for reach in reaches):
                return f"it removes delete files that may apply to {file.path}, so deleted rows may be back"
    return ""


def _more_than_retention(history: TableHistory, snapshot: SnapshotFacts, why: str) -> RefusedOperationError:
    return RefusedOperationError(
        f"{history.name}: {snapshot} is more than retention: {why}",
        consequence="Passing over it would keep rows in the target that the source has taken back or corrected; "
        "nothing was captured and the checkpoint stays",
        remedy="set on_other_operation='skip' for one run if the log of appends is right all the same; or pause the "
        "DAG, process the table in full once, and set the checkpoint behind it by "
        f"`airflow ips reset --table {history.name}` and `airflow ips seed --table {history.name} "
        f"--snapshot {snapshot.snapshot_id}`, both with --consumer",
    )
