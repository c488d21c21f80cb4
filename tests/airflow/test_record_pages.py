"""The page "Capture record", requested from Airflow's API server as by a browser: who may see it, and what it says."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from itertools import product
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from sqlalchemy import delete, select, update
from sqlalchemy import text as sql

from tests.core.damage import changed, damaged
from tests.kit.pipelines import Job, for_each, incremental
from tests.kit.tables import append, create

IN_VARIABLE = pytest.mark.needs_airflow_3_3("the API server reads checkpoints from Variables only")
STORES = [pytest.param("variable", marks=pytest.mark.needs_airflow_3_3("checkpoints are in Variables")), "iceberg"]

ATTACK = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def airflow_app(airflow_database):
    from airflow.api_fastapi.app import create_app

    return create_app(apps="core")


@pytest.fixture(scope="module")
def api(airflow_app):
    """Ask the API server with all its plugins, as somebody who may read everything unless another role is given."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    client = TestClient(airflow_app, follow_redirects=False)

    def ask(path, *, role="VIEWER"):
        user = SimpleAuthManagerUser(username="reader", role=role)
        headers = {} if role == "nobody" else {"Authorization": f"Bearer {get_auth_manager().generate_jwt(user)}"}
        return client.get(path, headers=headers)

    return ask


@pytest.fixture
def story(lake, run_dag):
    """A DAG over ``db.t``, whose table has rows; ``story.run()`` runs it."""
    table = create(lake, "db.t")
    append(table, [1, 2, 3])

    class Story:
        dag = incremental("recorded", "db.t", Job(lake))

        def run(self, ids=(), **options):
            if ids:
                append(table, list(ids))
            return run_dag(self.dag, **options)

        @property
        def job(self):
            return self.dag.task_dict["work"].python_callable

    return Story()


def page_of(ran, task="capture"):
    return f"/ips/captures/{ran.dag_run.dag_id}/{quote(ran.dag_run.run_id, safe='')}/{task}"


def text_of(answer):
    """What a person reads, without tags."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", answer.text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def links_of(api, ran, task, *, map_index=-1):
    run_id = quote(ran.dag_run.run_id, safe="")
    path = f"/api/v2/dags/{ran.dag_run.dag_id}/dagRuns/{run_id}/taskInstances/{task}/links?map_index={map_index}"
    answer = api(path, role="ADMIN")
    assert answer.status_code == 200, answer.text
    return {name: url for name, url in answer.json()["extra_links"].items() if url}


def store_record(ran, change):
    """Write another record than the capture's over its XCom."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    mine = (XComModel.run_id == ran.dag_run.run_id, XComModel.key == "capture")
    with create_session() as session:
        value = session.scalar(select(XComModel.value).where(*mine))
        record = json.loads(value) if isinstance(value, str) else value
        session.execute(update(XComModel).where(*mine).values(value=change(record)))


def test_a_reader_of_the_dag_sees_what_was_captured_and_its_status(api, story):
    first = text_of(api(page_of(story.run(at=datetime(2026, 10, 1, tzinfo=UTC)))))
    ran = story.run([4, 5], at=datetime(2026, 10, 2, tzinfo=UTC))

    answer = api(page_of(ran))
    shown = text_of(answer)

    assert "db.t all live files of the table after snapshot the beginning" in first
    assert answer.status_code == 200
    assert "committed The checkpoint moved to the end of this range" in shown
    assert "1 file 2 rows" in shown
    assert "db.t what was added since the last commit" in shown
    assert ran.xcom("db.t") in shown
    assert "Snapshots: 1 captured" in shown
    assert str(ran.xcom("capture")["sources"][0]["to"]["snapshot_id"]) in shown
    assert ran.xcom("capture_id") in shown


@IN_VARIABLE
def test_a_committed_capture_says_when(api, story):
    shown = text_of(api(page_of(story.run())))

    assert "committed The checkpoint moved to the end of this range on 2" in shown


@pytest.mark.parametrize(("role", "status"), [("nobody", 401), (None, 403)])
def test_no_route_answers_without_a_login_or_without_rights(airflow_app, api, story, role, status):
    """Airflow mounts a plugin's app unguarded: whatever route it has must ask by itself."""
    ran = story.run()
    (mount,) = (route for route in airflow_app.routes if getattr(route, "path", "") == "/ips")
    paths = [route.path for route in mount.app.routes]

    assert "/captures/{dag_id}/{run_id}/{task_id}" in paths
    answer = api(page_of(ran), role=role)
    assert answer.status_code == status
    assert "db.t" not in answer.text


