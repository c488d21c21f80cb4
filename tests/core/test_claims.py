"""What backfills are at work on: two that may reach the same rows of a target overlap."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.claims import PREFIX, Claim, Extent, refused, target_prefix
from airflow_provider_ips.core.positions import RunIdentity

spans_drawn = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda t: (t[0], t[0] + t[1])), max_size=4)


def extent(spans, *, source="db.t", column="day"):
    return Extent(source=source, branch="main", column=column, spans=None if spans is None else tuple(spans))


@given(spans_drawn, spans_drawn)
def test_overlap_is_to_share_a_value(one, two):
    """And it holds both ways."""
    shared = {n for low, high in one for n in range(low, high + 1)} & {
        n for low, high in two for n in range(low, high + 1)
    }

    assert extent(one).overlaps(extent(two)) is bool(shared)
    assert extent(two).overlaps(extent(one)) is bool(shared)


@given(spans_drawn, spans_drawn)
def test_two_stretches_of_history_are_never_apart(one, two):
    """Rows of one day may have come in any of them."""
    assert extent(one, column=None).overlaps(extent(two, column=None))


def test_a_stretch_that_ends_before_it_begins_proves_nothing():
    """Sequence numbers of format version 1 are all 0, and made such ones."""
    assert extent([(1, 0)]).overlaps(extent([(1, 0)]))
    assert extent([(1, 0)]).overlaps(extent([(7, 7)]))
    assert extent([(7, 7)]).overlaps(extent([(1, 0)]))


@given(spans_drawn)
def test_what_cannot_be_compared_overlaps(spans):
    """Other columns, other sources, a stretch of history, values nobody knows: each may reach the same rows."""
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


def test_a_claim_travels_as_json_and_names_its_run():
    run = RunIdentity(dag_id="d", run_id="r", map_index=-1, run_after="2026-10-01T00:00:00+00:00")
    claim = Claim(
        target="db.daily@main",
        run=run,
        task_id="plan",
        told="some partitions in full, partitions day > '2026-10-01'",
        asked="abc",
        extent=extent([(1, 2)]),
        as_of="7",
        claimed_at_ms=5,
    )

    for each in (claim, replace(claim, is_single=True)):
        assert Claim.from_json(json.loads(json.dumps(each.to_json()))) == each
    before_single_runs_had_any = {name: value for name, value in claim.to_json().items() if name != "is_single"}
    assert Claim.from_json(before_single_runs_had_any) == claim
    assert claim.key.startswith(target_prefix("db.daily@main"))
    assert claim.key.startswith(PREFIX)
    single = str(refused(replace(claim, is_single=True, extent=extent(None)), claim))
    assert "on_active_run='wait'" in single
    assert "need not wait" not in single
    told = str(refused(claim, claim))
    assert "other values of day need not wait" in told
    assert "d/r" in told
    assert "db.daily@main" in told
    assert "on_active_backfill='wait'" in told
