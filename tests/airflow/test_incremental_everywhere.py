"""The pages of the plugin on every Airflow: where they are shown, who is refused, and checkpoints kept in Iceberg."""

import re

import pytest

from tests.airflow.per_dag_rights import airflow_app, client
from tests.airflow.test_incremental_pages import captures_in, consumer_page, row_of, story, text_of

__all__ = ["airflow_app", "client", "story"]


def routes_of(app):
    """Every route of ours, with names put in."""
    (mount,) = (route for route in app.routes if getattr(route, "path", "") == "/ips")
    return [(method, f"/ips{route.path}") for route in mount.app.routes for method in sorted(route.methods)]


@pytest.mark.parametrize(("role", "status"), [("nobody", 401), (None, 403)])
def test_no_route_answers_without_a_login_or_without_rights(airflow_app, client, story, role, status):
    """Airflow mounts a plugin's app unguarded: whatever route it has must check by itself."""
    story.run(story("pages_guarded"))
    routes = routes_of(airflow_app)

    assert len(routes) >= 4
    for method, path in routes:
        filled = re.sub(r"{dag_id}", "pages_guarded", re.sub(r"{(?!dag_id)\w+}", "capture", path))
        answer = client(filled, role=role, data=None if method == "GET" else {"consumer": "pages_guarded.capture"})
        assert (path, answer.status_code) == (path, status)
        assert "db.pages_guarded" not in answer.text


def test_airflow_shows_the_pages_in_its_navigation_and_in_tabs(client, serve_below):
    from airflow_provider_ips.ui.urls import external_views

    (plugin,) = (p for p in client("/api/v2/plugins").json()["plugins"] if p["name"] == "ips")
    serve_below("/team/airflow")

    assert [(view["destination"], view["href"]) for view in plugin["external_views"]] == [
        ("nav", "/ips/"),
        ("dag", "/ips/dags/{DAG_ID}"),
        ("task", "/ips/dags/{DAG_ID}/tasks/{TASK_ID}"),
    ]
    assert {view["href"].partition("/ips/")[0] for view in external_views()} == {"/team/airflow"}


def test_a_dag_without_captures_says_so_in_its_tab(client):
    answer = client("/ips/dags/something_else/tasks/work")

    assert answer.status_code == 200
    assert "Nothing here is incremental" in text_of(answer)


def test_a_consumer_whose_checkpoint_is_in_iceberg_is_shown_by_what_its_runs_left(client, story):
    """The API server never reaches a catalog: records, commits and sightings are in Airflow's database."""
    dag = story("kept_in_iceberg", capture={"checkpoint_store": "iceberg"})
    fresh = row_of(client("/ips/"), "kept_in_iceberg")
    story.run(dag)
    story.gain(dag)
    story.run(dag)

    page = client(consumer_page("kept_in_iceberg"))

    assert "never ran" in fresh
    assert "capture idle db.kept_in_iceberg" in row_of(client("/ips/"), "kept_in_iceberg")
    assert captures_in(page) == ["committed", "committed"]
    assert "Rewind" in text_of(page)
