"""Ranges of values: their laws, compared with sets of values."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.backfill.column_values import (
    ALL_VALUES,
    NOT_NULL,
    ONLY_NULLS,
    UNKNOWN,
    ChunkValues,
    PartitionValues,
    Span,
)

LOW, HIGH = -1, 13
spans_drawn = st.builds(
    lambda low, length, is_open: Span(low, low + length, is_open and length > 0),
    st.integers(0, 8),
    st.integers(0, 4),
    st.booleans(),
)
held_drawn = st.one_of(spans_drawn.map(PartitionValues), st.sampled_from([ONLY_NULLS, NOT_NULL, UNKNOWN]))


def in_span(span):
    """The values, with the halves between them: they show whether an end is included."""
    halves = [n / 2 for n in range(2 * LOW, 2 * HIGH)]
    if span.is_unbounded:
        return set(halves)
    return {n for n in halves if span.low <= n and (n < span.high if span.excludes_high else n <= span.high)}


def in_held(held):
    values = set() if held.span is None else in_span(held.span)
    return values | ({None} if held.nulls else set())


def of(held):
    return ChunkValues.of(held, column="day", field_id=2)


@given(spans_drawn, spans_drawn)
def test_ranges_are_within_each_other_or_overlap_as_their_values_do(one, other):
    assert one.is_within(other) is (in_span(one) <= in_span(other))
    assert one.overlaps(other) is bool(in_span(one) & in_span(other))
    assert one.is_within(ALL_VALUES)
    assert not ALL_VALUES.is_within(one)


@given(st.lists(held_drawn, max_size=5), held_drawn)
def test_a_chunk_contains_a_partition_wholly_or_not_or_in_part(planned, found):
    """In part means that its files cannot be captured for the chunk alone."""
    values = of(planned)
    mine = set().union(*map(in_held, planned)) if planned else set()
    theirs = in_held(found)
    answer = values.contains(found)

    if answer is not None:
        whole_days = {n for n in theirs if n is None or float(n).is_integer()}
        assert whole_days <= mine if answer else not theirs & mine
    else:
        assert theirs & mine
        assert theirs - mine or len(theirs) > 1


@given(st.lists(held_drawn, min_size=1, max_size=5))
def test_a_chunk_contains_the_partitions_that_it_was_planned_from(planned):
    """Also when it is read from JSON; and it is everything only if no value is left out."""
    values = of(planned)

    assert all(values.contains(each) for each in planned)
    assert ChunkValues.from_json(json.loads(json.dumps(values.to_json()))) == values
    assert values.is_everything is (values.contains(UNKNOWN) is True)


def test_consecutive_days_are_one_range_and_texts_are_not():
    """Between two days there is no other; between two texts there is. An excluded end adjoins what begins there."""
    assert of([PartitionValues(Span(1, 1)), PartitionValues(Span(3, 3)), PartitionValues(Span(2, 2))]).spans == (
        Span(1, 3),
    )
    assert of([PartitionValues(Span(1, 1)), PartitionValues(Span(4, 4))]).spans == (Span(1, 1), Span(4, 4))
    assert of([PartitionValues(Span("a", "a")), PartitionValues(Span("b", "b"))]).spans == (
        Span("a", "a"),
        Span("b", "b"),
    )
    assert of(
        [PartitionValues(Span("a", "b", excludes_high=True)), PartitionValues(Span("b", "c", excludes_high=True))]
    ).spans == (Span("a", "c", excludes_high=True),)
    assert of([PartitionValues(Span(low=False, high=False)), PartitionValues(Span(low=True, high=True))]).spans == (
        Span(low=False, high=False),
        Span(low=True, high=True),
    )


def test_values_between_two_values_of_a_chunk_are_not_part_of_it():
    """A filter may have left out the days in between."""
    values = of([PartitionValues(Span(1, 1)), PartitionValues(Span(5, 5))])

    assert values.contains(PartitionValues(Span(3, 3))) is False
    assert values.contains(PartitionValues(Span(1, 5))) is None
    assert values.hull == Span(1, 5)


def test_decimals_keep_their_last_digit_in_json():
    values = of([PartitionValues(Span(Decimal("1.10"), Decimal("1.19")))])

    assert ChunkValues.from_json(json.loads(json.dumps(values.to_json()))) == values


@pytest.mark.parametrize(
    ("held", "comparable"),
    [
        ([PartitionValues(Span(1, 2)), PartitionValues(Span(7, 7))], ((1, 2), (7, 7))),
        ([PartitionValues(Span("a", "b", excludes_high=True))], (("a", "b"),)),
        ([PartitionValues(Span(1, 2)), ONLY_NULLS], None),
        ([NOT_NULL], None),
        ([UNKNOWN], None),
        ([PartitionValues(Span(Decimal(1), Decimal(2)))], None),
    ],
)
def test_claims_have_only_ends_that_can_be_compared(held, comparable):
    """None overlaps every other extent."""
    assert of(held).comparable_ends == comparable


def test_ranges_in_words():
    shown = [str(each) for each in (Span(1, 1), Span(1, 2), Span("a", "b", excludes_high=True), ALL_VALUES)]

    assert shown == ["1", "1 to 2", "a to below b", "any value"]
