"""Mode RANGE: an engine is handed a range only if it reads the very files that a capture takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ips.core.errors import GapError, InputError, RefusedOperationError, UnsupportedTableError
from airflow_provider_ips.core.history.files import DATA, Status
from airflow_provider_ips.core.history.selections import Take
from airflow_provider_ips.core.history.snapshots import head_position
from airflow_provider_ips.core.identifiers import CapturedBranch, CapturedRange, Source, is_icdc_table
from airflow_provider_ips.core.planning.incremental_reads import range_to_read
from airflow_provider_ips.core.planning.plan import plan_capture, plan_full
from airflow_provider_ips.core.record import Kind
from airflow_provider_ips.core.settings import ALL_OPERATIONS, CaptureSettings, refuse_for_range
from airflow_provider_ips.testing import InMemoryHistory

if TYPE_CHECKING:
    from airflow_provider_ips.core.history.selections import CapturePlan

SKIP = CaptureSettings(on_other_operation="skip")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "merge", "compact", "overwrite", "delete", "change", "rows", "empty", "roll back"]),
        st.sampled_from(["append", "overwrite", "delete"]),
    ),
    max_size=12,
)


def play(history: InMemoryHistory, steps: list[tuple[str, str]]) -> None:
    """Commit whatever files under whatever operation, as writers do that are not Iceberg's own."""
    for step, operation in steps:
        {
            "append": lambda _: history.append(files=2),
            "merge": lambda _: history.merge_append(),
            "compact": lambda _: history.compact(),
            "overwrite": lambda _: history.append(operation="overwrite"),
            "delete": lambda operation: history.remove(operation=operation),
            "change": lambda operation: history.rewrite_rows(operation=operation),
            "rows": lambda _: history.delete_rows(),
            "empty": history.commit,
            "roll back": lambda _: roll_back(history),
        }[step](operation)


def roll_back(history: InMemoryHistory) -> None:
    """By one snapshot, if it has a parent."""
    if history.head is not None and history.head.parent_id is not None:
        history.head_id = history.head.parent_id


def scanned(history: InMemoryHistory, found: CapturedRange) -> Counter[str]:
    """The files that Iceberg's incremental append scan reads, line by line as in BaseIncrementalAppendScan."""
    assert found.to is not None
    if found.after is None:
        return Counter(f.path for f in history.live_entries(found.to) if f.content.name == "DATA")
    chain, at = [], found.to
    while at != found.after:
        chain.append(history.snapshots[at])
        at = chain[-1].parent_id or 0
    ids = {s.snapshot_id for s in chain if s.operation == "append"}
    manifests = {m.path: m for i in ids for m in history.manifests[i] if m.content == DATA}.values()
    entries = [e for m in manifests if m.added_snapshot_id in ids for e in history.entries[m.path]]
    return Counter(e.path for e in entries if e.snapshot_id in ids and e.status is Status.ADDED)


def taken(history: InMemoryHistory, plan: CapturePlan) -> Counter[str]:
    """The data files that an ICDC table of the plan would hold."""
    return Counter(
        entry.path
        for selection in plan.selections
        if selection.manifest.content == DATA
        for entry in history.entries[selection.manifest.path]
        if entry.is_live and (selection.take is Take.WHOLE or entry.status is Status.ADDED)
    )


@settings(max_examples=500, deadline=None)
@given(before=STEPS, after=STEPS, passing=st.sampled_from(["fail", "skip"]))
def test_a_range_is_read_as_it_was_captured_or_refused(
    before: list[tuple[str, str]], after: list[tuple[str, str]], passing: str
) -> None:
    """Whatever happened, and not refused where the engine would have been right."""
    history = InMemoryHistory("db.t")
    play(history, before)
    committed = head_position(history)
    play(history, after)
    try:
        plan = plan_capture(history, committed=committed, settings=CaptureSettings(on_other_operation=passing))
    except (GapError, RefusedOperationError):
        return
    end = plan.to_inclusive.snapshot_id
    try:
        found = range_to_read(history, plan)
    except RefusedOperationError:
        unproven = CapturedRange(history.name, committed.snapshot_id, end)
        has_deletes = any(f.content.name != "DATA" for f in history.live_entries(end))
        assert scanned(history, unproven) != taken(history, plan) or (committed.snapshot_id is None and has_deletes)
        return
    assert CapturedRange.parse(str(found)) == found
    if found.to is None:
        assert not taken(history, plan)
    elif found.after is None and any(v.operation == "replace" for v in plan.verdicts):
        pass  # the same rows in other files
    else:
        assert scanned(history, found) == taken(history, plan)


