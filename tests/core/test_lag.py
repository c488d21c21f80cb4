"""How far a consumer is from the head of a table: counted, unknown, or a gap; and when that is a breach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ips.core.advice.retention import RetentionFacts
from airflow_provider_ips.core.history.snapshots import SnapshotFacts, head_position
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.sightings.consumer_sighting import NO_LAG, UNKNOWN_LAG, Breach, Freshness, Lag, SeenBy
from airflow_provider_ips.core.sightings.lag import (
    Look,
    after_change_by_hand,
    after_commit,
    after_look,
    breach_after,
    lag_of,
    runway_until,
    see_source,
    with_notice,
    with_pending,
)
from airflow_provider_ips.core.sightings.table_sighting import Effect, effect_of, see_table
from airflow_provider_ips.testing import InMemoryHistory
from tests.core.test_sightings import NOW, of_consumer, of_source

LOOK = Look(at_ms=NOW, by=SeenBy.WATCH)
TOTALS = {"total-data-files": "9", "total-records": "90", "total-files-size": "900"}
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def snapshot(number, operation="append", **summary):
    named = {name.replace("_", "-"): str(value) for name, value in summary.items()}
    return SnapshotFacts(
        snapshot_id=number,
        parent_id=number - 1 or None,
        sequence_number=number,
        committed_at_ms=NOW - 100 + number,
        operation=operation,
        summary={**TOTALS, **named},
    )


def append(number, files=2, records=20, size=200):
    return snapshot(number, added_data_files=files, added_records=records, added_files_size=size)


DELETE = snapshot(4, "delete", deleted_data_files=1)
EMPTY = snapshot(5)
COMPACTION = snapshot(6, "replace", added_data_files=1, deleted_data_files=9)
SILENT = replace(snapshot(7), summary={})


@pytest.mark.parametrize(
    ("seen", "effect"),
    [
        (append(1), Effect.APPEND),
        (DELETE, Effect.CHANGE),
        (snapshot(4, "overwrite", added_data_files=1, added_delete_files=1), Effect.CHANGE),
        (snapshot(4, "overwrite", added_data_files=1), Effect.APPEND),
        (snapshot(4, "append", added_data_files=1, deleted_data_files=1), Effect.CHANGE),
        (COMPACTION, Effect.COMPACTION),
        (EMPTY, Effect.NOTHING),
        (SILENT, Effect.UNKNOWN),
        (snapshot(8, "rotate", added_data_files=1), Effect.UNKNOWN),
        (snapshot(8, None, added_data_files=1), Effect.UNKNOWN),
        (snapshot(8, added_data_files="many"), Effect.UNKNOWN),
    ],
)
def test_a_commit_is_what_its_counts_say_and_not_what_it_calls_itself(seen, effect):
    assert effect_of(seen) is effect


def volume(files, records, size):
    return Volume(files=files, records=records, size_bytes=size)


@pytest.mark.parametrize(
    ("after", "skips", "lag"),
    [
        ([], False, NO_LAG),
        ([EMPTY, COMPACTION], False, NO_LAG),
        ([append(1), COMPACTION, append(8)], False, (2, volume(4, 40, 400), append(1))),
        ([COMPACTION, append(8)], False, (1, volume(2, 20, 200), append(8))),
        ([DELETE, append(8)], False, (2, volume(2, 20, 200), DELETE)),
        ([DELETE, append(8)], True, (1, volume(2, 20, 200), append(8))),
        ([append(1), SILENT], False, (None, volume(None, None, None), append(1))),
        ([SILENT, append(8)], False, (None, volume(None, None, None), None)),
        ([snapshot(1, added_data_files=2, added_records=5)], False, (1, volume(2, 5, None), snapshot(1))),
    ],
)
def test_lag_counts_what_is_to_be_processed(after, skips, lag):
    """And what is unknown of one commit is unknown of all."""
    if isinstance(lag, tuple):
        commits, added, oldest = lag
        oldest_ms = None if oldest is None else oldest.committed_at_ms
        lag = Lag(commits=commits, volume=added, oldest_unprocessed_at_ms=oldest_ms)
    assert lag_of(after, skips_changes=skips) == lag


commits = st.lists(st.sampled_from([append(1), DELETE, EMPTY, COMPACTION, append(9, files=1)]), max_size=8)


@given(commits, commits, st.booleans())
def test_the_lags_of_adjacent_ranges_add_up(first, second, skips):
    """So what a commit leaves is what was there, without what its capture took."""
    parts = [lag_of(part, skips_changes=skips) for part in (first, second)]
    whole = lag_of([*first, *second], skips_changes=skips)

    assert whole.commits == sum(part.commits or 0 for part in parts)
    assert whole.volume == Volume.total(part.volume for part in parts)


def test_a_look_sees_the_head_the_lag_and_what_is_pending():
    history = InMemoryHistory("db.t")
    committed = history.append(files=3)
    to = history.append(files=2)
    history.compact()
    history.append(files=1)

    seen = see_source(history, LOOK, committed=committed)
    seen = with_pending(seen, history, LOOK, to=to, captured=volume(2, 20, 2000))

    assert (seen.lag.commits, seen.lag.volume.files) == (2, 3)
    assert seen.pending is not None
    assert (seen.pending.rest.commits, seen.pending.rest.volume.files) == (1, 1)
    assert seen.head == head_position(history)


def test_without_a_checkpoint_the_lag_is_unknown():
    history = InMemoryHistory("db.t")
    history.append(files=3)

    assert see_source(history, LOOK, committed=None).lag == UNKNOWN_LAG


def test_a_checkpoint_that_is_not_an_ancestor_is_a_gap():
    """What came since is unknown, and not all there is."""
    history = InMemoryHistory("db.t")
    history.append(files=1)
    committed = history.append(files=1)

    seen = see_source(history, LOOK, committed=replace(committed, table_uuid="another"))

    assert seen.gap is not None
    assert "another table now" in seen.gap
    assert seen.lag == UNKNOWN_LAG


def test_nothing_but_the_newest_commits_of_a_table_is_listed():
    history = InMemoryHistory("db.t")
    for _ in range(250):
        history.append(files=1)

    table = see_table(history, iceberg_conn_id="lake", seen_at_ms=NOW, seen_by=SeenBy.WATCH)

    assert len(table.commits) == 200
    assert table.commits[0].snapshot_id == history.head_id
    assert table.has_more


def facts(**changes):
    known = {
        "source": "db.t",
        "max_age_ms": 5 * DAY_MS,
        "min_kept": 1,
        "max_ref_age_ms": None,
        "committed_at_ms": (NOW - HOUR_MS, NOW - 2 * HOUR_MS, NOW - 3 * HOUR_MS),
        "is_cut_off": False,
    }
    return RetentionFacts(**{**known, **changes})


@pytest.mark.parametrize(
    ("age_ms", "retention", "left_ms"),
    [
        (None, {}, 5 * DAY_MS),
        (2 * DAY_MS, {}, 3 * DAY_MS),
        (6 * DAY_MS, {}, -DAY_MS),
        (2 * DAY_MS, {"max_age_ms": None}, None),
        (2 * DAY_MS, {"max_age_ms": None, "is_cut_off": True}, 3 * DAY_MS),
        (2 * DAY_MS, {"min_kept": 10}, 3 * DAY_MS),
        (2 * DAY_MS, {"min_kept": 101}, 100 * HOUR_MS),
        (2 * DAY_MS, {"max_ref_age_ms": 2 * HOUR_MS}, HOUR_MS),
    ],
)
def test_the_runway_ends_when_the_first_commit_after_the_checkpoint_may_expire(age_ms, retention, left_ms):
    """By its age, but for as many as are kept at any age, at the pace of one an hour; or with its branch."""
    after = [] if age_ms is None else [replace(append(1), committed_at_ms=NOW - age_ms)]

    assert runway_until(after, facts(**retention), LOOK) == (None if left_ms is None else NOW + left_ms)


OPEN = Breach(since_ms=NOW - 500)
TOLD = replace(OPEN, notified_at_ms=NOW - 400)
OVER = replace(TOLD, over_at_ms=NOW - 100)
LATE = Lag(commits=1, volume=volume(1, 1, 1), oldest_unprocessed_at_ms=NOW - 3_601_000)


@pytest.mark.parametrize(
    ("lag", "before", "after"),
    [
        (NO_LAG, None, None),
        (NO_LAG, OPEN, None),
        (NO_LAG, TOLD, replace(TOLD, over_at_ms=NOW)),
        (NO_LAG, OVER, OVER),
        (LATE, None, Breach(since_ms=NOW - 1000)),
        (LATE, OPEN, OPEN),
        (LATE, TOLD, TOLD),
        (LATE, OVER, TOLD),
        (UNKNOWN_LAG, None, None),
        (UNKNOWN_LAG, TOLD, TOLD),
    ],
)
def test_a_breach_begins_and_ends_once(lag, before, after):
    sighting = of_consumer(sources=(of_source(lag=lag),), target_lag_s=3600)

    assert breach_after(before, sighting, NOW) == after


@pytest.mark.parametrize(("before", "after"), [(OPEN, replace(OPEN, notified_at_ms=NOW)), (OVER, None)])
def test_a_notice_is_given_once(before, after):
    assert with_notice(of_consumer(breach=before), NOW).breach == after


@pytest.mark.parametrize(
    ("sources", "target_s", "freshness"),
    [
        ([{"gap": None, "lag": NO_LAG}], 3600, Freshness.KEPT),
        ([{"gap": None, "lag": NO_LAG}], None, Freshness.KEPT),
        ([{"gap": None, "lag": LATE}], 3600, Freshness.BREACHED),
        ([{"gap": None, "lag": LATE}, {"gap": "expired", "lag": UNKNOWN_LAG}], 3600, Freshness.GAP),
        ([{"gap": None, "lag": LATE, "runway_until_ms": NOW + 1000}], None, Freshness.STRANDED_SOON),
        ([{"gap": None, "lag": LATE, "runway_until_ms": NOW + 3_602_000}], None, Freshness.KEPT),
        ([{"gap": None, "lag": NO_LAG, "seen_at_ms": NOW - 3_600_000}], 3600, Freshness.KEPT),
        ([{"gap": None, "lag": NO_LAG, "seen_at_ms": NOW - 3_600_001}], 3600, Freshness.UNKNOWN),
        ([{"gap": None, "lag": NO_LAG, "seen_at_ms": NOW - DAY_MS - 1}], None, Freshness.UNKNOWN),
        ([{"gap": None, "lag": UNKNOWN_LAG}], 3600, Freshness.UNKNOWN),
        ([], 3600, Freshness.UNKNOWN),
    ],
)
def test_the_worst_that_is_known_is_said(sources, target_s, freshness):
    seen = tuple(of_source(f"db.t{n}", **{"runway_until_ms": None, **facts}) for n, facts in enumerate(sources))

    assert of_consumer(sources=seen, target_lag_s=target_s).freshness(NOW) is freshness


def test_a_look_keeps_what_only_captures_know():
    before = of_consumer()
    look = of_consumer(
        consumer=before.consumer, dag_id=None, task_id=None, settings=(), target_lag_s=None, pending=None, points=()
    )
    seen = replace(look, sources=(of_source(pending=None),))

    after = after_look(before, seen, is_complete=False)

    assert (after.dag_id, after.task_id, after.settings) == ("daily", "capture", before.settings)
    assert (after.target_lag_s, after.pending) == (before.target_lag_s, before.pending)
    assert after.sources[0].pending == before.sources[0].pending
    assert after.points[:-1] == before.points


def test_a_look_at_the_checkpoint_drops_what_is_not_pending_any_more():
    before = of_consumer()
    seen = replace(of_consumer(), pending=None, sources=(of_source(pending=None),))

    after = after_look(before, seen, is_complete=True)

    assert after.pending is None
    assert after.sources[0].pending is None


def test_a_commit_of_what_was_not_seen_leaves_an_unknown_lag():
    """A capture of which no sighting was stored: its end is the position, and what lies after it nobody has counted."""
    before = of_consumer(pending=None, sources=(of_source(pending=None),))
    to = replace(before.sources[0].head, sequence_number=7)

    after = after_commit(before, capture_id="c", positions={Source("db.t", "audit"): to}, now_ms=NOW)

    assert (after.sources[0].committed, after.sources[0].lag) == (to, UNKNOWN_LAG)


def test_a_commit_leaves_what_its_capture_had_counted_beyond_its_end():
    rest = Lag(commits=2, volume=volume(2, 2, 2), oldest_unprocessed_at_ms=NOW - 5)
    seen = of_source()
    assert seen.pending is not None
    before = of_consumer(sources=(replace(seen, pending=replace(seen.pending, rest=rest, runway_until_ms=7)),))
    to = seen.pending.to_inclusive

    after = after_commit(before, capture_id="c", positions={seen.source: to}, now_ms=NOW)

    (source,) = after.sources
    assert (source.committed, source.lag, source.runway_until_ms, source.gap) == (to, rest, 7, None)
    assert (after.pending, source.pending) == (None, None)


def test_what_was_seen_is_unknown_once_a_person_has_moved_the_position():
    """A source that was left alone keeps what was seen of it."""
    moved, left = of_source("db.moved"), of_source("db.left")
    assert moved.committed is not None
    assert left.committed is not None
    before = of_consumer(sources=(moved, left))
    positions = {moved.source: replace(moved.committed, sequence_number=1), left.source: left.committed}

    after = after_change_by_hand(before, positions=positions, is_pending=False, now_ms=NOW)

    assert (after.sources[0].lag, after.sources[0].committed) == (UNKNOWN_LAG, positions[moved.source])
    assert after.sources[1] == replace(left, pending=None)
    assert after.pending is None
