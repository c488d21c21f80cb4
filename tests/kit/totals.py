"""How much a table holds: by the summary of its snapshot, and by its manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent

if TYPE_CHECKING:
    from pyiceberg.table import Table

TOTALS = ("data-files", "records", "delete-files", "position-deletes", "equality-deletes")


def totals_in_summary(table: Table) -> dict[str, int]:
    """What the current snapshot says; a total that it lacks is missing here as well."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    return {name: int(said[f"total-{name}"]) for name in TOTALS if f"total-{name}" in said}


def totals_of_entries(table: Table) -> dict[str, int]:
    """What the manifests list."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    counts = dict.fromkeys(TOTALS, 0)
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            content = DataFileContent(file.content)  # of format v1 it is a plain number
            counts["data-files" if content is DataFileContent.DATA else "delete-files"] += 1
            counts[_COUNTED[content]] += file.record_count
    return counts


_COUNTED = {
    DataFileContent.DATA: "records",
    DataFileContent.POSITION_DELETES: "position-deletes",
    DataFileContent.EQUALITY_DELETES: "equality-deletes",
}
