"""Whether a manifest list is complete.

Nothing records how long a manifest list is. One that was cut off between two of its blocks reads like a shorter one, in
every engine. The snapshot's own totals tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.history import DATA, DELETES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_ips.core.history import ManifestFacts, SnapshotFacts

_FILES: Final = ((DATA, "total-data-files", "data files"), (DELETES, "total-delete-files", "delete files"))


def check_listed(name: str, snapshot: SnapshotFacts, manifests: Sequence[ManifestFacts]) -> None:
    """Refuse a list that names less than its snapshot counts. Totals or counts that are not given prove nothing."""
    for content, total_name, words in _FILES:
        total = snapshot.count(total_name)
        counts = [_live(m.added_files, m.existing_files) for m in manifests if m.content == content]
        _refuse_fewer(name, snapshot, words, counts, total)
    rows = [_live(m.added_rows, m.existing_rows) for m in manifests if m.content == DATA]
    _refuse_fewer(name, snapshot, "rows", rows, snapshot.count("total-records"))


def _live(added: int | None, existing: int | None) -> int | None:
    return None if added is None or existing is None else added + existing


def _refuse_fewer(
    name: str, snapshot: SnapshotFacts, words: str, counts: Sequence[int | None], total: int | None
) -> None:
    if total is None or None in counts:
        return
    listed = sum(count or 0 for count in counts)
    if listed < total:
        raise UnsupportedTableError(
            f"the manifest list of {name}, {snapshot}, names {listed} {words}; the snapshot counts {total}",
            consequence="The list was cut off or overwritten, so files would be missing from the capture",
            remedy="check the storage and restore the list; if an engine reads all rows of the table, a writer "
            "counted wrong: process the table in full once, then set the checkpoint behind it by `airflow ips seed`",
        )
