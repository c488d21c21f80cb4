"""`airflow ips doctor --migrating`: whether an incremental DAG can take over from a plain one."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from pyiceberg.catalog import load_catalog

from airflow_provider_ips import iceberg_asset
from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.cli.terminal import Terminal
from airflow_provider_ips.core.checkpoint.manual_changes import seed as seed_document
from airflow_provider_ips.core.errors import StoreUnavailableError
from airflow_provider_ips.maintenance.doctor import DoctorOptions, examine_migration
from airflow_provider_ips.maintenance.server import Server
from scripts.local_spark import sqlite_properties
from tests.checkpoints.conftest import standing
from tests.checkpoints.test_cli import ips
from tests.kit.airflow import sync
from tests.kit.pipelines import Job, capturing, incremental
from tests.kit.tables import append, create

__all__ = ["ips"]
pytestmark = pytest.mark.usefixtures("airflow_database")


def target(name):
    return iceberg_asset(f"db.{name}", iceberg_conn_id="lake")


@pytest.fixture
def events(lake):
    table = create(lake, "db.events")
    append(table, [1, 2])
    return table


@pytest.fixture
def pair(lake, events, run_dag, request):
    """A plain DAG that has run and is paused, an incremental one, and a target of each."""
    number = abs(hash(request.node.nodeid)) % 10**8
    plain_id, incremental_id = f"plain_{number}", f"incremental_{number}"
    with DAG(plain_id, schedule=None, is_paused_upon_creation=True) as plain:
        PythonOperator(task_id="work", python_callable=lambda: None, outlets=[target("plain")])
    following = incremental(incremental_id, "db.events", Job(lake), commit={"target_assets": target("incremental")})
    run_dag(plain)
    sync(following)
    for name in ("plain", "incremental"):
        append(create(lake, f"db.{name}"), [1, 2])
    return plain_id, incremental_id


def migrating(ips, *dag_ids):
    said = ips("doctor", "--conn-id", "lake", "--migrating", *dag_ids)
    assert said.failure == ("1" if any(row["status"] == "problem" for row in said.rows) else "")
    return {row["check"]: row for row in said.rows}


def seed(ips, pair, moment):
    consumer = f"{pair[1]}.capture"
    words = ("--consumer", consumer, "--conn-id", "lake", "--table", "db.events", "--yes")
    assert ips("seed", *words, *(("--latest",) if moment is None else ("--time", moment.isoformat()))).failure == ""


def test_a_consumer_without_a_position_is_a_problem(ips, pair):
    """Its first run would take all rows; and the targets are compared, row by row."""
    found = migrating(ips, *pair)
    assert {check: row["status"] for check, row in found.items()} == {"seed": "problem", "plain": "ok", "targets": "ok"}
    assert "airflow ips seed" in found["seed"]["remedy"]
    assert "2 rows are the same" in found["targets"]["finding"]


def test_a_seed_before_the_last_run_is_told_from_one_after_it(ips, pair, events):
    """Rows between that run and the seed would be in neither target."""
    seed(ips, pair, None)
    assert migrating(ips, *pair)["seed"]["status"] == "warning"  # the table is minutes old
    ips("reset", "--consumer", f"{pair[1]}.capture", "--yes")
    append(events, [3])
    seed(ips, pair, datetime.now(tz=UTC) + timedelta(hours=1))
    found = migrating(ips, *pair)["seed"]
    assert found["status"] == "problem"
    assert "rows of the time between" in found["finding"]


def test_targets_that_differ_are_counted_both_ways(ips, pair, lake):
    """Also if they have the same number of rows."""
    append(lake.load_table("db.plain"), [3, 3])
    append(lake.load_table("db.incremental"), [3, 4])
    found = migrating(ips, *pair)["targets"]
    assert found["status"] == "problem"
    assert "1 rows are only in db.plain, and 1 only in db.incremental" in found["finding"]
    assert "EXCEPT ALL" in found["remedy"]


def test_targets_that_nobody_declares_are_compared_by_sql(ips, pair, lake):
    """It says how."""
    with DAG("undeclared_plain", schedule=None) as plain:
        PythonOperator(task_id="work", python_callable=lambda: None)
    sync(plain)
    found = migrating(ips, "undeclared_plain", pair[1])
    assert found["targets"]["status"] == "unknown"
    assert "EXCEPT ALL" in found["targets"]["remedy"]


def test_a_dag_that_airflow_does_not_have_is_a_problem(ips, pair):
    """And nothing else is said then, except which name may be meant."""
    found = migrating(ips, "nowhere", pair[1])
    assert {check: row["status"] for check, row in found.items()} == {"dag": "problem"}
    assert f"did you mean {pair[1]!r}?" in migrating(ips, pair[0], f"{pair[1]}s")["dag"]["remedy"]


def test_the_catalog_is_that_of_the_incremental_dag(ips, pair):
    """As for every command that names a consumer."""
    said = ips("doctor", "--migrating", *pair)
    assert {row["check"] for row in said.rows} == {"seed", "plain", "targets"}


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Another catalog, by the connection ``elsewhere``."""
    properties = sqlite_properties(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "warehouse").mkdir(parents=True)
    monkeypatch.setenv("AIRFLOW_CONN_ELSEWHERE", json.dumps({"conn_type": "iceberg", "extra": properties}))
    return load_catalog("elsewhere", **properties)


def test_each_capture_has_the_connection_of_its_own(ips, pair, lake, elsewhere):
    """Its checkpoint may be there. By which of them the targets are reached is not known: an engine compares them."""
    dag = incremental(pair[1], "db.events", Job(lake), commit={"target_assets": target("incremental")})
    with dag:
        capturing("db.events", task_id="second", iceberg_conn_id="elsewhere")
    sync(dag)
    consumer = f"{pair[1]}.second"
    position = standing(10, "db.events")
    document = seed_document(None, consumer=consumer, positions=(position,), now_ms=position.position.committed_at_ms)
    IcebergStore(elsewhere).write(document, expected_revision=None)

    found = {(row["check"], row["subject"].partition(":")[0]): row for row in ips("doctor", "--migrating", *pair).rows}

    assert found["seed", consumer]["status"] == "ok"
    targets = found["targets", f"{pair[0]} and {pair[1]}"]
    assert (targets["status"], "connections elsewhere and lake" in targets["finding"]) == ("unknown", True)
    assert "db.plain EXCEPT ALL SELECT * FROM db.incremental" in targets["remedy"]


class Unreadable(Server):
    """A server whose stored DAGs cannot be read any more."""

    def consumers(self, dag_id):
        raise StoreUnavailableError("The stored DAGs could not be read", consequence=dag_id, remedy="try again")


def test_stored_dags_that_cannot_be_read_are_a_problem_and_no_traceback(pair):
    """As what else goes wrong in these checks."""
    (found,) = examine_migration(Terminal("json"), DoctorOptions(migrating=pair), Unreadable())
    assert (found.check, found.finding) == ("migration", "The stored DAGs could not be read")
