"""The mark that a capture leaves in the target: its id, in the summary of the snapshot that the job made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider_ips.core.history import ancestors

if TYPE_CHECKING:
    from airflow_provider_ips.core.history import TableHistory

STAMP: Final = "ips-capture-id"
"""The snapshot property. Spark sets it by the conf ``spark.sql.iceberg.snapshot-property.ips-capture-id``."""


def carries_stamp(target: TableHistory, capture_id: str) -> bool:
    """Tell whether the target's live lineage holds what a job wrote for this capture.

    A snapshot that was rolled back does not count: its rows are not there any more.
    """
    return any(snapshot.summary.get(STAMP) == capture_id for snapshot in ancestors(target, target.head))
