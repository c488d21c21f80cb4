"""Round after round: what a watcher says, and what it keeps quiet about."""

import json
from dataclasses import replace

import pytest

from airflow_provider_ips.core.errors import GapError, InputError
from airflow_provider_ips.core.memory import InMemoryHistory
from airflow_provider_ips.core.settings import CaptureSettings, SourceTable
from airflow_provider_ips.core.watch import SourceKey, Watch, parse_watched, watched_to_text
from airflow_provider_ips.core.watching import Watcher, told_from_json, told_to_json

KEY = SourceKey("db.playback", "main")
OTHER = SourceKey("db.profiles", "main")


@pytest.fixture
def history():
    return InMemoryHistory("db.playback")


def watcher(**parameters):
    return Watcher(Watch.parse(**{"table": "db.playback", **parameters}))


def look(watching, history, start=None, now_ms=0):
    return watching.judge({KEY: history}, {KEY: start}, now_ms=now_ms)


def told(watching, history, start=None):
    """Look, and give the event if there is one: the number of files it tells of."""
    outcome = look(watching, history, start)
    if not outcome.ready:
        return 0
    watching.tell(outcome)
    return outcome.findings[0].sighting.volume.files


def test_a_round_repeats_nothing_that_was_told(history):
    """Event by event, every appended file is told once."""
    watching = watcher()
    history.append(files=2)
    assert [told(watching, history), told(watching, history)] == [2, 0]
    history.compact()
    assert told(watching, history) == 0
    history.append(files=3)
    assert [told(watching, history), told(watching, history)] == [3, 0]


def test_what_is_ready_but_was_not_told_is_said_again(history):
    """Only an event that was given counts as told."""
    history.append()
    watching = watcher()

    assert look(watching, history).ready
    assert look(watching, history).ready


def test_the_watermark_goes_along_with_what_adds_nothing(history):
    """Else a long quiet time would end in a gap, once what was told last has expired."""
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


def test_a_rollback_does_not_take_the_watermark_along(history):
    """Rolling forward again brings back what was told already."""
    watching = watcher()
    kept = history.append()
    last = history.append()
    told(watching, history)
    history.rollback(kept)
    assert told(watching, history) == 0
    history.rollback(last)

    assert told(watching, history) == 0


def test_a_checkpoint_that_moved_makes_the_rest_news(history):
    """A capture with limits commits a part; nobody else would start the run for the rest."""
    watching = watcher(consumer="readers")
    start = history.append()
    middle = history.append(files=2)
    end = history.append(files=3)

    assert told(watching, history, start) == 5
    assert told(watching, history, start) == 0
    assert told(watching, history, middle) == 3
    assert told(watching, history, end) == 0


def test_a_rewound_checkpoint_is_news(history):
    """Somebody wants rows processed again."""
    watching = watcher(consumer="readers")
    start = history.append()
    end = history.append(files=2)
    assert told(watching, history, end) == 0

    assert told(watching, history, start) == 2


class CountingHistory(InMemoryHistory):
    """Notes which manifest lists were opened."""

    def reads_manifests(self, snapshot_id):
        opened.append(snapshot_id)
        return super().reads_manifests(snapshot_id)


opened: list[int] = []


def test_waiting_for_a_threshold_reads_the_history_once():
    """Age is asked anew with every round; manifests are not."""
    history = CountingHistory("db.playback")
    watching = watcher(min_files=100, or_after=60)
    history.append()
    opened.clear()

    assert not look(watching, history, now_ms=1_000).ready
    assert set(opened) == {history.head_id}  # asked for twice; a table keeps the list that it has just read
    opened.clear()
    assert [look(watching, history, now_ms=now).ready for now in (60_000, 61_000)] == [False, True]
    assert opened == []


def test_a_problem_is_told_once_per_head(history):
    """Again and again it would start run after run that fails alike."""
    watching = watcher(consumer="readers")
    stranger = replace(history.append(), table_uuid="another")

    outcome = look(watching, history, stranger)
    assert isinstance(outcome.error, GapError)
    watching.tell(outcome)
    assert look(watching, history, stranger).error is None
    history.append()
    assert told(watching, history, stranger) == 1


def test_one_table_s_problem_is_not_another_s(history):
    """With require="any" rows elsewhere still let go."""
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
def test_all_means_those_that_could_not_be_loaded_too(history, require, expected, absent):
    """A table out of reach, or not there yet, is not ready."""
    history.append()
    watching = watcher(table=["db.playback", "db.profiles"], require=require)

    assert look(watching, history).ready is expected if not absent else True
    assert watching.judge({KEY: history, **absent}, {}, now_ms=0).ready is expected


def test_what_is_not_ready_is_not_told_with_the_rest(history):
    """A table below its threshold keeps gathering."""
    other = InMemoryHistory("db.profiles")
    history.append(files=5)
    other.append(files=1)
    watching = watcher(table=["db.playback", "db.profiles"], min_files=2)
    both = {KEY: history, OTHER: other}

    watching.tell(watching.judge(both, {}, now_ms=0))
    other.append(files=1)
    outcome = watching.judge(both, {}, now_ms=0)

    assert [finding.readiness.ready for finding in outcome.findings] == [False, True]
    assert outcome.findings[1].sighting.volume.files == 2


def test_a_watermark_survives_being_stored(history):
    """As JSON, with names as values only: Airflow masks what stands under keys that look like secrets."""
    history.name = "db.secret_tokens"
    watching = watcher(table="db.secret_tokens")
    history.append()
    key = SourceKey("db.secret_tokens", "main")
    watching.tell(watching.judge({key: history}, {}, now_ms=0))

    text = json.dumps(told_to_json(watching.told))

    assert told_from_json(json.loads(text)) == watching.told
    assert '"db.secret_tokens":' not in text


@pytest.mark.parametrize("raw", [None, [], "{}", {"schema_version": 2, "tables": []}, {"schema_version": 1}])
def test_a_watermark_that_is_none_is_refused(raw):
    """By errors that the keeper of the store expects."""
    with pytest.raises((KeyError, TypeError, ValueError)):
        told_from_json(raw)


@pytest.mark.parametrize(
    "source",
    [
        SourceTable("db.playback"),
        SourceTable("db.playback", branch="audit"),
        SourceTable("db.playback", key="plays", on_other_operation="skip", range_columns=("day",)),
    ],
)
def test_a_watched_source_survives_being_written_as_text(source):
    """A trigger's arguments are stored in Airflow's database; a source's key for XComs is of no use there."""
    (again,) = parse_watched([watched_to_text(source)])

    assert (again.table, again.branch) == (source.table, source.branch)
    assert again.settings(CaptureSettings()) == source.settings(CaptureSettings())


def test_a_source_may_be_written_as_a_dict():
    """What comes out of an XCom or a template is made of these."""
    assert parse_watched({"table": "db.playback", "branch": "audit"}) == (SourceTable("db.playback", branch="audit"),)


@pytest.mark.parametrize("value", [None, 7, {"branch": "audit"}, ["db.playback", None]])
def test_what_is_no_table_is_refused(value):
    """Not with an AttributeError from somewhere inside."""
    with pytest.raises(InputError):
        parse_watched(value)
