"""What people change from the page *Incremental*: previewed, confirmed, noted, and refused to everybody else."""

import json
import re
from urllib.parse import urlencode

import pytest
from airflow.sdk import DAG

from airflow_provider_ips.maintenance.task import DAG_ID
from tests.airflow.per_dag_rights import airflow_app, client
from tests.airflow.test_incremental_pages import captures_in, consumer_page, pause, story, text_of
from tests.kit.airflow import sync
from tests.kit.pipelines import checkpoint_of, committed_at

__all__ = ["airflow_app", "client", "story"]

pytestmark = pytest.mark.needs_airflow_3_3("checkpoints are in Variables")


def page_of(dag_id, action):
    return f"/ips/consumers/{dag_id}/{action}?" + urlencode({"consumer": f"{dag_id}.capture"})


def hidden_in(answer):
    """What the form of a page brings back by itself."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', answer.text))


@pytest.fixture
def act(client):
    """Go the way of a person: open the form, look at the preview, type the name, do it."""

    def act(path, word, fields=None, **somebody):
        form = client(path, **somebody)
        assert form.status_code == 200, form.text
        preview = client(path, data={**hidden_in(form), **(fields or {}), "step": "preview"}, **somebody)
        if preview.status_code != 200:
            return preview, preview
        return preview, client(path, data={**hidden_in(preview), "step": "perform", "confirm": word}, **somebody)

    return act


@pytest.fixture
def maintenance(run_dag):
    """The DAG that does what needs a catalog; nothing runs it here."""
    dag = DAG(DAG_ID, schedule=None, params={"command": "list", "consumer": None, "dry_run": True, "confirm": None})
    sync(dag)
    pause(DAG_ID, paused=False)
    yield dag
    forget(DAG_ID)


def forget(dag_id):
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.execute(delete(DagModel).where(DagModel.dag_id == dag_id))


def runs_of(dag_id):
    from airflow.models.dagrun import DagRun

    return sorted(DagRun.find(dag_id=dag_id), key=lambda run: run.id)


def test_a_rewind_is_previewed_confirmed_and_noted(client, story, act):
    dag = story("acts_rewind")
    story.run(dag)
    before = committed_at("acts_rewind.capture", "db.acts_rewind")
    story.gain(dag)
    second = story.run(dag).xcom("capture_id")

    preview, done = act(page_of("acts_rewind", "rewind"), "acts_rewind.capture", {"capture_id": second}, user="kim")

    assert "What will change" in text_of(preview)
    assert str(before) in text_of(preview)
    assert "Written: the checkpoint of acts_rewind.capture is now at revision" in text_of(done)
    assert committed_at("acts_rewind.capture", "db.acts_rewind") == before
    (noted,) = checkpoint_of("acts_rewind.capture").interventions
    assert (noted.who, noted.verb) == ("kim", "rewind")
    assert logged("ips rewind") == ("kim", "acts_rewind", {"capture_id": second})
    assert captures_in(client(consumer_page("acts_rewind"))) == ["rewound", "committed"]


def logged(event):
    """The newest entry of Airflow's audit log."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        entry = session.scalars(select(Log).where(Log.event == event).order_by(Log.id.desc())).first()
        assert entry is not None
        extra = json.loads(entry.extra or "")
        return entry.owner, entry.dag_id, {name: extra[name] for name in extra if name not in ("step", "revision")}


def test_abandon_and_reset_change_the_checkpoint(client, story, act):
    dag = story("acts_abandon")
    story.job.fails = True
    story.run(dag)

    act(page_of("acts_abandon", "abandon"), "acts_abandon.capture")
    assert checkpoint_of("acts_abandon.capture").pending is None
    story.job.fails = False
    story.run(dag)
    act(page_of("acts_abandon", "reset"), "acts_abandon.capture")

    assert checkpoint_of("acts_abandon.capture").positions == ()


def test_a_preview_changes_nothing(client, story, act):
    story.run(story("acts_preview"))
    before = checkpoint_of("acts_preview.capture")

    preview, done = act(page_of("acts_preview", "reset"), "something else")

    assert preview.status_code == 200
    assert done.status_code == 422
    assert "Not confirmed" in text_of(done)
    assert checkpoint_of("acts_preview.capture") == before


def test_what_is_not_possible_is_refused_in_words(client, story, act):
    story.run(story("acts_refused"))

    preview, _ = act(page_of("acts_refused", "abandon"), "acts_refused.capture")

    assert preview.status_code == 422
    assert "What to do:" in text_of(preview)


def test_a_checkpoint_that_changed_since_the_preview_is_left_alone(client, story):
    dag = story("acts_late")
    story.run(dag)
    path = page_of("acts_late", "reset")
    preview = client(path, data={**hidden_in(client(path)), "step": "preview"})
    story.gain(dag)
    story.run(dag)
    before = checkpoint_of("acts_late.capture")

    late = client(path, data={**hidden_in(preview), "step": "perform", "confirm": "acts_late.capture"})

    assert late.status_code == 422
    assert "has changed since the preview" in text_of(late)
    assert checkpoint_of("acts_late.capture") == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Origin": "http://testserver"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_a_form_of_another_site_is_refused(client, story, headers, status):
    """The browser sends the cookie of the login with it, and only this tells it apart."""
    story.run(story("acts_forged"))
    path = page_of("acts_forged", "reset")
    form = {**hidden_in(client(path)), "step": "preview"}

    assert client(path, data=form, headers=headers).status_code == status


@pytest.mark.parametrize("token", ["", "x", None])
def test_a_form_without_the_token_of_this_user_is_refused(client, story, token):
    story.run(story("acts_token"))
    path = page_of("acts_token", "reset")
    other = hidden_in(client(path, user="somebody else"))["token"]

    answer = client(path, data={"token": other if token is None else token, "step": "perform", "revision": "1"})

    assert answer.status_code == 403
    assert checkpoint_of("acts_token.capture").positions


