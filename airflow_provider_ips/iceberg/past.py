"""Older metadata files of a table: what was known of its snapshots when one of them was committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.serializers import FromInputFile

from airflow_provider_ips.iceberg.faults import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

MAX_TRIES: Final = 3
"""Commits of the same millisecond share a time, and a writer may move its own on by one to keep them apart."""


def snapshots_when_committed(table: Table, snapshot_id: int, committed_at_ms: int) -> Sequence[Snapshot]:
    """The snapshots of the first metadata file that had ``snapshot_id``; none if that is not known any more."""
    for path in _written_from(table, committed_at_ms):
        with mapped(f"reading the older metadata file {path}"):
            try:
                metadata = FromInputFile.table_metadata(table.io.new_input(path))
            except FileNotFoundError:
                return ()
        if any(snapshot.snapshot_id == snapshot_id for snapshot in metadata.snapshots):
            return metadata.snapshots
    return ()


def _written_from(table: Table, time_ms: int) -> Iterator[str]:
    """Give the metadata files from a moment on, oldest first, if no earlier one can have been forgotten in between."""
    log = [(entry.timestamp_ms, entry.metadata_file) for entry in table.metadata.metadata_log]
    if table.metadata_location:  # a catalog may keep to itself where it has the newest
        log.append((table.metadata.last_updated_ms, table.metadata_location))
    later = [(at_ms, path) for at_ms, path in log if at_ms >= time_ms]
    if len(later) == len(log) and (not log or log[0][0] != time_ms):
        return
    yield from (path for _, path in later[:MAX_TRIES])