def test_who_must_log_in_is_led_there_and_back(api):
    answer = api("/ips/captures/d/r/t?map_index=3", role="nobody")

    assert 'href="/api/v2/auth/login?next=%2Fips%2Fcaptures%2Fd%2Fr%2Ft%3Fmap_index%3D3"' in answer.text


def test_a_missing_record_is_explained(api):
    answer = api("/ips/captures/no_dag/no_run/no_task")

    assert answer.status_code == 404
    assert "There is no capture record here" in answer.text
    assert "it was cleared and has not run again" in text_of(answer)


@pytest.mark.parametrize("path", ["/ips/docs", "/ips/openapi.json", "/ips/captures/d/r"])
def test_there_is_nothing_else_to_see(api, path):
    assert api(path).status_code == 404


@pytest.mark.parametrize("map_index", ["x", "-2", "99999999999999999999"])
def test_a_map_index_that_is_none_is_refused(api, map_index):
    assert api(f"/ips/captures/d/r/t?map_index={map_index}").status_code == 422


def test_names_are_shown_as_text_and_never_run(api, story):
    """Tables, columns and run ids are other people's words."""
    story.run(at=datetime(2026, 10, 1, tzinfo=UTC))
    ran = story.run([4], at=datetime(2026, 10, 2, tzinfo=UTC))

    def attacked(record):
        record["consumer"] = ATTACK
        record["requested"] |= {"asked": {"run": "partitions", "partitions": ATTACK}, "detached": True}
        source = record["sources"][0]
        source["source"] = source["icdc_table"] = ATTACK
        source["warnings"] = [ATTACK]
        source["partitions"] = [{"column": ATTACK, "lower": ATTACK, "upper": "z", "known": True, "reason": ""}]
        source["verdicts"][0]["reason"] = source["verdicts"][0]["operation"] = ATTACK
        return record

    store_record(ran, attacked)
    answer = api(page_of(ran))
    missing = api(f"/ips/captures/{quote(ATTACK, safe='')}/{quote(ATTACK, safe='')}/{quote(ATTACK, safe='')}")

    def damaged(record):
        record["sources"][0]["kind"] = ATTACK
        return record

    store_record(ran, damaged)
    unreadable = api(page_of(ran))

    assert answer.text.count("&lt;script&gt;") == 10
    assert unreadable.text.count("&lt;script&gt;") == 1
    for shown in (answer, missing, unreadable):
        assert shown.text.count("<script") == 1
        assert ATTACK not in shown.text
        assert shown.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("kind", ["style", "script"])
def test_our_style_and_script_are_the_only_ones_that_the_browser_is_let_have(api, story, kind):
    """Their hashes are in the header: were one another, the page would come without its looks."""
    from base64 import b64encode
    from hashlib import sha256

    answer = api(page_of(story.run()))
    (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", answer.text, flags=re.DOTALL)
    digest = b64encode(sha256(text.encode()).digest()).decode()

    assert f"{kind}-src 'sha256-{digest}';" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"schema_version": 2}, "schema_version 2, of another release"),
        ({"schema_version": 1}, "'requested' is missing"),
        (
            {"schema_version": 1, "requested": {"run": {"run_id": "r", "map_index": -1, "run_after": "a"}}},
            "requested: run: 'dag_id' is missing",
        ),
        ("s3://bucket/xcom", "custom XCom backend"),
        ([1, 2], "custom XCom backend"),
        (None, "custom XCom backend"),
    ],
)
def test_what_is_not_a_record_is_said_not_to_be_one(api, story, value, why):
    ran = story.run()
    store_record(ran, lambda _: value)

    answer = api(page_of(ran))

    assert answer.status_code == 200
    assert why in text_of(answer).replace("&#39;", "'")


def store_text(ran, key, text):
    """Write a text over an XCom, as a program does that knows nothing of JSON."""
    from airflow.utils.session import create_session

    with create_session() as session:
        session.execute(
            sql("UPDATE xcom SET value = :text WHERE run_id = :run_id AND key = :key"),
            {"text": text, "run_id": ran.dag_run.run_id, "key": key},
        )


HOSTILE_TEXTS = ["[" * 50_000, '{"a":' * 50_000, "9" * 10_000, "{", '"\\ud800"', "NaN", "", '[["c"]]', '{"a": 1}']


