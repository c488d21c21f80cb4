"""Chunks of a backfill: a selection cut into consecutive parts, none lost, none in two chunks, none too large."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.backfill.chunks import (
    Chunk,
    ChunkLimits,
    Unit,
    cut_into_chunks,
    exceeds,
    label_of,
    units_of_range,
)
from airflow_provider_ips.core.backfill.column_values import ChunkValues, Span
from airflow_provider_ips.core.errors import InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.record import Decision, Verdict, Volume
from airflow_provider_ips.core.requests.request import RunKind, RunRequest

amounts = st.one_of(st.none(), st.integers(0, 50))
numbers = st.one_of(st.none(), st.integers(1, 60))
limits_drawn = st.builds(ChunkLimits, max_units=numbers, max_files=numbers, max_bytes=numbers)


@st.composite
def rows_of_units(draw):
    """Units in their order, each of some partitions of its own."""
    sizes = draw(st.lists(st.tuples(amounts, amounts), max_size=25))
    return [
        Unit(label=str(place), partitions=2, volume=Volume(files=files, records=0, size_bytes=size))
        for place, (files, size) in enumerate(sizes)
    ]


@given(rows_of_units(), limits_drawn)
def test_chunks_are_the_selection_cut_into_consecutive_parts(units, limits):
    """Together they are the selection, in its order: nothing is lost or in two chunks."""
    assert [unit for group in cut_into_chunks(units, limits) for unit in group] == units
    assert all(cut_into_chunks(units, limits))


@given(rows_of_units(), limits_drawn)
def test_only_a_single_unit_exceeds_a_limit(units, limits):
    """An unknown number counts as one that exceeds every limit."""
    for group in cut_into_chunks(units, limits):
        assert len(group) == 1 or fits(group, limits.effective)
        assert exceeds(group, limits) is not fits(group, limits.effective)


@given(rows_of_units(), limits_drawn)
def test_no_chunk_ends_before_it_has_to(units, limits):
    """With the next unit it would have exceeded a limit."""
    for one, next_one in pairwise(cut_into_chunks(units, limits)):
        assert not fits((*one, next_one[0]), limits.effective)


def fits(group, limits):
    def total(amounts):
        return None if None in amounts else sum(amounts)

    numbers = (len(group), total([u.volume.files for u in group]), total([u.volume.size_bytes for u in group]))
    maxima = (limits.max_units, limits.max_files, limits.max_bytes)
    return all(limit is None or (n is not None and n <= limit) for n, limit in zip(numbers, maxima, strict=True))


@pytest.mark.parametrize("limits", [ChunkLimits(max_units=2), ChunkLimits(max_files=4), ChunkLimits(max_bytes=6)])
def test_a_limit_may_be_reached(limits):
    units = [Unit(label=str(place), volume=Volume(files=2, records=0, size_bytes=3)) for place in range(3)]

    assert [len(group) for group in cut_into_chunks(units, limits)] == [2, 1]


@given(rows_of_units())
def test_without_a_limit_each_unit_is_a_chunk(units):
    assert cut_into_chunks(units, ChunkLimits()) == [(unit,) for unit in units]


verdicts_drawn = st.lists(st.sampled_from([Decision.CAPTURED, Decision.IGNORED]), max_size=20).map(
    lambda drawn: [
        Verdict(snapshot_id=place, operation="append", decision=decision, reason="", files=1, size_bytes=1)
        for place, decision in enumerate(drawn)
    ]
)


@given(verdicts_drawn, limits_drawn)
def test_chunks_of_a_range_adjoin_and_reach_its_end(verdicts, limits):
    """Each begins where the one before ended, so a snapshot is in one chunk only; the last one ends with the range."""
    captured = [v.snapshot_id for v in verdicts if v.decision is Decision.CAPTURED]
    groups = cut_into_chunks(units_of_range(verdicts, last_snapshot="99"), limits)
    ends = [int(str(group[-1].last_snapshot)) for group in groups]

    assert ends[-1:] == ([99] if captured else [])
    held = [[s for s in captured if after < s <= end] for after, end in pairwise([-1, *ends])]
    assert [s for part in held for s in part] == captured
    assert [len(part) for part in held] == [len(group) for group in groups]


NOTHING = Volume(files=0, records=0, size_bytes=0)

CHUNK = Chunk(
    number=2,
    of=3,
    label="day=2026-10-03 … day=2026-10-04",
    source=Source("db.t"),
    request=RunRequest(kind=RunKind.PARTITIONS, partitions="day > '2026-10-01'"),
    values=ChunkValues(column="day", field_id=2, spans=(Span(1, 2),), nulls=False),
    partitions=2,
    as_of_snapshot="12",
    volume=Volume(files=3, records=None, size_bytes=5),
    claims=("k",),
)


def test_a_chunk_is_read_from_its_json():
    assert Chunk.from_json(json.loads(json.dumps(CHUNK.to_json()))) == CHUNK
    assert str(CHUNK) == "chunk 2 of 3 (day=2026-10-03 … day=2026-10-04)"


@pytest.mark.parametrize("wrong", [{}, "db.t", [CHUNK.to_json()], {**CHUNK.to_json(), "schema_version": 2}, 7])
def test_an_argument_that_is_not_a_chunk_is_refused(wrong):
    with pytest.raises(InputError, match="is not a chunk of a backfill"):
        Chunk.from_json(wrong)


def test_the_identity_of_a_chunk_follows_from_its_rows():
    """Its number is no part of it: chunks of two plans may have the same number."""
    others: list[dict[str, Any]] = [
        {"values": ChunkValues(column="day", field_id=2, spans=(Span(1, 3),), nulls=False)},
        {"as_of_snapshot": None},
        {"source": Source("db.u")},
        {"request": RunRequest(kind=RunKind.FULL)},
    ]

    assert replace(CHUNK, number=1).identity == CHUNK.identity
    assert CHUNK.identity not in {replace(CHUNK, **other).identity for other in others}


def test_the_label_of_a_chunk_names_its_ends():
    low, high = (Unit(label=label, volume=NOTHING) for label in "ab")

    assert (label_of([low]), label_of([low, high])) == ("a", "a … b")
