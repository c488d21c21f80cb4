"""The DAGs of benchmarks/many.py: consumers, and twins of them whose tasks do nothing."""

from __future__ import annotations

import os

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator


def nothing(_table: str = "") -> None:
    """Return at once."""


for number in range(int(os.environ["IPS_BENCH_CONSUMERS"])):
    with DAG(f"ours_{number}", schedule=None, max_active_runs=1):
        capture = IpCaptureOperator(
            task_id="capture",
            source_tables=f"db.t{number % int(os.environ['IPS_BENCH_TABLES'])}",
            iceberg_conn_id="lake",
        )
        job = PythonOperator(task_id="job", python_callable=nothing, op_args=[capture.output["capture_id"]])
        capture >> job >> IpCommitOperator(task_id="commit", capture=capture)
    with DAG(f"twin_{number}", schedule=None, max_active_runs=1):
        first, second, third = (
            PythonOperator(task_id=task_id, python_callable=nothing) for task_id in ("capture", "job", "commit")
        )
        first >> second >> third
