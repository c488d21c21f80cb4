"""Chunks of a backfill: a selection cut into consecutive parts, none lost, none doubled, none larger than need be."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.asked import Asked, Run
from airflow_provider_ips.core.backfill import (
    Bounds,
    Chunk,
    Unit,
    exceeded,
    grouped,
    label_of,
    total,
    units_of_range,
)
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.record import Decision, Verdict
from airflow_provider_ips.core.spans import Span, Values

amounts = st.one_of(st.none(), st.integers(0, 50))
limits = st.one_of(st.none(), st.integers(1, 60))
bounds_drawn = st.builds(Bounds, max_units=limits, max_files=limits, max_bytes=limits)


@st.composite
def rows_of_units(draw):
    """Units in their order, each of some partitions of its own."""
    sizes = draw(st.lists(st.tuples(amounts, amounts), max_size=25))
    return [
        Unit(label=str(place), partitions=2, files=files, size_bytes=size) for place, (files, size) in enumerate(sizes)
    ]


@given(rows_of_units(), bounds_drawn)
def test_chunks_are_the_selection_cut_into_consecutive_parts(units, bounds):
    """Laid beside each other they are what was selected: nothing is lost, doubled or moved."""
    assert [unit for group in grouped(units, bounds) for unit in group] == units
    assert all(grouped(units, bounds))


@given(rows_of_units(), bounds_drawn)
def test_only_a_single_unit_exceeds_a_bound(units, bounds):
    """A bound that nobody can check, for an amount is unknown, is kept like one that is exceeded."""
    for group in grouped(units, bounds):
        assert len(group) == 1 or fits(group, bounds.effective)
        assert exceeded(group, bounds) is not fits(group, bounds.effective)


@given(rows_of_units(), bounds_drawn)
def test_no_chunk_ends_before_it_has_to(units, bounds):
    """The next unit would have exceeded a bound."""
    for one, next_one in pairwise(grouped(units, bounds)):
        assert not fits((*one, next_one[0]), bounds.effective)


def fits(group, bounds):
    held = (len(group), total(u.files for u in group), total(u.size_bytes for u in group))
    asked = (bounds.max_units, bounds.max_files, bounds.max_bytes)
    return all(limit is None or (n is not None and n <= limit) for n, limit in zip(held, asked, strict=True))


@pytest.mark.parametrize("bounds", [Bounds(max_units=2), Bounds(max_files=4), Bounds(max_bytes=6)])
def test_a_bound_that_is_just_reached_is_kept(bounds):
    units = [Unit(label=str(place), files=2, size_bytes=3) for place in range(3)]

    assert [len(group) for group in grouped(units, bounds)] == [2, 1]


@given(rows_of_units())
def test_without_a_bound_each_unit_is_a_chunk(units):
    assert grouped(units, Bounds()) == [(unit,) for unit in units]


verdicts_drawn = st.lists(st.sampled_from([Decision.CAPTURED, Decision.IGNORED]), max_size=20).map(
    lambda drawn: [
        Verdict(snapshot_id=place, operation="append", decision=decision, reason="", files=1, size_bytes=1)
        for place, decision in enumerate(drawn)
    ]
)


@given(verdicts_drawn, bounds_drawn)
def test_chunks_of_a_range_adjoin_and_reach_its_end(verdicts, bounds):
    """Each begins where the one before ended, so a snapshot is in just one; the last ends where the range does."""
    captured = [v.snapshot_id for v in verdicts if v.decision is Decision.CAPTURED]
    groups = grouped(units_of_range(verdicts, end="99"), bounds)
    ends = [int(str(group[-1].end)) for group in groups]

    assert ends[-1:] == ([99] if captured else [])
    held = [[s for s in captured if after < s <= end] for after, end in pairwise([-1, *ends])]
    assert [s for part in held for s in part] == captured
    assert [len(part) for part in held] == [len(group) for group in groups]


CHUNK = Chunk(
    number=2,
    of=3,
    label="day=2026-10-03 … day=2026-10-04",
    source="db.t",
    branch="main",
    asked=Asked(run=Run.PARTITIONS, partitions="day > '2026-10-01'"),
    values=Values(column="day", field_id=2, spans=(Span(1, 2),), nulls=False),
    partitions=2,
    as_of="12",
    files=3,
    records=None,
    size_bytes=5,
    claims=("k",),
)


def test_a_chunk_travels_as_json():
    assert Chunk.from_json(json.loads(json.dumps(CHUNK.to_json()))) == CHUNK
    assert str(CHUNK) == "chunk 2 of 3 (day=2026-10-03 … day=2026-10-04)"


@pytest.mark.parametrize("wrong", [{}, "db.t", [CHUNK.to_json()], {**CHUNK.to_json(), "schema_version": 2}, 7])
def test_what_is_no_chunk_is_refused(wrong):
    with pytest.raises(InputError, match="is no chunk of a backfill"):
        Chunk.from_json(wrong)


def test_a_chunk_is_known_by_what_it_takes():
    """Not by its place: another plan may have other chunks at the same one."""
    others: list[dict[str, Any]] = [
        {"values": Values(column="day", field_id=2, spans=(Span(1, 3),), nulls=False)},
        {"as_of": None},
        {"source": "db.u"},
        {"asked": Asked(run=Run.FULL)},
    ]

    assert replace(CHUNK, number=1).identity == CHUNK.identity
    assert CHUNK.identity not in {replace(CHUNK, **other).identity for other in others}


def test_a_row_of_units_is_told_by_its_ends():
    low, high = Unit(label="a"), Unit(label="b")

    assert (label_of([low]), label_of([low, high])) == ("a", "a … b")
