"""Poll after poll: what a watcher reports, and what it does not report again."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_provider_ips.core.errors import GapError, InputError
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.core.watching.monitor import Monitor, ReportedSources
from airflow_provider_ips.core.watching.watch import Watch, parse_watched, watched_to_text
from airflow_provider_ips.testing import InMemoryHistory

KEY = Source("db.playback")
OTHER = Source("db.profiles")
LATE = {"schema_version": 1, "tables": [], "event_at_ms": "noon"}


@pytest.fixture
def history():
    return InMemoryHistory("db.playback")


def watcher(**parameters):
    return Monitor(Watch.parse(**{"table": "db.playback", **parameters}))


def look(watching, history, start=None, now_ms=0):
    return watching.judge({KEY: history}, {KEY: start}, now_ms=now_ms)


def told(watching, history, start=None):
    """Poll, and return the number of files in the event, or 0 without one."""
    outcome = look(watching, history, start)
    if not outcome.ready:
        return 0
    watching.mark_reported(outcome, now_ms=0)
    return outcome.sources[0].backlog.volume.files


def test_nothing_is_reported_twice(history):
    """Over all events, every appended file is reported once."""
    watching = watcher()
    history.append(files=2)
    assert [told(watching, history), told(watching, history)] == [2, 0]
    history.compact()
    assert told(watching, history) == 0
    history.append(files=3)
    assert [told(watching, history), told(watching, history)] == [3, 0]


def test_a_result_without_an_event_is_found_again(history):
    """Only rows of an event count as reported."""
    history.append()
    watching = watcher()

    assert look(watching, history).ready
    assert look(watching, history).ready


def test_the_watermark_follows_snapshots_without_rows(history):
    """Else there would be a gap once the snapshot that was reported last has expired."""
    watching = watcher()
    first = history.append()
    told(watching, history)
    second = history.compact()
    told(watching, history)
    third = history.compact()
    told(watching, history)
    for position in (first, second, third):
        history.append()
        history.expire(position)

    assert told(watching, history) == 3


def test_the_first_rows_of_an_empty_table_are_new_to_who_watched_it(history):
    """Also from "latest" on: that is the empty table. A restart between makes no difference."""
    watching = watcher(initial="latest")
    assert told(watching, history) == 0
    restarted = watcher(initial="latest")
    restarted.reported.update(watching.reported)
    history.append(files=2)

    assert told(watching, history) == told(restarted, history) == 2


def test_the_first_rows_of_a_table_that_is_created_while_it_is_watched_are_new(history):
    """Else a table that is created and filled at once would start no run."""
    watching = watcher(initial="latest")
    assert told_missing(watching) == 0
    history.append(files=2)

    assert [told(watching, history), told(watching, history)] == [2, 0]


def told_missing(watching):
    return int(watching.judge({KEY: None}, {}, now_ms=0).ready)


def test_a_problem_of_one_table_uses_up_no_rows_of_another(history):
    """Both are waited for. The rows of the first are in the event that follows when the other has rows, too."""
    other = InMemoryHistory("db.profiles")
    watching = Monitor(Watch.parse(table=["db.playback", "db.profiles"], require="all"))
    histories = {KEY: history, OTHER: other}
    for each in histories.values():
        each.append()
    watching.mark_reported(watching.judge(histories, {}, now_ms=0), now_ms=0)
    history.append()
    other.remove()
    problem = watching.judge(histories, {}, now_ms=0)
    assert problem.error is not None
    watching.mark_reported(problem, now_ms=0)
    other.append()

    assert watching.judge(histories, {}, now_ms=0).ready


def test_the_watermark_does_not_follow_a_rollback(history):
    """When the table is rolled forward again, its rows are reported already."""
    watching = watcher()
    kept = history.append()
    last = history.append()
    told(watching, history)
    history.rollback(kept)
    assert told(watching, history) == 0
    history.rollback(last)

    assert told(watching, history) == 0


def test_the_rest_is_reported_when_the_checkpoint_has_moved(history):
    """A capture with limits commits a part, and nothing else starts a run for the rest."""
    watching = watcher(consumer="readers")
    start = history.append()
    middle = history.append(files=2)
    end = history.append(files=3)

    assert told(watching, history, start) == 5
    assert told(watching, history, start) == 0
    assert told(watching, history, middle) == 3
    assert told(watching, history, end) == 0


def test_rows_are_reported_again_when_the_checkpoint_was_rewound(history):
    """They are to be processed again."""
    watching = watcher(consumer="readers")
    start = history.append()
    end = history.append(files=2)
    assert told(watching, history, end) == 0

    assert told(watching, history, start) == 2


class CountingHistory(InMemoryHistory):
    """Records which manifest lists are read."""

    def reads_manifests(self, snapshot_id):
        opened.append(snapshot_id)
        return super().reads_manifests(snapshot_id)


opened: list[int] = []


def test_waiting_for_a_threshold_reads_the_history_once():
    """Age is compared in every poll; manifests are not read again."""
    history = CountingHistory("db.playback")
    watching = watcher(min_files=100, or_after=60)
    history.append()
    opened.clear()

    assert not look(watching, history, now_ms=1_000).ready
    assert set(opened) == {history.head_id}  # asked for twice; a table keeps the list that it has just read
    opened.clear()
    assert [look(watching, history, now_ms=now).ready for now in (60_000, 61_000)] == [False, True]
    assert opened == []


def test_an_error_is_reported_once_for_a_head(history):
    """Else every poll would start another run that fails in the same way."""
    watching = watcher(consumer="readers")
    stranger = replace(history.append(), table_uuid="another")

    outcome = look(watching, history, stranger)
    assert isinstance(outcome.error, GapError)
    watching.mark_reported(outcome, now_ms=0)
    assert look(watching, history, stranger).error is None
    history.append()
    assert told(watching, history, stranger) == 1


def test_an_error_of_one_table_does_not_stop_another(history):
    """With require="any" rows of another table are enough."""
    other = InMemoryHistory("db.profiles")
    history.append()
    other.append()
    watching = watcher(table=["db.playback", "db.profiles"])
    stranger = replace(history.append(), table_uuid="another")

    outcome = watching.judge({KEY: history, OTHER: other}, {KEY: stranger, OTHER: None}, now_ms=0)

    assert outcome.ready
    assert isinstance(outcome.error, GapError)


@pytest.mark.parametrize(("require", "expected"), [("any", True), ("all", False)])
@pytest.mark.parametrize("absent", [{}, {OTHER: None}])
def test_all_includes_tables_that_could_not_be_loaded(history, require, expected, absent):
    """A table that does not answer, or does not exist yet, is not ready."""
    history.append()
    watching = watcher(table=["db.playback", "db.profiles"], require=require)

    assert look(watching, history).ready is expected if not absent else True
    assert watching.judge({KEY: history, **absent}, {}, now_ms=0).ready is expected


def test_a_table_that_is_not_ready_is_not_marked_with_the_others(history):
    """Its rows still count towards its threshold."""
    other = InMemoryHistory("db.profiles")
    history.append(files=5)
    other.append(files=1)
    watching = watcher(table=["db.playback", "db.profiles"], min_files=2)
    both = {KEY: history, OTHER: other}

    watching.mark_reported(watching.judge(both, {}, now_ms=0), now_ms=0)
    other.append(files=1)
    outcome = watching.judge(both, {}, now_ms=0)

    assert [finding.readiness.ready for finding in outcome.sources] == [False, True]
    assert outcome.sources[1].backlog.volume.files == 2


def test_events_keep_their_distance_and_lose_nothing(history):
    """What came in between is in the next event; after a restart, too."""
    watching = watcher(min_interval=timedelta(minutes=10))
    minute = 60_000

    def files(now_ms):
        outcome = look(watching, history, now_ms=now_ms)
        if not (outcome.ready and watching.may_report(now_ms)):
            return 0
        watching.mark_reported(outcome, now_ms=now_ms)
        return outcome.sources[0].backlog.volume.files

    history.append(files=1)
    assert files(0) == 1
    history.append(files=2)
    assert files(5 * minute) == 0
    kept = ReportedSources.from_json(ReportedSources(watching.reported, watching.event_at_ms).to_json())
    watching = watcher(min_interval=600)
    watching.reported, watching.event_at_ms = dict(kept.sources), kept.event_at_ms
    history.append(files=3)
    assert [files(10 * minute - 1), files(10 * minute), files(10 * minute)] == [0, 5, 0]


def test_an_event_of_the_future_holds_nothing_up():
    """A clock that was set back by a year would otherwise keep a watcher silent for that long."""
    watching = watcher(min_interval=60)
    watching.event_at_ms = 10**12

    assert watching.may_report(0)
    assert not watching.may_report(10**12 + 59_999)


def test_a_watermark_is_read_from_its_json(history):
    """Names are values only, because Airflow masks values under keys that look like secrets."""
    history.name = "db.secret_tokens"
    watching = watcher(table="db.secret_tokens")
    history.append()
    key = Source("db.secret_tokens")
    watching.mark_reported(watching.judge({key: history}, {}, now_ms=0), now_ms=0)

    text = json.dumps(ReportedSources(watching.reported).to_json())

    assert ReportedSources.from_json(json.loads(text)).sources == watching.reported
    assert '"db.secret_tokens":' not in text


@pytest.mark.parametrize("raw", [None, [], "{}", {"schema_version": 2, "tables": []}, {"schema_version": 1}, LATE])
def test_a_malformed_watermark_is_refused(raw):
    """With errors that its reader catches."""
    with pytest.raises((KeyError, TypeError, ValueError)):
        ReportedSources.from_json(raw)


@pytest.mark.parametrize(
    "source",
    [
        SourceTable("db.playback"),
        SourceTable("db.playback", branch="audit"),
        SourceTable("db.playback", key="plays", on_other_operation="skip", range_columns=("day",)),
    ],
)
def test_a_watched_source_is_read_from_its_text(source):
    """A trigger's arguments are stored in Airflow's database; the XCom key of a source is not needed there."""
    (again,) = parse_watched([watched_to_text(source)])

    assert (again.table, again.branch) == (source.table, source.branch)
    assert again.settings(CaptureSettings()) == source.settings(CaptureSettings())


def test_a_source_may_be_written_as_a_dict():
    """An XCom or a template gives a dict."""
    assert parse_watched({"table": "db.playback", "branch": "audit"}) == (SourceTable("db.playback", branch="audit"),)


@pytest.mark.parametrize("value", [None, 7, {"branch": "audit"}, ["db.playback", None]])
def test_a_value_that_is_not_a_table_is_refused(value):
    """With an InputError, and not an AttributeError."""
    with pytest.raises(InputError):
        parse_watched(value)
