"""The DAG of benchmarks/task.py: an empty task beside a capture and a commit of ten manifests."""

from __future__ import annotations

import os

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator


def nothing(_table: str = "") -> None:
    """Return at once."""


with DAG("measured", schedule=None, max_active_runs=1):
    empty = PythonOperator(task_id="empty", python_callable=nothing)
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.t",
        iceberg_conn_id="far",
        initial=os.environ["IPS_BENCH_INITIAL"],
        max_snapshots=10,
    )
    job = PythonOperator(task_id="job", python_callable=nothing, op_args=[capture.output["db.t"]])
    commit = IpCommitOperator(task_id="commit", capture=capture)
    empty >> capture >> job >> commit
