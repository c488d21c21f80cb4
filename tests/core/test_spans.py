"""Which values something holds: laws of stretches, held against the values themselves."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.spans import ANY, ANY_VALUE, ANYTHING, NULLS, Held, Span, Values

LOW, HIGH = -1, 13
spans_drawn = st.builds(
    lambda low, length, is_open: Span(low, low + length, is_open and length > 0),
    st.integers(0, 8),
    st.integers(0, 4),
    st.booleans(),
)
held_drawn = st.one_of(spans_drawn.map(Held), st.sampled_from([NULLS, ANY_VALUE, ANYTHING]))


def in_span(span):
    """The values, halves included: an open end is told from the one before it."""
    halves = [n / 2 for n in range(2 * LOW, 2 * HIGH)]
    if span.is_any:
        return set(halves)
    return {n for n in halves if span.low <= n and (n < span.high if span.is_open else n <= span.high)}


def in_held(held):
    values = set() if held.span is None else in_span(held.span)
    return values | ({None} if held.nulls else set())


def of(held):
    return Values.of(held, column="day", field_id=2)


@given(spans_drawn, spans_drawn)
def test_to_lie_within_is_to_have_no_value_beside(one, other):
    assert one.within(other) is (in_span(one) <= in_span(other))
    assert one.meets(other) is bool(in_span(one) & in_span(other))
    assert one.within(ANY)
    assert not ANY.within(one)


@given(st.lists(held_drawn, max_size=5), held_drawn)
def test_a_file_is_a_chunks_or_not_or_cuts_it(planned, found):
    """All of its values are the chunk's, or none; else nobody can tell, for files are taken whole."""
    values = of(planned)
    mine = set().union(*map(in_held, planned)) if planned else set()
    theirs = in_held(found)
    answer = values.holds(found)

    if answer is not None:
        whole_days = {n for n in theirs if n is None or float(n).is_integer()}
        assert whole_days <= mine if answer else not theirs & mine
    else:
        assert theirs & mine
        assert theirs - mine or len(theirs) > 1


@given(st.lists(held_drawn, min_size=1, max_size=5))
def test_what_was_planned_is_held(planned):
    """Also once it travelled as JSON; and it holds everything only if nothing is left out."""
    values = of(planned)

    assert all(values.holds(each) for each in planned)
    assert Values.from_json(json.loads(json.dumps(values.to_json()))) == values
    assert values.is_everything is (values.holds(ANYTHING) is True)


def test_days_in_a_row_are_one_stretch_and_text_is_not():
    """Between two days there is none; between two texts there always is one. An open end adjoins what begins there."""
    assert of([Held(Span(1, 1)), Held(Span(3, 3)), Held(Span(2, 2))]).spans == (Span(1, 3),)
    assert of([Held(Span(1, 1)), Held(Span(4, 4))]).spans == (Span(1, 1), Span(4, 4))
    assert of([Held(Span("a", "a")), Held(Span("b", "b"))]).spans == (Span("a", "a"), Span("b", "b"))
    assert of([Held(Span("a", "b", is_open=True)), Held(Span("b", "c", is_open=True))]).spans == (
        Span("a", "c", is_open=True),
    )
    assert of([Held(Span(low=False, high=False)), Held(Span(low=True, high=True))]).spans == (
        Span(low=False, high=False),
        Span(low=True, high=True),
    )


def test_what_lies_between_two_values_of_a_chunk_is_not_its():
    """A filter may have passed over the days in between."""
    values = of([Held(Span(1, 1)), Held(Span(5, 5))])

    assert values.holds(Held(Span(3, 3))) is False
    assert values.holds(Held(Span(1, 5))) is None
    assert values.hull == Span(1, 5)


def test_decimals_travel_to_the_last_digit():
    values = of([Held(Span(Decimal("1.10"), Decimal("1.19")))])

    assert Values.from_json(json.loads(json.dumps(values.to_json()))) == values


@pytest.mark.parametrize(
    ("held", "comparable"),
    [
        ([Held(Span(1, 2)), Held(Span(7, 7))], ((1, 2), (7, 7))),
        ([Held(Span("a", "b", is_open=True))], (("a", "b"),)),
        ([Held(Span(1, 2)), NULLS], None),
        ([ANY_VALUE], None),
        ([ANYTHING], None),
        ([Held(Span(Decimal(1), Decimal(2)))], None),
    ],
)
def test_a_note_tells_only_what_can_be_compared(held, comparable):
    """None may be anything, so it overlaps whatever there is."""
    assert of(held).comparable == comparable


def test_stretches_are_told_to_people():
    shown = [str(each) for each in (Span(1, 1), Span(1, 2), Span("a", "b", is_open=True), ANY)]

    assert shown == ["1", "1 to 2", "a to below b", "any value"]