@pytest.mark.parametrize("action", ["rewind", "seed", "reset", "abandon", "replay", "dry-run"])
def test_an_action_is_for_those_who_may_edit_the_dag(client, story, action):
    story.run(story("acts_rights"))
    path = page_of("acts_rights", action)
    form = {**hidden_in(client(path)), "step": "perform", "confirm": "acts_rights.capture", "revision": "2"}
    before = checkpoint_of("acts_rights.capture")

    for somebody in ({"user": "reads:another"}, {"role": "VIEWER"}, {"user": "only:another"}):
        assert client(path, **somebody).status_code == 403
        assert client(path, data=form, **somebody).status_code == 403
    assert checkpoint_of("acts_rights.capture") == before
    shown = client(consumer_page("acts_rights"), user="reads:another")
    assert shown.status_code == 200
    assert "/acts_rights/rewind?" not in shown.text


def test_no_get_changes_anything(client, story):
    story.run(story("acts_get"))
    before = checkpoint_of("acts_get.capture")
    for action in ("reset", "abandon", "rewind", "dry-run"):
        query = urlencode({"consumer": "acts_get.capture", "step": "perform", "confirm": "acts_get.capture"})
        client(f"/ips/consumers/acts_get/{action}?{query}")

    assert checkpoint_of("acts_get.capture") == before


def test_what_needs_a_catalog_is_done_by_a_run_of_the_maintenance_dag(client, story, act, maintenance):
    """First one that writes nothing, then one with the confirmation, each in the name of the user."""
    story.run(story("acts_seed"))
    fields = {"table": "db.acts_seed", "latest": "true"}

    preview, done = act(page_of("acts_seed", "seed"), "acts_seed.capture", fields, user="kim")

    first, second = runs_of(DAG_ID)
    common = {"command": "seed", "consumer": "acts_seed.capture", "table": "db.acts_seed", "latest": True}
    assert {**common, "dry_run": True, "confirm": "", "conn_id": "lake", "store": "variable"} == first.conf
    assert second.conf == {**first.conf, "dry_run": False, "confirm": "acts_seed.capture"}
    assert second.triggering_user_name == "kim"
    assert f"/dags/{DAG_ID}/runs/" in preview.text
    assert "A run does it." in text_of(done)


def test_without_the_maintenance_dag_the_page_says_so(client, story, act):
    story.run(story("acts_without"))

    form = client(page_of("acts_without", "replay"))
    preview, _ = act(page_of("acts_without", "replay"), "acts_without.capture")

    assert f"This Airflow has no DAG '{DAG_ID}'" in text_of(form)
    assert preview.status_code == 422
    assert f"This Airflow has no DAG '{DAG_ID}'" in text_of(preview)


def test_a_paused_maintenance_dag_is_not_started(client, story, act, maintenance):
    story.run(story("acts_paused"))
    pause(DAG_ID)

    preview, _ = act(page_of("acts_paused", "replay"), "acts_paused.capture")

    assert "is paused" in text_of(preview)
    assert runs_of(DAG_ID)[-1:] == [] or runs_of(DAG_ID)[-1].conf.get("consumer") != "acts_paused.capture"


def test_who_may_edit_a_dag_and_not_trigger_the_maintenance_dag_starts_no_run(client, story, act, maintenance):
    story.run(story("acts_half"))

    preview, _ = act(page_of("acts_half", "replay"), "acts_half.capture", user="reads:acts_half")

    assert f"You may not start runs of DAG '{DAG_ID}'" in text_of(preview)


def test_a_dry_run_starts_a_run_of_the_dag_itself(client, story):
    story.run(story("acts_dry"))
    path = page_of("acts_dry", "dry-run")

    done = client(path, data={**hidden_in(client(path)), "step": "perform", "confirm": "acts_dry.capture"})

    assert runs_of("acts_dry")[-1].conf == {"ips_dry_run": True}
    assert "A run does it." in text_of(done)


def test_a_clean_up_is_for_those_who_may_trigger_the_maintenance_dag(client, story, act, maintenance):
    story("acts_clean")
    assert client("/ips/gc", user="reads:something").status_code == 403
    assert 'href="/ips/gc"' in client("/ips/").text
    assert 'href="/ips/gc"' not in client("/ips/", user="reads:something").text
    count = len(runs_of(DAG_ID))

    _, done = act("/ips/gc", "lake.icdc", {"namespace": "lake.icdc", "older_than_days": "3"})

    assert done.status_code == 200
    *_, first, second = runs_of(DAG_ID)
    assert len(runs_of(DAG_ID)) == count + 2
    assert (first.conf["dry_run"], second.conf["dry_run"]) == (True, False)
    assert second.conf["confirm"] == second.conf["namespace"] == "lake.icdc"


def test_look_now_starts_a_run_of_the_watch_or_says_what_is_missing(client, run_dag):
    forget("ips_watch")  # another test may have run it
    missing = client("/ips/look", data={**hidden_in(client("/ips/look"))})
    assert "This Airflow has no DAG 'ips_watch'" in text_of(missing)
    sync(DAG("ips_watch", schedule=None))
    pause("ips_watch", paused=False)

    done = client("/ips/look", data={**hidden_in(client("/ips/look"))})

    assert "A run does it." in text_of(done)
    assert len(runs_of("ips_watch")) == 1
    forget("ips_watch")


def test_an_unknown_action_is_a_page_that_is_not_there(client, story):
    story.run(story("acts_unknown"))

    assert client(page_of("acts_unknown", "explode")).status_code == 404
