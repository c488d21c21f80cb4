"""The maintenance DAG: the commands by a trigger form, in a worker."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.cli.definition import get_ips_cli_commands
from airflow_provider_ips.core.identifiers import Source
from airflow_provider_ips.maintenance.task import COMMANDS
from tests.kit.pipelines import Job, checkpoint_of, committed_at, incremental
from tests.kit.tables import append, create, icdc_tables, rows

pytestmark = pytest.mark.usefixtures("airflow_database")
FILE = Path(__file__).parents[2] / "dags_examples" / "maintenance.py"


def as_shipped():
    """Load the DAG from its file again: `dag.test()` leaves a run's form in the DAG that it ran."""
    spec: Any = importlib.util.spec_from_file_location("ips_maintenance_file", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


@pytest.fixture
def maintenance():
    return as_shipped()


@pytest.fixture
def do(run_dag):
    """Fill in the form and trigger."""

    def trigger(command, **form):
        ran = run_dag(as_shipped(), conf={"command": command, "conn_id": "lake", **form})
        return ran.xcom("return_value", task="do"), str(ran.errors.get("do", ""))

    return trigger


@pytest.fixture
def events(lake):
    table = create(lake, "db.events")
    append(table, [1, 2])
    return table


def head(table):
    return table.refresh().current_snapshot().snapshot_id


def test_it_waits_for_whoever_operates_airflow(maintenance):
    """Airflow discovers the examples of providers by default: nobody gets this power without asking for it."""
    assert maintenance.is_paused_upon_creation is True
    assert "may move or remove the checkpoint of any consumer" in " ".join(maintenance.doc_md.split())


def test_it_has_every_command_of_the_command_line(maintenance):
    """In the form, and in the task."""
    group: Any = get_ips_cli_commands()[0]
    assert set(COMMANDS) == {command.name for command in group.subcommands}
    assert set(maintenance.params.get_param("command").schema["enum"]) == set(COMMANDS)


def test_it_runs_by_hand_only(maintenance):
    """And by default it only looks."""
    assert maintenance.schedule is None
    assert maintenance.params["dry_run"] is True
    assert maintenance.params["command"] == "list"
    assert "IPS_EXAMPLES_LAKE" not in os.environ


def test_consumers_are_listed_and_shown(do, lake, events, run_dag):
    run_dag(incremental("formed", "db.events", Job(lake)))
    listed, _ = do("list")
    assert "formed.capture" in [row["consumer"] for row in listed]
    (shown,) = do("show", consumer="formed.capture")[0]
    assert shown["snapshot"] == str(head(events))
    assert do("history", consumer="formed.capture")[0][0]["kind"] == "full"
    examined, _ = do("doctor", consumer="formed.capture")
    assert "problem" not in [row["status"] for row in examined]


def test_a_table_is_estimated(do, lake, events):
    """Before anything captures it."""
    estimated, error = do("estimate", table="db.events", column="day", lookback="3650d")
    assert error == ""
    assert [(row["lookback_files"], row["capture_records"], row["note"]) for row in estimated] == [
        ("1", "2", "so far"),
        ("1", "2", ""),
    ]
    assert "not partitioned by time" in do("estimate", table="db.events")[1]


def test_a_dry_run_and_a_wrong_word_change_nothing(do, lake, events, run_dag):
    """The name has to stand in the form."""
    run_dag(incremental("asked_by_form", "db.events", Job(lake)))
    before = checkpoint_of("asked_by_form.capture")
    assert do("reset", consumer="asked_by_form.capture")[1] == ""
    assert "not confirmed" in do("reset", consumer="asked_by_form.capture", dry_run=False)[1]
    assert "not confirmed" in do("reset", consumer="asked_by_form.capture", dry_run=False, confirm="yes")[1]
    assert checkpoint_of("asked_by_form.capture") == before


def test_a_checkpoint_is_changed_and_says_by_whom(do, lake, events, run_dag):
    """Reset, seeded, rewound, moved: as from the command line."""
    name = "changed_by_form.capture"
    sure = {"consumer": name, "dry_run": False, "confirm": name}
    run_dag(incremental("changed_by_form", "db.events", Job(lake)))
    assert do("reset", **sure)[1] == ""
    assert committed_at(name, "db.events") is None
    assert do("seed", **sure, table="db.events", latest=True)[1] == ""
    assert committed_at(name, "db.events") == head(events)
    assert [(i.verb, i.who) for i in checkpoint_of(name).interventions] == [("reset", "dag_test"), ("seed", "dag_test")]
    assert do("move", **sure, to="iceberg")[1] == ""
    moved: Any = IcebergStore(lake).read(name)
    assert moved.position_of(Source("db.events")).snapshot_id == head(events)


def test_a_range_is_replayed_and_collected(do, lake, events, run_dag):
    """In a worker, which has no database."""
    run = run_dag(incremental("kept_by_form", "db.events", Job(lake))).dag_run.run_id
    (made,), _ = do("replay", consumer="kept_by_form.capture", run_id=run, dry_run=False)
    assert rows(lake, made["icdc_table"]) == [1, 2]
    assert do("gc", older_than_days=0, dry_run=False, confirm="icdc")[1] == ""
    assert icdc_tables(lake) == list(checkpoint_of("kept_by_form.capture").retained)


def test_a_form_that_says_too_little_is_refused(do, lake):
    """With the field that is missing."""
    assert "needs consumer" in do("show")[1]
    assert "needs table" in do("seed", consumer="x.y")[1]
    assert "needs to" in do("move", consumer="x.y")[1]