def test_an_append_that_removes_files_and_is_skipped_is_refused() -> None:
    """The engine goes by the operation's name, and reads what it added."""
    history = InMemoryHistory("db.t")
    committed = history.append(files=2)
    history.append()
    history.rewrite_rows(operation="append")
    plan = plan_capture(history, committed=committed, settings=SKIP)
    with pytest.raises(RefusedOperationError, match="takes what it added all the same"):
        range_to_read(history, plan)


def test_an_overwrite_that_removes_nothing_is_refused() -> None:
    """It is an append, which the engine leaves out. The error names it, and the modes that can."""
    history = InMemoryHistory("db.t")
    committed = history.append()
    history.append(operation="overwrite")
    plan = plan_capture(history, committed=committed, settings=CaptureSettings())
    with pytest.raises(RefusedOperationError) as refused:
        range_to_read(history, plan)
    assert "snapshot 2 (overwrite) is captured, because it adds 1 data files" in refused.value.problem
    assert 'capture_mode="ICDC" or "BRANCH"' in refused.value.remedy


def test_a_range_from_the_empty_table_on_is_read_as_of_its_end() -> None:
    """A consumer that was there before the first row. An overwrite is right there, as no snapshot is chosen by name."""
    history = InMemoryHistory("db.t")
    committed = head_position(history)
    history.append()
    history.append(operation="overwrite")
    history.compact()
    plan = plan_capture(history, committed=committed, settings=CaptureSettings())
    assert plan.kind is Kind.RANGE
    assert range_to_read(history, plan) == CapturedRange("db.t", None, 3)
    history.remove()
    with pytest.raises(RefusedOperationError, match="it is read as of its end"):
        range_to_read(history, plan_capture(history, committed=committed, settings=SKIP))


def test_a_start_that_no_snapshot_names_is_refused() -> None:
    """PyIceberg's expiry clears parents: the walk is proven by other means, which the engine does not have."""
    history = InMemoryHistory("db.t")
    committed = history.append()
    cut = history.append()
    plan = plan_capture(history, committed=committed, settings=CaptureSettings())
    history.expire(committed)
    history.cut_parent(cut)
    with pytest.raises(UnsupportedTableError, match="as its parent"):
        range_to_read(history, plan)


def test_all_rows_are_read_as_of_a_snapshot_and_none_of_an_empty_table() -> None:
    """A first run, and a full refresh of a table without snapshots."""
    history = InMemoryHistory("db.t")
    empty = plan_full(history, committed=None, settings=CaptureSettings())
    assert range_to_read(history, empty) == CapturedRange("db.t", None, None)
    history.append()
    history.rewrite_rows()
    full = plan_full(history, committed=None, settings=CaptureSettings())
    assert range_to_read(history, full) == CapturedRange("db.t", None, 2)
    with pytest.raises(InputError, match="a filter of partitions"):
        range_to_read(history, replace(full, only_partitions="day = 1"))
    with pytest.raises(UnsupportedTableError, match="not what was appended"):
        range_to_read(history, replace(full, kind=Kind.RESYNC))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (CaptureSettings(data_operations=ALL_OPERATIONS), "data_operations="),
        (CaptureSettings(on_gap="resync"), "on_gap='resync'"),
    ],
)
def test_settings_that_no_range_can_follow_are_refused(settings: CaptureSettings, named: str) -> None:
    """All of them at once."""
    with pytest.raises(InputError, match=named):
        refuse_for_range(settings)
    refuse_for_range(CaptureSettings(on_gap="full", on_other_operation="skip", max_files=3))


def test_a_name_stands_for_a_range_and_for_nothing_that_engines_know() -> None:
    """It is told from tables and branches by the name alone, and says how Spark reads it."""
    between, whole, none = (CapturedRange("a.db.t", *ends) for ends in ((1, 22), (None, 22), (None, None)))
    assert [str(each) for each in (between, whole, none)] == [
        "a.db.t.ips_range_1_22",
        "a.db.t.ips_range_to_22",
        "a.db.t.ips_range_empty",
    ]
    for each in (between, whole, none):
        assert CapturedRange.parse(str(each)) == each
        assert not is_icdc_table(str(each))
    assert between.read_options == {"start-snapshot-id": "1", "end-snapshot-id": "22"}
    assert whole.read_options == {"versionAsOf": "22"}
    assert none.read_options is None
    assert whole.as_sql("lake") == "(SELECT * FROM lake.a.db.t VERSION AS OF 22)"
    assert none.as_sql(None) == "(SELECT * FROM a.db.t LIMIT 0)"
    branch = str(CapturedBranch.of_capture(Source("db.t"), "id"))
    assert CapturedRange.parse(branch) is None
    assert CapturedRange.parse("db.ips_range_1") is None
    assert is_icdc_table("icdc.db_t_ips_range_1_2")
