"""Started by the table itself: one DAG by an asset that is watched, one that waits in a deferred sensor."""

from datetime import timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_ips import IcebergAppendSensor, IcebergAppendTrigger, IpCaptureOperator, IpCommitOperator
from tests.kit.jobs import append_once

INTERVAL_S = 0.5
SOURCE = "db.watching"


def processing(dag_id):
    """Capture, append to the DAG's own target, commit."""
    capture = IpCaptureOperator(task_id="capture", source_tables=SOURCE, iceberg_conn_id="watching")
    work = PythonOperator(
        task_id="work",
        python_callable=append_once,
        op_args=[capture.output[SOURCE], f"db.{dag_id}_target", capture.output["capture_id"]],
        op_kwargs={"name": f"{dag_id}.work", "lake": "watching"},
    )
    capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
    return capture


trigger = IcebergAppendTrigger(table=SOURCE, iceberg_conn_id="watching", poll_interval=INTERVAL_S)
appended = Asset("watching", watchers=[AssetWatcher(name="watching", trigger=trigger)])
again = {"retries": 5, "retry_delay": timedelta(0)}

with DAG("watched", schedule=[appended], max_active_runs=1, default_args=again):
    processing("watched")

with DAG("sensing", schedule=None, max_active_runs=1, default_args=again):
    arrived = IcebergAppendSensor(
        task_id="arrived",
        table=SOURCE,
        consumer="sensing.capture",
        iceberg_conn_id="watching",
        poke_interval=INTERVAL_S,
        deferrable=True,
    )
    arrived >> processing("sensing")
