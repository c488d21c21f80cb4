"""Every address of the pages, called by somebody who may not read a DAG: its names and numbers are nowhere."""

from urllib.parse import urlencode

import pytest

from airflow_provider_ips import iceberg_asset
from tests.airflow.per_dag_rights import airflow_app, client
from tests.airflow.test_incremental_everywhere import routes_of
from tests.airflow.test_incremental_pages import consumer_page, row_of, story, text_of
from tests.kit.tables import append

__all__ = ["airflow_app", "client", "story"]

pytestmark = pytest.mark.needs_airflow_3_3("checkpoints are in Variables")

READER = "only:open_dag"
ROWS = 7919
"""How many rows the hidden DAG captured: a number that nothing else has."""


@pytest.fixture
def hidden(story, lake):
    """A DAG that writes what the open one captures, and captures a table that the open one captures as well."""
    shared = iceberg_asset("db.open_dag", iceberg_conn_id="lake")
    dag = story("hidden_dag", commit={"target_assets": shared})
    append(lake.load_table("db.hidden_dag"), range(10, ROWS + 7))
    ran = story.run(dag)
    story.run(story("open_dag"))
    return ran


def addresses(ran):
    """Each address that names the hidden DAG, its consumer or its table, also by way of the DAG that is open."""
    consumer, run = "hidden_dag.capture", ran.dag_run.run_id
    yield from ("/ips/", "/ips/tables", "/ips/stages", "/ips/gc", "/ips/look")
    for dag_id in ("hidden_dag", "open_dag"):
        yield f"/ips/dags/{dag_id}"
        yield f"/ips/dags/{dag_id}/tasks/capture"
        yield consumer_page(dag_id, consumer)
        yield f"/ips/tables/{dag_id}?" + urlencode({"table": "db.hidden_dag"})
        yield f"/ips/tables/{dag_id}?" + urlencode({"table": "db.open_dag"})
        yield f"/ips/captures/{dag_id}/{run}/capture"
        for action in ("rewind", "seed", "reset", "abandon", "replay", "dry-run"):
            yield f"/ips/consumers/{dag_id}/{action}?" + urlencode({"consumer": consumer})


@pytest.mark.parametrize("role", ["VIEWER", "ADMIN"])
@pytest.mark.parametrize("multi_team", [False, True])
def test_no_address_shows_what_a_reader_may_not_read(client, hidden, monkeypatch, role, multi_team):
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", str(multi_team))
    somebody = {"user": READER, "role": role}
    secrets = (f"{ROWS:,}", str(ROWS), hidden.xcom("capture_id"), hidden.dag_run.run_id)

    for address in addresses(hidden):
        for data in (None, {"step": "perform", "confirm": "hidden_dag.capture"}):
            answer = client(address, data=data, **somebody)
            shown = text_of(answer)
            names = [] if "hidden_dag" in address else ["hidden_dag"]  # what was typed may be shown again
            path = hidden.dag_run.run_id in address
            found = [each for each in (*secrets, *names) if each in shown and not (path and each == secrets[-1])]
            assert (address, found) == (address, [])
            assert answer.status_code in {200, 403, 404, 405, 422}, address
    assert row_of(client("/ips/", **somebody), "open_dag")
    assert f"{ROWS:,} rows" in text_of(client(f"/ips/captures/hidden_dag/{hidden.dag_run.run_id}/capture")), (
        "it is there"
    )


def test_every_route_is_among_them(airflow_app, hidden):
    """A new route needs its address above."""
    shapes = {path for _, path in routes_of(airflow_app)}

    assert len(shapes) == 11


def test_a_consumer_in_iceberg_that_another_dag_shares_is_for_readers_of_both(client, story):
    """Its document names no runs here: what was seen of it, and DAGs that name it, say whose it is."""
    shared = {"capture": {"consumer": "shared", "checkpoint_store": "iceberg"}}
    story("open_dag", **shared)
    hidden = story("hidden_dag", **shared)
    story.job.fails = True
    story.run(hidden)
    story.job.fails = False

    for address in ("/ips/", "/ips/dags/open_dag", "/ips/tables", "/ips/stages", consumer_page("open_dag", "shared")):
        shown = text_of(client(address, user=READER, role="VIEWER"))
        assert "hidden_dag" not in shown, address
        assert "failed and uncommitted" not in shown, address
    assert "hidden_dag" in text_of(client("/ips/"))
