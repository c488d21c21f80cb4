"""The example in the docstring of ``core/changes/net_change.py``, played and read from its own lines."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_ips.core.changes import net_change
from airflow_provider_ips.core.errors import UnsupportedTableError
from airflow_provider_ips.core.planning.plan import plan_between
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_ips.core.history.selections import CapturePlan, Selection

LINES = [line for line in (net_change.__doc__ or "").splitlines() if re.match(r" {4}(snapshot|\d)", line)]


def files(history: InMemoryHistory, selections: Iterable[Selection]) -> set[str]:
    """The files of a captured table, by the letters that the example gives them."""
    return {
        file.path
        for selection in selections
        for file in history.reads_entries(selection.manifest)
        if file.is_live and (not selection.chosen or file.key in selection.chosen)
    }


@pytest.mark.parametrize("restores", [True, False])
def test_a_delete_of_a_compacted_file_does_not_hide_rows_that_came_back(*, restores: bool) -> None:
    """The delete file is of both files, and needed for the one that was compacted before it was removed."""
    history = InMemoryHistory("db.t")
    start = history.commit("append", add=[history.data_file("o")])
    history.commit("append", add=[history.data_file("a"), history.data_file("x")])
    history.commit("delete", add=[replace(history.delete_file(), path="d")])
    history.commit("replace", add=[history.data_file("c")], remove=["a"])
    end = history.commit("delete" if restores else "replace", remove=["d"])

    def plan() -> CapturePlan:
        return plan_between(
            history,
            kind=Kind.RANGE,
            from_exclusive=start,
            to_inclusive=end,
            settings=CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow"),
        )

    if restores:
        with pytest.raises(UnsupportedTableError, match="d deleted rows in several files"):
            plan()
    else:
        assert {"a", "x", "d"} <= files(history, plan().selections)


def test_two_vectors_of_one_path_are_refused() -> None:
    """One of the file that was compacted, and one of the file that was added again by its old path."""
    history = InMemoryHistory("db.t", format_version=3)
    start = history.commit("append", add=[history.data_file("o")])
    history.commit("append", add=[history.data_file("a")])
    history.commit("delete", add=[replace(history.delete_file("a"), path="d1")])
    history.commit("replace", add=[history.data_file("c")], remove=["a", "d1"])
    history.commit("append", add=[history.data_file("a")])
    end = history.commit("delete", add=[replace(history.delete_file("a"), path="d2")])

    with pytest.raises(UnsupportedTableError, match="rows were deleted in a,"):
        plan_between(
            history,
            kind=Kind.RANGE,
            from_exclusive=start,
            to_inclusive=end,
            settings=CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow"),
        )


@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_the_tables_hold_what_the_example_says(last: int) -> None:
    """Each line is the range up to its snapshot."""
    source, before = LINES[0].index("<source>"), LINES[0].index("<source>.before")
    history = InMemoryHistory("db.t")
    start = history.commit("append", add=[history.data_file("o"), history.data_file("p")])
    ends = [
        history.commit("append", add=[history.data_file("a")]),
        history.commit("overwrite", add=[history.data_file("b")], remove=["o"]),
        history.commit("replace", add=[history.data_file("c")], remove=["a", "p"]),
        history.commit("delete", add=[replace(history.delete_file("c"), path="d")]),
    ]

    plan = plan_between(
        history,
        kind=Kind.RANGE,
        from_exclusive=start,
        to_inclusive=ends[last - 1],
        settings=CaptureSettings(data_operations=ALL_OPERATIONS, on_superset="allow"),
    )

    line = LINES[last]
    assert files(history, plan.selections) == set(line[source:before].split())
    assert files(history, plan.before) == set(line[before:].split())
    assert plan.superset is (last > 1)
