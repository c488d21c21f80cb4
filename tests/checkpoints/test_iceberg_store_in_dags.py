"""DAGs whose checkpoints live in Iceberg, through `dag.test()`."""

import json
from dataclasses import replace

import pytest
from airflow.sdk import DAG

from airflow_provider_ips import IcebergAppendSensor
from airflow_provider_ips.checkpoints.iceberg import IcebergStore
from airflow_provider_ips.checkpoints.log_table import entries
from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore
from airflow_provider_ips.core.errors import CheckpointConflictError, DamagedCheckpointError, GapError, InputError
from airflow_provider_ips.core.identifiers import Source
from tests.kit.pipelines import Job, capturing, incremental
from tests.kit.tables import append, create

IN_ICEBERG = {"checkpoint_store": "iceberg"}


@pytest.fixture
def events(lake):
    table = create(lake, "db.events")
    append(table, [1, 2])
    return table


def position(lake, consumer):
    found = IcebergStore(lake).read(consumer)
    return found and found.position_of(Source("db.events"))


def test_runs_follow_one_another(lake, events, job, run_dag):
    """Capture and commit find the same log; nothing is written to Variables."""
    dag = incremental("logged", "db.events", job, capture=IN_ICEBERG)
    run_dag(dag)
    append(events, [3])
    run_dag(dag)
    assert job.seen == [[1, 2], [3]]
    assert position(lake, "logged.capture").snapshot_id == events.refresh().current_snapshot().snapshot_id
    assert VariableStore(ServerVariables()).read("logged.capture") is None
    assert len(entries(lake.load_table(IcebergStore(lake).table_name("logged.capture")))) == 4


def test_the_configuration_chooses_for_all(lake, events, job, run_dag, monkeypatch):
    """With a connection and a namespace of its own; sensors look there too."""
    monkeypatch.setenv("AIRFLOW__IPS__CHECKPOINT_STORE", "iceberg")
    monkeypatch.setenv("AIRFLOW__IPS__CHECKPOINT_CONN_ID", "lake")
    monkeypatch.setenv("AIRFLOW__IPS__CHECKPOINT_NAMESPACE", "ops.checkpoints")
    run_dag(incremental("configured", "db.events", job))
    assert IcebergStore(lake, "ops.checkpoints").consumers() == ["configured.capture"]
    assert position(lake, "configured.capture") is None
    append(events, [3])
    with DAG("waiting", schedule=None) as dag:
        IcebergAppendSensor(
            task_id="wait", table="db.events", consumer="configured.capture", iceberg_conn_id="lake", timeout=5
        )
    assert run_dag(dag).xcom("return_value", task="wait")["tables"][0]["snapshots"] == 1


def test_a_sensor_looks_where_the_capture_of_its_dag_does(lake, events, job, run_dag):
    """Though nothing says so but the capture."""
    dag = incremental("sensed", "db.events", job, capture=IN_ICEBERG)
    run_dag(dag)
    append(events, [3])
    with dag:
        wait = IcebergAppendSensor(
            task_id="wait", table="db.events", consumer="sensed.capture", iceberg_conn_id="lake", timeout=5
        )
        wait >> dag.get_task("capture")
    assert run_dag(dag).xcom("return_value", task="wait")["tables"][0]["snapshots"] == 1
    assert job.seen == [[1, 2], [3]]


def test_a_cleared_run_is_replayed(lake, events, job, run_dag):
    """Its range again, and nothing moves."""
    dag = incremental("cleared", "db.events", job, capture=IN_ICEBERG)
    at = run_dag(dag).dag_run.logical_date
    stands = IcebergStore(lake).read("cleared.capture")
    append(events, [3])
    ran = run_dag(dag, at=at)
    assert job.seen == [[1, 2], [1, 2]]
    assert ran.xcom("commit", task="commit")["outcome"] == "replayed"
    after = IcebergStore(lake).read("cleared.capture")
    assert stands is not None
    assert after is not None
    assert replace(after, revision=stands.revision) == stands


def test_a_table_made_anew_is_not_the_one_in_the_checkpoint(lake, events, job, run_dag):
    """Another uuid under the same name is a gap."""
    dag = incremental("seeded_again", "db.events", job, capture=IN_ICEBERG)
    run_dag(dag)
    lake.drop_table("db.events")
    append(create(lake, "db.events"), [9])
    assert isinstance(run_dag(dag).errors["capture"], GapError)
    assert job.seen == [[1, 2]]


def test_a_hidden_document_fails_the_capture(lake, events, job, run_dag):
    """It is not a first run."""
    import pyarrow as pa

    dag = incremental("hidden", "db.events", job, capture=IN_ICEBERG)
    run_dag(dag)
    lake.load_table(IcebergStore(lake).table_name("hidden.capture")).append(pa.table({"note": ["x"]}))
    assert isinstance(run_dag(dag).errors["capture"], DamagedCheckpointError)
    assert job.seen == [[1, 2]]


def test_an_unknown_store_is_refused_when_the_file_is_read(lake):
    """With those there are."""
    with pytest.raises(InputError, match="'variable' or 'iceberg'"), DAG("unknown", schedule=None):
        capturing("db.events", checkpoint_store="icebreg")


def test_two_deployments_share_a_consumer(lake, events, run_dag, monkeypatch):
    """Each with connections of its own to the same catalog: what one has committed the other does not take."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_ELSEWHERE",
        json.dumps({"conn_type": "iceberg", "extra": {**lake.properties, "catalog_name": "lake"}}),
    )
    job = Job(lake)
    shared = {**IN_ICEBERG, "consumer": "shared"}
    run_dag(incremental("here", "db.events", job, capture=shared))
    append(events, [3])
    run_dag(incremental("there", "db.events", job, capture={**shared, "iceberg_conn_id": "elsewhere"}))
    assert job.seen == [[1, 2], [3]]


@pytest.mark.needs_airflow_3_3("checkpoints can be in Variables")
@pytest.mark.parametrize(("before", "after"), [("variable", "iceberg"), ("iceberg", "variable")])
def test_another_store_is_no_first_run(lake, events, run_dag, before, after):
    """The setting was changed and the checkpoint was not moved: refused, with the command that moves it."""
    job, dag_id = Job(lake), f"switched_to_{after}"
    run_dag(incremental(dag_id, "db.events", job, capture={"checkpoint_store": before}))
    ran = run_dag(incremental(dag_id, "db.events", job, capture={"checkpoint_store": after}))
    assert isinstance(ran.errors["capture"], CheckpointConflictError)
    assert f"airflow ips move --consumer {dag_id}.capture --to {after}" in ran.errors["capture"].remedy
    assert job.seen == [[1, 2]]
