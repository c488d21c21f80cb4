"""A manifest list that names fewer files or rows than its snapshot counts was cut off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.history.files import DATA, DELETES
from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory


@pytest.fixture
def history() -> InMemoryHistory:
    """Two data manifests, one delete manifest."""
    made = InMemoryHistory("db.t")
    made.append(files=2)
    made.append(files=3)
    made.delete_rows(delete_files=1)
    return made


@pytest.mark.parametrize(("content", "says"), [(DATA, "names 2 data files"), (DELETES, "names 0 delete files")])
def test_a_full_capture_of_a_list_that_lost_a_manifest_is_refused(
    history: InMemoryHistory, content: str, says: str
) -> None:
    """Rows would be missing; without the deletes, deleted rows would be back."""
    listed = history.manifests[3]
    lost = next(m for m in listed if m.content == content and m.added_files != 2)
    history.manifests[3] = tuple(m for m in listed if m is not lost)
    with pytest.raises(UnsupportedTableError, match=says):
        plan_capture(history, committed=None, settings=CaptureSettings())


def test_fewer_rows_in_as_many_files_are_refused(history: InMemoryHistory) -> None:
    """A list of another snapshot may have as many files."""
    history.manifests[3] = tuple(replace(m, added_rows=0) for m in history.manifests[3])
    with pytest.raises(UnsupportedTableError, match="names 0 rows; the snapshot counts 50"):
        plan_capture(history, committed=None, settings=CaptureSettings())


def test_a_resync_checks_the_list_too(history: InMemoryHistory) -> None:
    """It takes files from the list."""
    seen = history.append()
    history.rollback(seen)
    first = replace(seen, snapshot_id=1, sequence_number=1)
    history.rollback(first)
    history.append(files=1)
    history.manifests[5] = history.manifests[5][:1]
    with pytest.raises(UnsupportedTableError, match="names 1 data files; the snapshot counts 3"):
        plan_capture(history, committed=seen, settings=CaptureSettings(on_gap="resync"))


def test_what_is_not_counted_proves_nothing(history: InMemoryHistory) -> None:
    """Neither a summary without totals nor a v1 list without counts shows that a list was cut off."""
    bare = replace(history.snapshots[3], summary={})
    uncounted = tuple(replace(m, added_files=None, added_rows=None) for m in history.manifests[3])
    for snapshot, manifests in ((bare, history.manifests[3]), (history.snapshots[3], uncounted)):
        history.snapshots[3], history.manifests[3] = snapshot, manifests
        assert plan_capture(history, committed=None, settings=CaptureSettings()).kind is Kind.FULL
