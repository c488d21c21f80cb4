"""Deletes that name a path which the table lists several times: they apply to each of its entries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

CHANGES = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow")
PATH = "memory://shared.parquet"


@pytest.mark.parametrize("then", ["nothing", "compacted"])
def test_deleting_rows_of_an_old_and_a_new_entry_is_refused(then: str) -> None:
    """The rows of the old one are gone as well, and the delete names only the path."""
    history = InMemoryHistory("db.t")
    start = history.commit("append", add=[history.data_file(PATH)])
    history.commit("append", add=[history.data_file(PATH)])
    history.commit("overwrite", add=[history.delete_file(PATH)])
    if then == "compacted":
        history.compact()
    with pytest.raises(
        UnsupportedTableError, match=r"deleted in memory://shared.parquet, which the table lists several"
    ):
        plan_capture(history, committed=start, settings=CHANGES)


def test_deleting_rows_of_new_entries_is_captured() -> None:
    """Both are from the range, with the delete file that applies to both."""
    history = InMemoryHistory("db.t")
    start = history.append()
    history.commit("append", add=[history.data_file(PATH)])
    history.commit("append", add=[history.data_file(PATH)])
    history.commit("overwrite", add=[history.delete_file(PATH)])
    history.expire(start)
    plan = plan_capture(history, committed=start, settings=CHANGES)
    taken = [file for s in plan.selections for file in history.reads_entries(s.manifest)]
    assert [file.path for file in taken].count(PATH) == 2
    assert len(taken) == 3
    assert not plan.before


def test_without_numbers_a_removal_of_one_of_two_entries_is_refused() -> None:
    """Both look the same, so which of them is live is unknown."""
    history = InMemoryHistory("db.t", format_version=1)
    start = history.append()
    history.commit("append", add=[history.data_file(PATH)])
    again = history.commit("append", add=[history.data_file(PATH)])
    removed = history.commit("delete", remove=[PATH])
    # What Java's delete of one entry writes: the newer manifest is rewritten, and the older one stays.
    kept = next(m for m in history.manifests[again.snapshot_id or 0] if m.added_snapshot_id == 2)
    written = [m for m in history.manifests[removed.snapshot_id or 0] if m.added_snapshot_id == removed.snapshot_id]
    history.manifests[removed.snapshot_id or 0] = (kept, written[-1])
    facts = history.snapshots[removed.snapshot_id or 0]
    counts = {"deleted-data-files": "1", "total-data-files": "2"}
    history.snapshots[facts.snapshot_id] = replace(facts, summary={**facts.summary, **counts})
    with pytest.raises(UnsupportedTableError, match=f"lists {PATH} several times, without sequence numbers"):
        plan_capture(history, committed=start, settings=CHANGES)
