"""The page *Incremental*, requested from Airflow's API server as by a browser: rows, states, and who sees them."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from airflow.models.variable import Variable

from airflow_provider_ips import IpCaptureOperator, ips_watch
from airflow_provider_ips.core.checkpoint import manual_changes
from airflow_provider_ips.core.checkpoint.document import Checkpoint
from airflow_provider_ips.core.checkpoint.entries import (
    CommittedCapture,
    PendingCapture,
    SourcePosition,
    SourceRange,
)
from airflow_provider_ips.core.identifiers import Source, variable_key
from airflow_provider_ips.core.positions import Position, RunIdentity
from airflow_provider_ips.core.record import Kind, Volume
from airflow_provider_ips.core.sightings.consumer_sighting import (
    ConsumerSighting,
    Lag,
    Point,
    SeenBy,
    SourceSighting,
    consumer_sighting_key,
)
from tests.airflow.per_dag_rights import airflow_app, client, counted_queries
from tests.kit.airflow import sync
from tests.kit.people import remove
from tests.kit.pipelines import Job, checkpoint_of, default_store, for_each, incremental, left_running
from tests.kit.tables import append, create

__all__ = ["airflow_app", "client"]

pytestmark = pytest.mark.needs_airflow_3_3("checkpoints are in Variables")

ATTACK = '<script>alert("x")</script>'
FIRST_DAY = datetime(2027, 3, 1, tzinfo=UTC)  # no other test of this folder has runs then


def text_of(answer):
    """What a person reads, without tags."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", answer.text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def row_of(answer, dag_id):
    """The row of a consumer, by its DAG."""
    rows = re.findall(r"<tr data-state.*?</tr>", answer.text, flags=re.DOTALL)
    found = [" ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in rows if f">{dag_id}<" in row]
    return found[0] if found else None


def position(number):
    return Position(table_uuid="u", snapshot_id=10**18 + number, sequence_number=number, committed_at_ms=number)


def document(consumer, *, dag_id=None, commits=3, pending=None):
    """A checkpoint as a capture of one table leaves it."""
    run = RunIdentity(dag_id=dag_id or consumer.rpartition(".")[0], run_id="r", map_index=-1, run_after="t")
    taken = [
        SourceRange(
            source=Source("db.t"),
            kind=Kind.RANGE,
            from_exclusive=position(n),
            to_inclusive=position(n + 1),
            icdc_table=None,
        )
        for n in range(commits)
    ]
    history = [
        CommittedCapture(capture_id=f"{consumer}{n}", run=run, ranges=(each,), committed_at_ms=n)
        for n, each in enumerate(taken)
    ]
    return Checkpoint(
        consumer=consumer,
        revision=1,
        positions=(SourcePosition(source=Source("db.t"), position=position(commits)),),
        pending=pending,
        history=tuple(history),
    )


def store(checkpoint):
    Variable.set(variable_key(checkpoint.consumer), checkpoint.to_text())


def pause(dag_id, *, paused=True):
    """Turn the switch of a DAG."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=paused))


@pytest.fixture
def story(lake, run_dag):
    """DAGs over tables with rows: ``story("name")`` makes one, ``story.run(dag)`` runs it."""

    class Story:
        job = Job(lake)
        days = 0

        def __call__(self, name, **options):
            append(create(lake, f"db.{name}"), [1, 2, 3])
            dag = incremental(name, f"db.{name}", self.job, **options)
            sync(dag)
            pause(name, paused=False)
            return dag

        def run(self, dag, **options):
            self.days += 1
            return run_dag(dag, at=FIRST_DAY + timedelta(days=self.days), **options)

        def gain(self, dag):
            append(lake.load_table(f"db.{dag.dag_id}"), [4, 5])

    return Story()


def test_each_consumer_has_a_row_with_its_state(client, story, lake):
    idle, failed, green = story("pages_idle"), story("pages_failed"), story("pages_green")
    story("pages_fresh")
    story.run(idle)
    story.run(green)
    story.job.fails = True
    story.run(failed)
    story.gain(green)
    without_commit = story.run(green)
    story.job.fails = False
    end(without_commit, "success")
    append(create(lake, "db.lonely"), [1])
    story.run(alone("pages_lonely", "db.lonely"))

    answer = client("/ips/")

    assert answer.status_code == 200
    assert row_of(answer, "pages_idle").startswith("pages_idle capture idle db.pages_idle ")
    assert "failed and uncommitted manual__" in row_of(answer, "pages_failed")
    assert "green without commit manual__" in row_of(answer, "pages_green")
    assert "never ran db.pages_fresh not seen yet none yet" in row_of(answer, "pages_fresh")
    assert "no commit in its DAG" in row_of(answer, "pages_lonely")


def test_a_refresh_that_failed_is_shown_though_no_capture_is_pending(client, story):
    """Its checkpoint looks as after a commit, and every other run of the consumer is refused."""
    dag = story("pages_refresh")
    story.run(dag)
    story.job.fails = True
    story.run(dag, conf={"ips_run": "full"})
    story.job.fails = False
    assert checkpoint_of("pages_refresh.capture").pending is None

    assert "pages_refresh capture refresh failed db.pages_refresh" in row_of(client("/ips/"), "pages_refresh")
    assert "trigger another full refresh" in text_of(client(consumer_page("pages_refresh")))

    again = incremental("pages_refresh", "db.pages_refresh", story.job)
    assert story.run(again, conf={"ips_run": "full"}).states["commit"] == "success"
    assert "pages_refresh capture idle" in row_of(client("/ips/"), "pages_refresh")


def alone(dag_id, source):
    """A capture that nothing commits."""
    from airflow.sdk import DAG

    with DAG(dag_id, schedule=None) as dag:
        IpCaptureOperator(task_id="capture", source_tables=source, iceberg_conn_id="lake")
    sync(dag)
    return dag


def end(ran, state):
    """Mark a run by hand, as people do."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.id == ran.dag_run.id).values(state=state))


def test_a_capture_that_fails_is_not_idle(client, story, lake):
    """Its checkpoint says nothing of it: at night, a consumer whose every run fails would look well."""
    dag = story("pages_refused")
    story.run(dag)
    lake.load_table("db.pages_refused").delete("id = 1")

    failed = story.run(dag)

    assert failed.states["capture"] == "failed"
    row = row_of(client("/ips/"), "pages_refused")
    assert row.startswith(f"pages_refused capture capture failed {failed.dag_run.run_id} db.pages_refused")
    page = client(consumer_page("pages_refused"))
    assert "the error says what to do" in text_of(page)
    assert f"/dags/pages_refused/runs/{quote(failed.dag_run.run_id, safe='')}/tasks/capture" in page.text

    lenient = incremental("pages_refused", "db.pages_refused", story.job, capture={"on_other_operation": "skip"})
    story.run(lenient)
    assert "pages_refused capture idle" in row_of(client("/ips/"), "pages_refused")


def test_a_first_run_that_fails_is_not_one_that_never_ran(client, story, lake):
    dag = story("pages_gone")
    lake.drop_table("db.pages_gone")
    story.run(dag)
    assert "capture failed" in row_of(client("/ips/"), "pages_gone")


def test_a_run_at_work_and_a_deleted_one_are_told_apart(client, story):
    dag = story("pages_busy")
    story.job.fails = True
    ran = story.run(dag)

    with left_running(ran):
        assert "running" in row_of(client("/ips/"), "pages_busy")
    remove(ran)

    assert "run deleted" in row_of(client("/ips/"), "pages_busy")


def test_a_checkpoint_that_a_person_has_moved_is_no_idle_one_until_the_next_commit(client, story):
    dag = story("pages_by_hand")
    story.run(dag)
    story.gain(dag)
    story.run(dag)
    before = checkpoint_of("pages_by_hand.capture")
    moved = manual_changes.rewind(before, capture_id=before.history[0].capture_id)
    by_kim = manual_changes.with_intervention(moved, who="kim", verb="rewind", now_ms=2_000_000_000_000)
    default_store().write(by_kim, expected_revision=before.revision)

    row, page = row_of(client("/ips/"), "pages_by_hand"), text_of(client(consumer_page("pages_by_hand")))

    assert "changed by hand" in row
    assert "rewind by kim" in row
    assert "Rewind by kim, 2033-05-18 03:33:20 UTC" in page
    assert "Trigger the DAG, or wait for its next run" in page


def test_a_paused_dag_is_said_to_be_paused(client, story):
    story("pages_paused")
    pause("pages_paused")

    assert "never ran paused" in row_of(client("/ips/"), "pages_paused")


def test_each_instance_of_a_mapped_capture_has_a_row(client, lake, run_dag):
    for name in ("db.a", "db.b"):
        append(create(lake, name), [1])
    run_dag(for_each("pages_mapped", ["db.a", "db.b"], Job(lake)))

    shown = text_of(client("/ips/dags/pages_mapped"))

    assert "2 consumers" in shown
    assert "pages_mapped.one.capture.db.a" in shown


def test_a_damaged_document_is_a_row_and_not_an_error(client, story):
    dag = story("pages_damaged")
    for text in ("{", '{"consumer": "pages_damaged.capture"}', "[]", '"x"', "null", "[" * 50_000):
        Variable.set(variable_key("pages_damaged.capture"), text)
        answer = client("/ips/")

        assert answer.status_code == 200
        assert "damaged" in text_of(answer)
    story.run(dag)


def test_names_are_shown_as_text(client, story):
    store(document(f"{ATTACK}.capture"))

    answer = client("/ips/")

    assert ATTACK not in answer.text
    assert ATTACK in text_of(answer) or "&lt;script&gt;" in answer.text
    assert answer.text.count("<script") == 1


def test_a_reader_sees_the_consumers_of_permitted_dags_only(client, story):
    """Neither names nor numbers of others, on any page; a consumer that DAGs share is for readers of all."""
    for name in ("pages_mine", "pages_secret"):
        story.run(story(name))
    store(document("pages_shared", dag_id="pages_mine", pending=pending_of("pages_secret")))
    store(document("a_consumer_of_nobody"))
    store(document("pages_deleted.capture", dag_id="pages_deleted"))

    everything = text_of(client("/ips/", role="VIEWER"))
    mine = text_of(client("/ips/", user="only:pages_mine", role="VIEWER"))

    for name in ("pages_mine", "pages_secret", "pages_shared", "a_consumer_of_nobody", "pages_deleted"):
        assert name in everything
        assert (name in mine) is (name == "pages_mine")
    assert client("/ips/dags/pages_secret", user="only:pages_mine", role="VIEWER").status_code == 403


def pending_of(dag_id):
    return PendingCapture(
        capture_id="p",
        run=RunIdentity(dag_id=dag_id, run_id="r", map_index=-1, run_after="t"),
        ranges=(),
        started_at_ms=1,
    )


def test_a_thousand_consumers_take_few_queries(client, run_dag):
    """And parse once: a second look reads no document that stayed the same."""
    for number in range(1000):
        store(document(f"many_{number}.capture", commits=1))

    with counted_queries() as queries:
        answer = client("/ips/")

    assert text_of(answer).count("many_") >= 1000
    assert len(queries) < 50


def test_links_lead_out_of_the_frame_and_know_the_prefix(client, story, serve_below):
    story.run(story("pages_links"))
    serve_below("/team/airflow")

    answer = client(consumer_page("pages_links"))

    assert '<a target="_top" href="/team/airflow/dags/pages_links">' in answer.text
    assert '<a target="_top" href="/team/airflow/dags/pages_links/tasks/capture">' in answer.text
    assert 'href="/team/airflow/ips/"' in answer.text


def consumer_page(dag_id, consumer=None):
    from urllib.parse import urlencode

    return f"/ips/consumers/{dag_id}?" + urlencode({"consumer": consumer or f"{dag_id}.capture"})


def captures_in(answer):
    """The words of the listed captures, newest first."""
    listed = answer.text.partition("Captures</h2>")[2].partition("</table>")[0]
    return re.findall(r'<span class="badge [a-z]+">([^<]+)</span>', listed)


def test_a_consumer_is_shown_with_its_captures_and_settings(client, story):
    dag = story("pages_one")
    story.run(dag)
    story.gain(dag)
    ran = story.run(dag)

    answer = client(consumer_page("pages_one"))
    shown = text_of(answer)

    assert answer.status_code == 200
    assert "idle Everything that was captured is committed. What to do now: Nothing to do." in shown
    assert captures_in(answer) == ["committed", "committed"]
    assert str(ran.xcom("capture")["sources"][0]["to"]["snapshot_id"]) in shown
    assert "iceberg_conn_id lake" in shown
    assert answer.text.count('<rect class="fill"') == 2
    assert f'href="/ips/captures/pages_one/{ran.dag_run.run_id}/capture"'.replace(":", "%3A").replace("+", "%2B") in (
        answer.text
    )


def test_what_a_branch_holds_is_shown_as_it_was_seen(client, story, run_dag):
    """With the end of its lease; before anybody has looked only since when."""
    story.run(story("pages_held", capture={"capture_mode": "BRANCH"}))
    unseen = text_of(client(consumer_page("pages_held")))
    run_dag(ips_watch(schedule=None, iceberg_conn_id="lake"))
    shown = text_of(client(consumer_page("pages_held")))

    assert "db.pages_held.branch_ips_db_pages_held_" in unseen
    assert "lease until" not in unseen
    assert "captured by the newest commit; lease until" in shown
    assert "0 B that nothing else holds" in shown


def test_a_superseded_capture_and_the_one_that_covers_it_are_linked(client, story):
    dag = story("pages_twice")
    story.job.fails = True
    story.run(dag)
    story.job.fails = False
    story.gain(dag)
    story.run(dag)

    answer = client(consumer_page("pages_twice"))

    assert captures_in(answer) == ["committed", "superseded"]
    assert "covers manual__" in text_of(answer)
    assert "superseded by manual__" in text_of(answer)


def test_what_was_rewound_or_given_up_is_said_to_be_after_the_fact(client, story):
    """A commit that a person has undone is not a commit any more."""
    dag = story("pages_undone")
    story.run(dag)
    story.gain(dag)
    second = story.run(dag)
    by_hand("pages_undone.capture", lambda before: manual_changes.rewind(before, capture_id=second.xcom("capture_id")))
    rewound = client(consumer_page("pages_undone"))
    story.job.fails = True
    story.run(dag)
    failed = client(consumer_page("pages_undone"))
    by_hand("pages_undone.capture", manual_changes.abandon)
    given_up = client(consumer_page("pages_undone"))

    assert captures_in(rewound) == ["rewound", "committed"]
    assert captures_in(failed)[0] == "not committed"
    assert captures_in(given_up) == ["given up", "rewound", "committed"]
    by_hand("pages_undone.capture", lambda before: manual_changes.abandon(before, wrote_nothing=True), verb="abandon")
    assert captures_in(client(consumer_page("pages_undone"))) == ["given up", "rewound", "committed"]
    assert "Changed by hand" in text_of(given_up)
    assert "tester by hand" in text_of(given_up)


def by_hand(consumer, change, verb="by hand"):
    """Change a checkpoint as a command does."""
    before = checkpoint_of(consumer)
    after = manual_changes.with_intervention(change(before), who="tester", verb=verb, now_ms=1)
    default_store().write(after, expected_revision=before.revision)


def test_a_dry_run_is_listed_as_one(client, story):
    dag = story("pages_dry")
    story.run(dag)
    story.gain(dag)
    story.run(dag, conf={"ips_dry_run": True})

    assert captures_in(client(consumer_page("pages_dry"))) == ["dry run", "committed"]


def test_captures_whose_xcoms_are_deleted_are_listed_from_the_checkpoint(client, story):
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    story.run(story("pages_forgotten"))
    with create_session() as session:
        session.execute(delete(XComModel).where(XComModel.dag_id == "pages_forgotten"))

    assert captures_in(client(consumer_page("pages_forgotten"))) == ["committed"]


def test_the_page_of_a_consumer_is_for_readers_of_all_its_dags(client, story):
    story.run(story("pages_half"))
    story("pages_other_half")
    store(document("pages_joint", dag_id="pages_half", pending=pending_of("pages_other_half")))
    page = consumer_page("pages_half", "pages_joint")

    assert client(page, role="VIEWER").status_code == 200
    hidden = client(page, user="only:pages_half", role="VIEWER")
    assert hidden.status_code == 404
    assert "pages_other_half" not in hidden.text


@pytest.mark.parametrize("consumer", ["nobody", ATTACK])
def test_an_unknown_consumer_has_a_page_that_says_so(client, story, consumer):
    story("pages_known")

    answer = client(consumer_page("pages_known", consumer))

    assert answer.status_code == 404
    assert "There is no consumer" in text_of(answer)
    assert ATTACK not in answer.text


def test_a_damaged_document_has_a_page(client, story):
    story("pages_broken")
    Variable.set(variable_key("pages_broken.capture"), '{"consumer": "pages_broken.capture"}')

    answer = client(consumer_page("pages_broken"))

    assert answer.status_code == 200
    assert "damaged The checkpoint document cannot be read" in text_of(answer)


def see(consumer, *, seen_s_ago=60, target_lag_s=None, waited_s=None, runway_s=None, gap=None, committed=None):
    """Write down what somebody saw of the only source of a consumer."""
    now = int(datetime.now(tz=UTC).timestamp() * 1000)
    checkpoint = checkpoint_of(consumer)
    ((source, at),) = [(each.source, each.position) for each in checkpoint.positions]
    waits = Lag(
        commits=0 if waited_s is None else 3,
        volume=Volume(files=3, records=0 if waited_s is None else 1234, size_bytes=5 * 2**20),
        oldest_unprocessed_at_ms=None if waited_s is None else now - waited_s * 1000,
    )
    seen = SourceSighting(
        source=source,
        seen_at_ms=now - seen_s_ago * 1000,
        seen_by=SeenBy.WATCH,
        head=at,
        table=Volume(files=9, records=9, size_bytes=9),
        committed=committed or at,
        lag=waits,
        runway_until_ms=None if runway_s is None else now + runway_s * 1000,
        gap=gap,
    )
    points = [Point(now - n * 1000, n, 1, captured_bytes=2**20, table_bytes=3 * 2**20) for n in (3, 2, 1)]
    sighting = ConsumerSighting(
        consumer=consumer,
        dag_id=None,
        task_id=None,
        iceberg_conn_id="lake",
        seen_at_ms=seen.seen_at_ms,
        seen_by=SeenBy.WATCH,
        sources=(seen,),
        target_lag_s=target_lag_s,
        points=tuple(points),
    )
    Variable.set(sighting.key, sighting.to_text())


def test_lag_target_runway_and_savings_are_shown_as_they_were_seen(client, story):
    story.run(story("seen_lag"))
    see("seen_lag.capture", target_lag_s=3600, waited_s=7200, runway_s=3 * 86_400)

    row = row_of(client("/ips/"), "seen_lag")
    page = text_of(client(consumer_page("seen_lag")))

    assert "2 h target missed 1 h 3 commits, 1,234 rows, 5.0 MiB seen 1 min ago" in row
    assert "2 d 23 h" in row
    assert "6.0 MiB" in row
    assert "It misses its target" in page
    assert "As it was seen, at most" in page


def test_a_consumer_without_lag_keeps_its_target(client, story):
    story.run(story("seen_kept"))
    see("seen_kept.capture", target_lag_s=3600)

    assert "none target 1 h seen 1 min ago" in row_of(client("/ips/"), "seen_kept")


@pytest.mark.parametrize(
    ("seen", "word"),
    [({"gap": "snapshots 1 to 3 have expired"}, "gap"), ({"waited_s": 7200, "runway_s": 3600}, "stranded soon")],
)
def test_what_expiry_removes_or_soon_will_is_a_state(client, story, seen, word):
    dag_id = f"seen_{word.replace(' ', '_')}"
    story.run(story(dag_id))
    see(f"{dag_id}.capture", **seen)

    assert f"capture {word} db.{dag_id}" in row_of(client("/ips/"), dag_id)
    if "gap" in seen:
        assert seen["gap"] in text_of(client(consumer_page(dag_id)))


def test_what_was_seen_before_the_checkpoint_moved_is_not_taken_for_its_lag(client, story):
    story.run(story("seen_before"))
    see("seen_before.capture", waited_s=7200, committed=position(1))

    assert "not seen since it moved" in row_of(client("/ips/"), "seen_before")


def test_a_damaged_sighting_is_as_good_as_none(client, story):
    story.run(story("seen_damaged"))
    for text in ("{", "[]", '{"schema_version": 1}', "[" * 50_000):
        Variable.set(consumer_sighting_key("seen_damaged.capture"), text)

        assert "not seen yet" in row_of(client("/ips/"), "seen_damaged")


def test_damage_that_only_the_page_of_a_consumer_reads_leaves_it_a_page(client, story):
    """The overview reads the newest captures among the points, so it does not see an old point that is damaged."""
    story.run(story("seen_old"))
    see("seen_old.capture")
    key = consumer_sighting_key("seen_old.capture")
    stored = json.loads(Variable.get(key))
    Variable.set(key, json.dumps({**stored, "points": [[-1, None, None, None, None], *stored["points"]]}))

    assert "seen_old" in row_of(client("/ips/"), "seen_old")
    assert client(consumer_page("seen_old")).status_code == 200


@pytest.mark.parametrize("commits", [3, 150])
def test_an_older_commit_of_another_dag_counts_for_who_sees_a_consumer(client, story, commits):
    """However long the history is: a long one is stored packed."""
    for name in ("pages_now", "pages_before"):
        story(name)
    before = document("pages_handed_over", dag_id="pages_before", commits=commits)
    run = replace(before.history[-1].run, dag_id="pages_now")
    now = replace(before, history=(*before.history[:-1], replace(before.history[-1], run=run)))
    store(now)
    page = consumer_page("pages_now", "pages_handed_over")

    assert "pages_handed_over" not in text_of(client("/ips/", user="only:pages_now", role="VIEWER"))
    assert client(page, user="only:pages_now", role="VIEWER").status_code == 404
    assert captures_in(client(page, role="VIEWER")) == ["nothing to process"] * commits


@pytest.mark.parametrize("text", ["[" * 50_000, "9" * 10_000, "{", '"\\ud800"', "NaN", "", '[["c"]]', '{"a": 1}'])
def test_xcoms_with_any_text_in_them_are_answered_with_a_page(client, story, text):
    """They are whatever a task, or a person who may edit XComs, has written."""
    from airflow.utils.session import create_session
    from sqlalchemy import text as sql

    story.run(story("pages_hostile"))
    for key in ("capture_id", "commit", "capture"):
        with create_session() as session:
            session.execute(
                sql("UPDATE xcom SET value = :text WHERE dag_id = 'pages_hostile' AND key = :key"),
                {"text": text, "key": key},
            )
        assert client(consumer_page("pages_hostile")).status_code == 200
        assert client("/ips/stages").status_code == 200


def test_a_record_with_odd_values_is_answered_with_a_page(client, story):
    """A time in no calendar, a number that no chart has room for, a list where a name is expected."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    ran = story.run(story("pages_odd"))
    odd: list[tuple[str, Any]] = [
        ("to", {"committed_at_ms": 2**62}),
        ("bytes", 10**4000),
        ("bytes", -1),
        ("table", {"bytes": 0, "files": 0, "records": 0}),
        ("source", ATTACK),
        ("chunk", []),
    ]
    for change in odd:
        record = ran.xcom("capture")
        source = record["sources"][0]
        record["sources"] = [
            {**source, change[0]: {**source[change[0]], **change[1]} if isinstance(change[1], dict) else change[1]}
        ]
        with create_session() as session:
            mine = (XComModel.dag_id == "pages_odd", XComModel.key == "capture")
            session.execute(update(XComModel).where(*mine).values(value=record))

        answer = client(consumer_page("pages_odd"))

        assert (change, answer.status_code) == (change, 200)
        assert ATTACK not in answer.text
