"""Claims of backfills: two conflict if they may reach the same rows of a target."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.backfill.claims import (
    PREFIX,
    Claim,
    Extent,
    capture_conflict_error,
    plan_conflict_error,
    target_prefix,
)
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import RunIdentity

spans_drawn = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda t: (t[0], t[0] + t[1])), max_size=4)


def extent(spans, *, source="db.t", column="day"):
    return Extent(source=Source(source), column=column, spans=None if spans is None else tuple(spans))


@given(spans_drawn, spans_drawn)
def test_extents_overlap_if_they_share_a_value(one, two):
    """Whichever of the two is compared with the other."""
    shared = {n for low, high in one for n in range(low, high + 1)} & {
        n for low, high in two for n in range(low, high + 1)
    }

    assert extent(one).overlaps(extent(two)) is bool(shared)
    assert extent(two).overlaps(extent(one)) is bool(shared)


@given(spans_drawn, spans_drawn)
def test_two_ranges_of_snapshots_always_overlap(one, two):
    """Rows of one day may have been added in both."""
    assert extent(one, column=None).overlaps(extent(two, column=None))


def test_a_range_that_ends_before_it_begins_overlaps():
    """Sequence numbers of format version 1 are all 0, and made such ones."""
    assert extent([(1, 0)]).overlaps(extent([(1, 0)]))
    assert extent([(1, 0)]).overlaps(extent([(7, 7)]))
    assert extent([(7, 7)]).overlaps(extent([(1, 0)]))


@given(spans_drawn)
def test_what_cannot_be_compared_overlaps(spans):
    """Other columns, other sources, a range of snapshots, unknown values: each may reach the same rows."""
    here = extent([*spans, (1, 2)])

    for other in (
        extent([(99, 99)], column="country"),
        extent([(99, 99)], column=None),
        extent([(99, 99)], source="db.u"),
        extent([("x", "z")]),
        extent(None),
    ):
        assert here.overlaps(other)
        assert other.overlaps(here)


def run_of(dag_id, run_id):
    return RunIdentity(dag_id=dag_id, run_id=run_id, map_index=-1, run_after="2026-10-01T00:00:00+00:00")


def claim():
    return Claim(
        target="db.daily@main",
        run=run_of("d", "r"),
        task_id="plan",
        description="some partitions in full, partitions day > '2026-10-01'",
        request_digest="abc",
        extent=extent([(1, 2)]),
        as_of_snapshot="7",
        claimed_at_ms=5,
    )


def test_a_claim_is_read_from_its_json():
    assert Claim.from_json(json.loads(json.dumps(claim().to_json()))) == claim()
    assert claim().key.startswith(target_prefix("db.daily@main"))
    assert claim().key.startswith(PREFIX)


def test_the_refusal_names_the_run_and_what_does_not_have_to_wait():
    by_plan = str(plan_conflict_error(claim(), claim()))
    by_capture = str(capture_conflict_error(extent(None), claim()))

    assert "other values of day need not wait" in by_plan
    assert "d/r" in by_plan
    assert "db.daily@main" in by_plan
    assert "on_active_backfill='wait'" in by_plan
    assert "on_active_run='wait'" in by_capture
    assert "need not wait" not in by_capture


@pytest.mark.parametrize(
    ("run", "other", "overlaps"),
    [
        (run_of("other", "r"), extent([(2, 3)]), True),
        (run_of("other", "r"), extent([(3, 3)]), False),
        (run_of("d", "r"), extent([(1, 2)]), False),
        (run_of("d", "next"), extent([(1, 2)]), True),
        (run_of("d", "next"), extent([(1, 2)], source="db.next"), False),
        (run_of("other", "r"), extent([(1, 2)], source="db.next"), True),
    ],
    ids=["another dag", "other values", "the same run", "the next run", "its next stage", "of another dag"],
)
def test_a_detached_capture_overlaps_plans_of_other_runs(run, other, overlaps):
    """The plans of two runs of one DAG are compared with each other: a next stage need not be."""
    assert claim().conflicts_with_capture(run, other) is overlaps
