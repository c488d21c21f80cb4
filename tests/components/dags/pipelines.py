"""Capture, work, a gate that can be told to fail, and commit; one DAG for each story, with tables of its own."""

from datetime import timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.components.jobs import append_once, obey


def pipeline(
    dag_id, *, schedule=None, source=None, target=None, capture=None, commit=None, retries=0, has_gate=True, **options
):
    """Append what ``db.<dag id>`` gains to ``db.<dag id>_target``."""
    source, target = source or f"db.{dag_id}", target or f"db.{dag_id}_target"
    defaults = {"retries": retries, "retry_delay": timedelta(0)}
    with DAG(dag_id, schedule=schedule, default_args={**defaults, **options.pop("default_args", {})}, **options) as dag:
        captured = IpCaptureOperator(task_id="capture", source_tables=source, iceberg_conn_id="lake", **(capture or {}))
        work = PythonOperator(
            task_id="work",
            python_callable=append_once,
            op_args=[captured.output[source], target, captured.output["capture_id"]],
            op_kwargs={"name": f"{dag_id}.work"},
        )
        committed = IpCommitOperator(task_id="commit", capture=captured, **(commit or {}))
        captured >> work >> committed
        if has_gate:
            gate = PythonOperator(task_id="gate", python_callable=obey, op_args=[f"{dag_id}.gate"])
            work >> gate >> committed
    return dag


killed = pipeline("killed", retries=3, has_gate=False)
