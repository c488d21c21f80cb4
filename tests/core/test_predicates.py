"""The predicate that makes a superset row-exact, and where it would leave out rows that are new to the target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ips.core.planning.plan import plan_capture
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

CHANGES = CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow")


def table_with_deleted_rows(positions: int) -> tuple[InMemoryHistory, str, str]:
    """A table of format version 3 with a data file and its deletion vector, whose paths come with it."""
    history = InMemoryHistory("db.t", format_version=3)
    history.append()
    data_file = history.live_files[0].path
    vector = replace(history.delete_file(data_file), records=positions)
    history.commit("overwrite", add=[vector])
    return history, data_file, vector.path


@pytest.mark.parametrize("left", [0, 1], ids=["all came back", "some came back"])
def test_where_deleted_rows_came_back_there_is_no_predicate(left: int) -> None:
    """They are new to the target, and their sequence numbers are older than the checkpoint."""
    history, data_file, vector = table_with_deleted_rows(positions=3)
    start = history.append()
    smaller = [replace(history.delete_file(data_file), records=left)] if left else []
    history.commit("overwrite", add=smaller, remove=[vector])
    plan = plan_capture(history, committed=start, settings=CHANGES)
    assert plan.superset
    assert plan.predicate is None
    assert "deleted rows came back in the range" in plan.no_predicate


def test_more_deleted_rows_leave_the_predicate() -> None:
    """A vector is replaced by one with more positions whenever rows are deleted: nothing came back."""
    history, data_file, vector = table_with_deleted_rows(positions=3)
    start = history.append()
    larger = replace(history.delete_file(data_file), records=4)
    history.commit("overwrite", add=[larger], remove=[vector])
    history.rewrite_rows()
    plan = plan_capture(history, committed=start, settings=CHANGES)
    assert plan.predicate == f"_last_updated_sequence_number > {start.sequence_number}"
