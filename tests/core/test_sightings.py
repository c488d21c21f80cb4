"""What was seen of consumers and tables: bounded, read as it was written, or not at all."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.identifiers import Source, is_masked_name, variable_key
from airflow_provider_ips.core.json_fields import PARSE_ERRORS
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.sightings.consumer_sighting import (
    MAX_BYTES,
    MAX_POINTS,
    NO_LAG,
    UNKNOWN_LAG,
    Breach,
    ConsumerSighting,
    Lag,
    PendingRange,
    PendingSighting,
    Point,
    SeenBy,
    SourceSighting,
    consumer_sighting_key,
)
from airflow_provider_ips.core.sightings.table_sighting import Commit, Effect, TableSighting, table_sighting_key
from tests.core.damage import NOT_NUMBERS, changed, damaged, part_at, places

NOW = 1_790_856_000_000
HEAD = Position(table_uuid="u", snapshot_id=2**60, sequence_number=9, committed_at_ms=NOW - 60_000)
BEHIND = Position(table_uuid="u", snapshot_id=2**59, sequence_number=5, committed_at_ms=NOW - 3_600_000)
VOLUME = Volume(files=3, records=None, size_bytes=10)
LAG = Lag(commits=4, volume=VOLUME, oldest_unprocessed_at_ms=NOW - 1_800_000)
PENDING = PendingRange(to_inclusive=HEAD, captured=VOLUME, rest=NO_LAG, runway_until_ms=NOW)
RUN = RunIdentity(dag_id="daily", run_id="manual__1", map_index=-1, run_after="2026-10-01T00:00:00+00:00")


def of_source(name="db.t", **changes):
    facts = {
        "source": Source(name, "audit"),
        "seen_at_ms": NOW,
        "seen_by": SeenBy.CAPTURE,
        "head": HEAD,
        "table": VOLUME,
        "committed": BEHIND,
        "lag": LAG,
        "runway_until_ms": NOW + 5,
        "gap": "expired",
        "problem": "no answer",
        "pending": PENDING,
    }
    return SourceSighting(**{**facts, **changes})


def of_consumer(**changes):
    facts = {
        "consumer": "daily.capture",
        "dag_id": "daily",
        "task_id": "capture",
        "iceberg_conn_id": "lake",
        "seen_at_ms": NOW,
        "seen_by": SeenBy.SENSOR,
        "sources": (of_source(),),
        "target_lag_s": 3600,
        "breach": Breach(since_ms=NOW - 5, over_at_ms=NOW, notified_at_ms=NOW - 1),
        "pending": PendingSighting(capture_id="c", run=RUN, started_at_ms=NOW),
        "points": (Point(NOW - 1, 5, None, None, 7), Point(NOW, None, 1, 2, 3)),
        "settings": (("initial", "full"), ("on_gap", "fail")),
    }
    return ConsumerSighting(**{**facts, **changes})


def commit(number, **changes):
    facts = {
        "snapshot_id": 2**60 + number,
        "parent_id": 2**60 + number - 1,
        "committed_at_ms": NOW + number,
        "sequence_number": number,
        "operation": "append",
        "effect": Effect.APPEND,
        "added_files": 1,
        "removed_files": None,
        "added_records": 10,
        "removed_records": 0,
    }
    return Commit(**{**facts, **changes})


def of_table(*commits):
    return TableSighting(
        iceberg_conn_id="lake",
        source=Source("db.t"),
        table_uuid="u",
        seen_at_ms=NOW,
        seen_by=SeenBy.WATCH,
        table=VOLUME,
        commits=commits or (commit(2), commit(1, parent_id=None, operation=None, effect=Effect.UNKNOWN)),
        has_more=False,
    )


def size_of(sighting):
    return len(sighting.to_text().encode())


numbers = st.none() | st.integers(0, 2**63 - 1)
words = st.text(min_size=1, max_size=400)
lags = st.builds(
    Lag, commits=numbers, volume=st.builds(Volume, files=numbers, records=numbers, size_bytes=numbers),
    oldest_unprocessed_at_ms=numbers,
)  # fmt: skip
sources = st.builds(of_source, name=words, lag=lags, gap=st.none() | words, runway_until_ms=numbers)
points = st.builds(Point, st.integers(0, 2**63 - 1), numbers, numbers, numbers, numbers)
consumers = st.builds(
    of_consumer,
    sources=st.lists(sources, max_size=5).map(tuple),
    points=st.lists(points, max_size=MAX_POINTS).map(tuple),
    settings=st.lists(st.tuples(words.map(lambda text: text[:300]), st.just("x")), max_size=5).map(tuple),
    target_lag_s=numbers,
)


@given(consumers)
def test_a_sighting_of_a_consumer_reads_as_it_was_written(sighting):
    assert size_of(sighting) <= MAX_BYTES
    if size_of(sighting) < MAX_BYTES - 1000:
        assert ConsumerSighting.parse(sighting.to_text()) == sighting


def test_a_sighting_of_a_table_reads_as_it_was_written():
    assert TableSighting.parse(of_table().to_text()) == of_table()


@pytest.mark.parametrize("number", [1, 30, 1000])
def test_a_sighting_is_bounded_and_says_what_did_not_fit(number):
    """Whatever a consumer reads and is called: its Variable is read and written as a whole."""
    sighting = of_consumer(
        sources=tuple(of_source(f"db.{'t' * 100}{n}", gap="é" * 300) for n in range(number)),
        points=tuple(Point(NOW + n, 2**62, 2**62, 2**62, 2**62) for n in range(MAX_POINTS + 50)),
        settings=(("source_tables", "x" * 10_000),),
    )

    read = ConsumerSighting.parse(sighting.to_text())

    assert size_of(sighting) <= MAX_BYTES
    assert len(read.sources) + read.unlisted_sources == number


def test_the_oldest_points_leave_first():
    many = tuple(Point(NOW + n, n, n, n, n) for n in range(MAX_POINTS + 1))

    assert ConsumerSighting.parse(of_consumer(points=many).to_text()).points == many[1:]


def test_the_oldest_commits_leave_first():
    commits = tuple(commit(n, operation="o" * 300) for n in range(200, 0, -1))
    read = TableSighting.parse(of_table(*commits).to_text())

    assert size_of(of_table(*commits)) <= MAX_BYTES
    assert read.commits == commits[: len(read.commits)]
    assert read.has_more


def test_two_hundred_usual_commits_fit():
    assert len(TableSighting.parse(of_table(*(commit(n) for n in range(200, 0, -1))).to_text()).commits) == 200


@pytest.mark.parametrize("whole", [of_consumer(), of_table()], ids=["consumer", "table"])
def test_what_is_damaged_is_refused_and_never_guessed(whole):
    raw = whole.to_json()
    for place in places(raw):
        if type(part_at(raw, place)) is int:
            for value in (*NOT_NUMBERS, "5", 2**63):
                if value is None:
                    continue
                with pytest.raises(PARSE_ERRORS):
                    whole.from_json(changed(raw, place, value))


@given(damaged(of_consumer().to_json()))
def test_a_sighting_of_a_consumer_is_read_as_it_is_or_refused(raw):
    with suppress(*PARSE_ERRORS):
        found = ConsumerSighting.parse(json.dumps(raw))
        assert ConsumerSighting.parse(found.to_text()).to_text() == found.to_text()


@given(damaged(of_table().to_json()))
def test_a_sighting_of_a_table_is_read_as_it_is_or_refused(raw):
    with suppress(*PARSE_ERRORS):
        found = TableSighting.parse(json.dumps(raw))
        assert TableSighting.parse(found.to_text()).to_text() == found.to_text()


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_key_is_one_that_airflow_keeps_and_no_checkpoint_has(consumer, table):
    for key in (consumer_sighting_key(consumer), table_sighting_key(consumer, Source(table))):
        assert len(key) <= 250
        assert re.fullmatch("[a-z0-9_]+", key)
        assert not is_masked_name(key)
        assert not re.fullmatch("ips_(.*_)?[0-9a-f]{20}", key)
    assert consumer_sighting_key(consumer) != variable_key(f"seen.{consumer}")


@pytest.mark.parametrize(
    ("sources", "target_s", "longest_s", "is_kept"),
    [
        ([LAG], 3600, 1800, True),
        ([LAG], 1799, 1800, False),
        ([LAG], None, 1800, None),
        ([LAG, NO_LAG], 3600, 1800, True),
        ([NO_LAG], 1, 0, True),
        ([UNKNOWN_LAG], 3600, None, None),
        ([LAG, UNKNOWN_LAG], 3600, None, None),
        ([LAG, UNKNOWN_LAG], 1799, 1800, False),
    ],
)
def test_a_target_is_kept_if_every_source_is_known_to_keep_it(sources, target_s, longest_s, is_kept):
    """Unknown is not zero; but one source that is known to be late is enough."""
    sighting = of_consumer(
        sources=tuple(of_source(f"db.t{n}", lag=lag) for n, lag in enumerate(sources)), target_lag_s=target_s
    )

    assert sighting.lag_s(NOW) == longest_s
    assert sighting.is_kept(NOW) is is_kept


def test_lag_grows_without_anybody_looking():
    sighting = replace(of_consumer(), target_lag_s=3600)

    assert sighting.is_kept(NOW + 1_800_000) is True
    assert sighting.is_kept(NOW + 1_800_001) is False
