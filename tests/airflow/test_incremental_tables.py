"""The pages of tables and stages: who has processed which commit, and which DAG feeds which."""

import json
import re
from html import unescape
from urllib.parse import urlencode

import pytest
from airflow.models.variable import Variable
from airflow.models.xcom import XComModel

from airflow_provider_ips import iceberg_asset
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.core.positions import Position
from airflow_provider_ips.core.record import Volume
from airflow_provider_ips.core.sightings.consumer_sighting import SeenBy
from airflow_provider_ips.core.sightings.table_sighting import (
    Commit,
    Effect,
    TableSighting,
    see_table,
    table_sighting_key,
)
from airflow_provider_ips.iceberg.source.iceberg_source import open_source
from airflow_provider_ips.ui.stored_runs import StoredCapture
from airflow_provider_ips.ui.tables import chunk_progress
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
    from airflow_provider_ips.ui.tables import _reaches

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
    return [_reaches(committed, commit, sighting, order) for commit in commits]


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


def chunk(number, *, outcome=None, run_state="running", task_id="first"):
    return StoredCapture(
        run_id="r",
        task_id=task_id,
        map_index=number,
        value={"requested": {"chunk": {"number": number, "of": 3, "label": "x"}}},
        dag_id="d",
        run_state=run_state,
        run_ended_at=None,
        outcome=outcome,
    )


def test_a_backfill_says_which_chunk_has_reached_which_stage():
    chunks = [chunk(1, outcome="detached"), chunk(2), chunk(1, task_id="second")]

    first, second = chunk_progress(chunks)
    (failed,) = chunk_progress([chunk(1, outcome="detached", run_state="failed"), chunk(2, run_state="failed")])

    assert (first.task_id, first.of, first.done, first.at_work, first.failed) == ("first", 3, (1,), (2,), ())
    assert (second.task_id, second.done, second.at_work) == ("second", (), (1,))
    assert (failed.done, failed.failed, failed.done_at) == ((1,), (2,), None)


@pytest.mark.parametrize("value", [None, [], {}, {"requested": []}, {"requested": {"chunk": {"number": "1", "of": 2}}}])
def test_a_record_that_is_none_is_no_chunk(value):
    from dataclasses import replace

    assert chunk_progress([replace(chunk(1), value=value)]) == []


def test_chunks_are_found_among_the_records(client, story):
    from airflow.utils.session import create_session
    from sqlalchemy import update

    ran = story.run(story("chunks_found"))
    record = ran.xcom("capture")
    record["requested"]["chunk"] = {"number": 2, "of": 5, "label": "x"}
    with create_session() as session:
        mine = (XComModel.dag_id == "chunks_found", XComModel.key == "capture")
        session.execute(update(XComModel).where(*mine).values(value=json.loads(json.dumps(record))))

    assert "chunks_found manual__2027" in text_of(client("/ips/stages"))
    assert "1 of 5 committed" in text_of(client("/ips/stages"))