def test_an_xcom_with_any_text_in_it_is_answered_with_a_page(api, story):
    """Also those of the run that this one supersedes, which the page searches for by its capture."""
    story.job.fails = True
    failed = story.run(at=datetime(2026, 10, 1, tzinfo=UTC))
    story.job.fails = False
    ran = story.run([4], at=datetime(2026, 10, 2, tzinfo=UTC))
    for key, text in product(("capture_id", "commit", "capture"), HOSTILE_TEXTS):
        for each in (failed, ran):
            store_text(each, key, text)

        answer = api(page_of(ran))

        assert answer.status_code == 200
        assert ("cannot be read" in text_of(answer)) is (key == "capture")


def test_a_damaged_record_is_answered_with_a_page(api, story):
    ran = story.run()
    written = ran.xcom("capture")

    @given(damaged(written))
    @settings(max_examples=60, deadline=None)
    def answers(record):
        store_record(ran, lambda _: record)
        assert api(page_of(ran)).status_code == 200

    answers()


@pytest.mark.parametrize("moment", [253_402_300_800_000, 2**62])
def test_a_time_that_no_calendar_has_is_shown_as_a_number(api, story, moment):
    ran = story.run()

    def damage(record):
        return changed(record, ("sources", 0, "to", "committed_at_ms"), moment)

    store_record(ran, damage)

    assert f"{moment} ms" in text_of(api(page_of(ran)))


def test_a_record_of_a_release_before_the_trigger_form_is_read(api, story):
    ran = story.run()

    def older(record):
        for key in ("asked", "detached"):
            record["requested"].pop(key, None)
        return record

    store_record(ran, older)

    assert "committed" in text_of(api(page_of(ran)))


def test_every_instance_of_a_mapped_capture_is_shown_or_the_one_asked_for(api, lake, run_dag):
    for name in ("db.a", "db.b"):
        append(create(lake, name), [1])
    ran = run_dag(for_each("mapped_record", ["db.a", "db.b"], Job(lake)))
    page = page_of(ran, "one.capture")

    both, second = text_of(api(page)), text_of(api(page + "?map_index=1"))

    assert ("db.a" in both, "db.b" in both) == (True, True)
    assert ("db.a" in second, "db.b" in second) == (False, True)
    assert links_of(api, ran, "one.capture", map_index=1)["Capture record"] == page + "?map_index=1"
    assert links_of(api, ran, "one.commit", map_index=1)["Capture record"] == page + "?map_index=1"


@pytest.mark.parametrize("store", STORES)
def test_a_run_that_failed_says_how_to_go_on(api, story, monkeypatch, store):
    """Of a checkpoint in Iceberg, which the API server does not reach, by what the capture has left."""
    monkeypatch.setenv("AIRFLOW__IPS__CHECKPOINT_STORE", store)
    story.job.fails = True

    shown = text_of(api(page_of(story.run())))

    assert "not committed The run ended without a commit" in shown
    assert "clear the failed tasks" in shown.lower()


@IN_VARIABLE
def test_a_run_that_failed_is_superseded_and_both_lead_to_each_other(api, story):
    """The run whose commit never came, and the one that covers its rows."""
    story.job.fails = True
    failed = story.run(at=datetime(2026, 10, 1, tzinfo=UTC))
    story.job.fails = False
    later = story.run([4], at=datetime(2026, 10, 2, tzinfo=UTC))

    superseded, covers = api(page_of(failed)), api(page_of(later))
    run_page = f"/dags/recorded/runs/{quote(later.dag_run.run_id, safe='')}"
    failed_page = f"/dags/recorded/runs/{quote(failed.dag_run.run_id, safe='')}"

    assert "superseded It was never committed" in text_of(superseded)
    assert f'href="{run_page}"' in superseded.text
    assert f'href="{page_of(failed)}"' in covers.text
    assert links_of(api, failed, "capture")["Superseded by run"] == run_page
    assert links_of(api, later, "capture")["Supersedes run"] == failed_page
    assert links_of(api, later, "commit")["Supersedes run"] == failed_page


def test_capture_and_commit_lead_to_the_record_and_to_the_assets(api, story):
    ran = story.run()

    wanted = {"Capture record": page_of(ran), "Assets": "/assets"}
    assert links_of(api, ran, "capture") == wanted
    assert links_of(api, ran, "commit") == wanted
    assert links_of(api, ran, "work") == {}


