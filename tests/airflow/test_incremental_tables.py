"""The pages of tables and stages: who has processed which commit, and which DAG feeds which."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from urllib.parse import urlencode

import pytest
from airflow.models.variable import Variable
from airflow.models.xcom import XComModel

from airflow_provider_ips import iceberg_asset
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import CommittedCapture, PendingCapture, SourceRange
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.sightings.consumer_sighting import UNKNOWN_LAG, ConsumerSighting, SeenBy, SourceSighting
from airflow_provider_ips.core.sightings.table_sighting import (
    Commit,
    Effect,
    TableSighting,
    see_table,
    table_sighting_key,
)
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from airflow_provider_ips.ui.consumers import Consumer
from airflow_provider_ips.ui.deployment import CaptureTask, Document
from airflow_provider_ips.ui.stages import find_backfills, find_edges
from airflow_provider_ips.ui.states import STATES
from airflow_provider_ips.ui.stored_runs import StoredCapture
from airflow_provider_ips.ui.tables import SeenTable
from tests.airflow.per_dag_rights import airflow_app, client
from tests.airflow.test_incremental_pages import story, text_of

__all__ = ["airflow_app", "client", "story"]

pytestmark = pytest.mark.needs_airflow_3_3("checkpoints are in Variables")


def look_at(lake, table):
    """Write down the commits of a table, as everyone does who looks."""
    seen = see_table(
        open_source(lake, Source(table)), iceberg_conn_id="lake", seen_at_ms=1_790_000_000_000, seen_by=SeenBy.WATCH
    )
    Variable.set(seen.key, seen.to_text())


def table_page(dag_id):
    return f"/ips/tables/{dag_id}?" + urlencode({"table": f"db.{dag_id}"})


def marks(answer):
    """What is said of each commit for each consumer, newest first."""
    rows = re.findall(r"<tr>(.*?)</tr>", answer.text.partition("<tbody>")[2], flags=re.DOTALL)
    return [re.findall(r'<span class="(?:badge \w+|dim)">([^<]+)</span>', row.rpartition("</code>")[2]) for row in rows]


def test_each_commit_says_who_has_processed_it(client, story, lake):
    dag = story("commits_of")
    story.run(dag)
    story.gain(dag)
    story.job.fails = True
    story.run(dag)
    story.gain(dag)
    look_at(lake, "db.commits_of")

    answer = client(table_page("commits_of"))

    assert answer.status_code == 200
    assert marks(answer) == [["waits"], ["captured"], ["processed"]]
    assert "adds rows +2 +1" in text_of(answer)
    assert "by ips_watch" in text_of(answer)


def test_a_table_that_was_not_looked_at_says_so(client, story, lake):
    story("commits_unseen")

    assert "Its commits were not seen yet" in text_of(client(table_page("commits_unseen")))


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 1}'])
def test_a_damaged_sighting_of_a_table_is_as_good_as_none(client, story, text):
    story.run(story("commits_damaged"))
    Variable.set(table_sighting_key("lake", Source("db.commits_damaged")), text)

    assert "Its commits were not seen yet" in text_of(client(table_page("commits_damaged")))


def test_a_later_look_that_found_the_same_head_counts_as_seen(client, story, lake):
    """A table is written down again for a new head only; whoever looks writes down its consumers each time."""
    dag = story("seen_again")
    story.run(dag)
    look_at(lake, "db.seen_again")  # years ago, in the terms of the test's clock

    assert "by capture: 3 rows" in text_of(client(table_page("seen_again")))


def test_a_table_is_there_for_readers_of_its_consumers_only(client, story, lake):
    for name in ("commits_mine", "commits_secret"):
        story.run(story(name))
        look_at(lake, f"db.{name}")
    mine = {"user": "only:commits_mine", "role": "VIEWER"}

    listed = text_of(client("/ips/tables", **mine))
    through_mine = client("/ips/tables/commits_mine?table=db.commits_secret", **mine)

    assert "db.commits_mine" in listed
    assert "commits_secret" not in listed
    assert client(table_page("commits_mine"), **mine).status_code == 200
    assert client(table_page("commits_secret"), **mine).status_code == 403
    assert through_mine.status_code == 404
    assert "commits_secret" not in text_of(client("/ips/stages", **mine))


def lines_of(committed, *commits):
    """Decide for commits, newest first, whether a position at one has processed them."""
    from airflow_provider_ips.ui.tables import reaches

    sighting = TableSighting(
        iceberg_conn_id="lake",
        source=Source("db.t"),
        table_uuid="u",
        seen_at_ms=1,
        seen_by=SeenBy.WATCH,
        table=Volume(files=1, records=1, size_bytes=1),
        commits=tuple(commits),
        has_more=True,
    )
    order = {commit.snapshot_id: index for index, commit in enumerate(commits)}
    return [reaches(committed, commit, sighting, order) for commit in commits]


def commit(snapshot_id, number):
    return Commit(
        snapshot_id=snapshot_id,
        parent_id=None,
        committed_at_ms=1,
        sequence_number=number,
        operation="append",
        effect=Effect.APPEND,
        added_files=1,
        removed_files=0,
        added_records=1,
        removed_records=0,
    )


@pytest.mark.parametrize(
    ("at", "processed"),
    [
        (Position(table_uuid="u", snapshot_id=2, sequence_number=2, committed_at_ms=1), [False, True, True]),
        (Position(table_uuid="u", snapshot_id=9, sequence_number=2, committed_at_ms=1), [False, None, None]),
        (Position(table_uuid="u", snapshot_id=9, sequence_number=0, committed_at_ms=1), [None, None, None]),
        (Position(table_uuid="other", snapshot_id=2, sequence_number=2, committed_at_ms=1), [None, None, None]),
        (Position(table_uuid="u", snapshot_id=None, sequence_number=0, committed_at_ms=1), [False, False, False]),
        (None, [False, False, False]),
    ],
)
def test_what_a_position_has_processed_is_known_or_said_not_to_be(at, processed):
    """Format version 1 has no sequence numbers, and another table of the same name has another history.

    Snapshot 9 with the number of 2 was rolled back: whether 1 and 2 were processed before it, nothing here shows.
    """
    assert lines_of(at, commit(3, 3), commit(2, 2), commit(1, 1)) == processed


def test_dags_that_feed_each_other_are_drawn_with_the_lag_between_them(client, story, lake):
    story("stage_two")
    story("stage_one", commit={"target_assets": iceberg_asset("db.stage_two", iceberg_conn_id="lake")})

    answer = client("/ips/stages", user="only:stage_one,stage_two")  # other tests have stages, too
    drawing = answer.text.partition("<svg")[2].partition("</svg>")[0]
    shown = " ".join(unescape(re.sub(r"<[^>]+>", " ", drawing)).split())

    assert "db.stage_two not seen yet" in shown
    assert "stage_one: never ran" in shown
    assert shown.index("stage_one:") < shown.index("stage_two:")
    assert drawing.count('class="arrow"') == 1


def test_a_circle_of_dags_is_drawn_too(client, story):
    for one, other in (("circle_a", "circle_b"), ("circle_b", "circle_a")):
        story(one, commit={"target_assets": iceberg_asset(f"db.{other}", iceberg_conn_id="lake")})

    answer = client("/ips/stages")

    assert answer.status_code == 200
    assert "circle_a" in text_of(answer)


def chunk(number, *, at=None, run_state="running", task_id="chunk.capture", of=3):
    """The record of a chunk, and when its commit reported that, in seconds."""
    return StoredCapture(
        run_id="r",
        task_id=task_id,
        map_index=number,
        value={"requested": {"chunk": {"number": number, "of": of, "label": f"day {number}"}}},
        dag_id="refill",
        run_state=run_state,
        outcome=None if at is None else "detached",
        committed_at=None if at is None else datetime.fromtimestamp(at, tz=UTC),
    )


def stage(name, source, target, *commits, pending=None, word="idle"):
    """A consumer with its commits: when it committed which snapshot of its source."""

    def taken(snapshot):
        return (
            SourceRange(
                source=Source(source), kind=Kind.RANGE, from_exclusive=None, to_inclusive=at(snapshot), icdc_table=None
            ),
        )

    history = [
        CommittedCapture(capture_id=f"{n}", run=None, committed_at_ms=n * 1000, ranges=taken(snapshot))
        for n, snapshot in commits
    ]
    begun = None
    if pending is not None:
        run = RunIdentity(dag_id=name, run_id="r", map_index=-1, run_after="t")
        begun = PendingCapture(capture_id="p", run=run, started_at_ms=0, ranges=taken(pending))
    checkpoint = Checkpoint(consumer=f"{name}.c", revision=1, history=tuple(history), pending=begun)
    task = CaptureTask(
        dag_id=name,
        task_id="c",
        consumer=f"{name}.c",
        is_mapped=False,
        sources=(Source(source),),
        has_commit=True,
        targets=(Source(target),),
        settings={"iceberg_conn_id": "lake"},
    )
    return Consumer(
        name=f"{name}.c",
        dag_id=name,
        dag_ids=frozenset({name}),
        state=STATES[word],
        task=task,
        document=Document(place="", consumer=f"{name}.c", checkpoint=checkpoint, text=checkpoint.to_text()),
    )


def at(snapshot):
    """Snapshot 20 was committed in second 20."""
    return Position(table_uuid="u", snapshot_id=snapshot, sequence_number=snapshot, committed_at_ms=snapshot * 1000)


def seen_table(label, *snapshots, seen_at):
    """A table as it was seen, by its snapshots, newest first."""
    commits = tuple(change(each, parent) for each, parent in zip(snapshots, (*snapshots[1:], None), strict=True))
    seen = TableSighting(
        iceberg_conn_id="lake",
        source=Source(label),
        table_uuid="u",
        seen_at_ms=seen_at * 1000,
        seen_by=SeenBy.WATCH,
        table=Volume(files=1, records=1, size_bytes=1),
        commits=commits,
        has_more=False,
    )
    return SeenTable(label=label, iceberg_conn_id="lake", consumers=(), sighting=seen)


def change(snapshot, parent):
    return Commit(
        snapshot_id=snapshot,
        parent_id=parent,
        committed_at_ms=snapshot * 1000,
        sequence_number=snapshot,
        operation="overwrite",
        effect=Effect.CHANGE,
        added_files=1,
        removed_files=1,
        added_records=1,
        removed_records=1,
    )


def words(backfill):
    """What is said of each chunk in each stage."""
    return {each.name: [each.steps[number].word for number in backfill.labels] for each in backfill.stages}


def follow(chunks, stages, tables=()):
    refill = stage("refill", "db.raw", "db.daily")
    (found,) = find_backfills(chunks, find_edges([refill, *stages]), tables)
    return found


def test_a_chunk_has_reached_a_stage_once_a_commit_there_covers_what_the_table_had():
    """Chunks were committed at 11, 21 and 31, after the snapshots 10, 20 and 30 of the first target."""
    chunks = [chunk(1, at=11), chunk(2, at=21), chunk(3, at=31)]
    weekly = stage("weekly", "db.daily", "db.weekly", (15, 10), (26, 20))
    yearly = stage("yearly", "db.weekly", "db.yearly", (40, 14))

    found = follow(
        chunks,
        [weekly, yearly],
        [seen_table("db.daily", 30, 20, 10, seen_at=35), seen_table("db.weekly", 25, 14, seen_at=35)],
    )

    assert words(found) == {
        "refill.chunk.capture": ["committed", "committed", "committed"],
        "weekly.c": ["committed", "committed", "waits"],
        "yearly.c": ["committed", "waits", "waits"],
    }
    first, second, third = found.stages
    assert (first.done_at_ms, second.done_at_ms, third.done) == (31_000, None, 1)
    assert [third.steps[1].at_ms, second.steps[2].at_ms] == [40_000, 26_000]
    assert [(node.name, node.column, node.text) for node in found.nodes][-1] == (
        "yearly.c",
        2,
        "1 of 3 committed",
    )


@pytest.mark.parametrize(
    ("captured", "seen_at", "reached"),
    [(20, 22, True), (20, 18, False), (10, 22, False), (21, None, True), (10, None, False)],
)
def test_what_was_not_seen_after_a_chunk_does_not_prove_that_it_was_captured(captured, seen_at, reached):
    """The chunk was committed at 21. Nobody knows whether 20 is the last snapshot of then, unless it was seen later."""
    tables = [] if seen_at is None else [seen_table("db.daily", 20, 10, seen_at=seen_at)]

    found = follow([chunk(1, at=21, of=1)], [stage("weekly", "db.daily", "db.weekly", (30, captured))], tables)

    assert words(found)["weekly.c"] == ["committed" if reached else "waits"]


def test_a_stage_with_its_checkpoint_in_iceberg_is_followed_by_what_was_seen_of_it():
    """When it committed is not known then, and so nothing of the stage after it."""
    look = SourceSighting(
        source=Source("db.daily"),
        seen_at_ms=31_000,
        seen_by=SeenBy.COMMIT,
        head=at(20),
        table=Volume(files=1, records=1, size_bytes=1),
        committed=at(20),
        lag=UNKNOWN_LAG,
    )
    seen = ConsumerSighting(
        consumer="weekly.c",
        dag_id="weekly",
        task_id="c",
        iceberg_conn_id="lake",
        seen_at_ms=31_000,
        seen_by=SeenBy.COMMIT,
        sources=(look,),
    )
    weekly = replace(
        stage("weekly", "db.daily", "db.weekly"), document=Document(place="", consumer="weekly.c"), seen=seen
    )

    found = follow(
        [chunk(1, at=21), chunk(2, at=31)],
        [weekly, stage("yearly", "db.weekly", "db.yearly")],
        [seen_table("db.daily", 30, 20, 10, seen_at=31)],
    )

    assert words(found)["weekly.c"] == ["committed", "waits", "waits"]
    assert words(found)["yearly.c"] == ["unknown", "waits", "waits"]


def test_chunks_on_their_way_are_said_to_be():
    chunks = [chunk(1, at=11), chunk(2)]
    seen = [seen_table("db.daily", 10, seen_at=12)]

    busy = follow(chunks, [stage("weekly", "db.daily", "db.weekly", pending=10, word="running")], seen)
    failed = follow(
        [chunk(1, at=11), chunk(2, run_state="failed")],
        [stage("weekly", "db.daily", "db.weekly", pending=10, word="failed and uncommitted")],
        seen,
    )

    assert words(busy) == {
        "refill.chunk.capture": ["committed", "at work", "waits"],
        "weekly.c": ["at work", "waits", "waits"],
    }
    assert words(failed) == {
        "refill.chunk.capture": ["committed", "not committed", "waits"],
        "weekly.c": ["not committed", "waits", "waits"],
    }


def test_a_chunk_that_was_cleared_counts_as_it_is_now():
    assert words(follow([chunk(1, of=1), chunk(1, at=5, of=1)], [])) == {"refill.chunk.capture": ["at work"]}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"requested": []},
        {"requested": {"chunk": {"number": "1", "of": 2}}},
        {"requested": {"chunk": {"number": 1, "of": 10**9}}},
    ],
)
def test_a_record_that_is_none_is_no_chunk(value):
    assert find_backfills([replace(chunk(1), value=value)], [], []) == []


def test_chunks_are_found_among_the_records(client, story):
    from airflow.utils.session import create_session
    from sqlalchemy import update

    ran = story.run(story("chunks_found"))
    record = ran.xcom("capture")
    record["requested"]["chunk"] = {"number": 2, "of": 5, "label": "x"}
    with create_session() as session:
        mine = (XComModel.dag_id == "chunks_found", XComModel.key == "capture")
        session.execute(update(XComModel).where(*mine).values(value=json.loads(json.dumps(record))))

    page = text_of(client("/ips/stages"))

    assert "of chunks_found, 5 chunks" in page
    assert "not yet: 1 of 5" in page
    assert "2 x committed" in page