def test_what_has_left_no_record_has_no_links(api, story):
    """Cleared and not run again, or failed before it captured."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    ran = story.run()
    with create_session() as session:
        session.execute(delete(XComModel).where(XComModel.run_id == ran.dag_run.run_id))

    assert links_of(api, ran, "capture") == links_of(api, ran, "commit") == {}


def test_links_know_the_prefix_under_which_a_proxy_shows_airflow(api, story, serve_below):
    ran = story.run()
    serve_below("/team/airflow")

    assert links_of(api, ran, "capture") == {
        "Capture record": f"/team/airflow{page_of(ran)}",
        "Assets": "/team/airflow/assets",
    }
    assert 'href="/team/airflow/dags/recorded/runs/' in api(page_of(ran)).text


def test_a_run_with_nothing_to_process_says_so(api, story):
    story.run(at=datetime(2026, 10, 1, tzinfo=UTC))
    idle = story.run(at=datetime(2026, 10, 2, tzinfo=UTC))

    assert "nothing to process The sources gained no rows" in text_of(api(page_of(idle)))


def test_a_run_that_is_cleared_after_its_commit_is_shown_as_a_replay(api, story):
    at = datetime(2026, 10, 1, tzinfo=UTC)
    story.run(at=at)
    again = story.run(at=at)

    assert "replayed This run had committed before" in text_of(api(page_of(again)))


def test_a_checkpoint_that_is_kept_elsewhere_is_said_to_be(api, story):
    """What the commit has said is known all the same; without it, there is a command."""
    from airflow.models.variable import Variable
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    ran = story.run()
    with create_session() as session:
        session.execute(delete(Variable).where(Variable.key.startswith("ips_")))
    known = text_of(api(page_of(ran)))
    with create_session() as session:
        session.execute(delete(XComModel).where(XComModel.key == "commit"))

    assert "committed The checkpoint moved to the end of this range." in known
    assert "airflow ips history --consumer recorded.capture" in text_of(api(page_of(ran)))


def test_a_run_of_another_dag_is_named_to_its_readers_only():
    """A consumer may be shared by two DAGs, and a page must not show readers of one the runs of the other."""
    from airflow_provider_ips.core.checkpoint.capture_status import CaptureState, CaptureStatus
    from airflow_provider_ips.core.positions import RunIdentity
    from airflow_provider_ips.ui.capture_page import Link, superseded_by

    by = RunIdentity(dag_id="secret_dag", run_id="secret_run", map_index=-1, run_after="2026-10-01T00:00:00+00:00")
    fate = CaptureStatus(state=CaptureState.SUPERSEDED, superseded_by=by)

    hidden = superseded_by(fate, "recorded", lambda dag_id: dag_id == "recorded")
    shown = superseded_by(fate, "recorded", lambda _: True)

    assert hidden == Link(text="a run of another DAG, which you may not read", url=None)
    assert shown == Link(text="secret_dag/secret_run", url="/dags/secret_dag/runs/secret_run")


def test_loaded_by_its_entry_point():
    """Airflow loads no plugin that only the provider info names."""
    from airflow import plugins_manager

    from airflow_provider_ips import __version__

    plugins, errors = plugins_manager._get_plugins()

    assert errors == {}
    (source,) = (str(plugin.source) for plugin in plugins if plugin.name == "ips")
    assert source.startswith(f"airflow-provider-ips=={__version__}: ")
    assert "group='airflow.plugins'" in source


def test_airflow_can_list_the_plugin(api):
    """Its page of plugins reads every part of each."""
    (listed,) = (p for p in api("/api/v2/plugins", role="ADMIN").json()["plugins"] if p["name"] == "ips")

    assert [app["url_prefix"] for app in listed["fastapi_apps"]] == ["/ips"]
    assert len(listed["operator_extra_links"]) == 4


def test_loading_the_plugin_loads_no_page():
    """Every process of Airflow loads it, tasks among them; only the API server shows pages."""
    script = """
import sys
import airflow.sdk.plugins_manager
before = set(sys.modules)
from airflow_provider_ips.plugins.ips import IpsPlugin
IpsPlugin()
print(*sorted(set(sys.modules) - before))
"""
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    package, plugins = "airflow_provider_ips", "airflow_provider_ips.plugins"
    assert set(loaded.stdout.split()) - {package} == {plugins, f"{plugins}.ips"}


def test_a_record_leads_to_its_consumer_and_to_the_captures_beside_it(api, story):
    first = story.run(at=datetime(2026, 10, 1, tzinfo=UTC))
    second = story.run([4], at=datetime(2026, 10, 2, tzinfo=UTC))

    assert f'href="{page_of(second)}">next capture' in api(page_of(first)).text
    assert f'href="{page_of(first)}">previous capture' in api(page_of(second)).text
    assert 'href="/ips/consumers/recorded?consumer=recorded.capture"' in api(page_of(second)).text
