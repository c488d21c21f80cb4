"""A Kubernetes pod: any program in an image of yours, such as Spark in local mode, PyIceberg, Polars or dbt.

The task waits until the pod has ended, and fails with it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

with DAG(
    "cookbook_kubernetes_pod",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["ips", "cookbook"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id="lake", engine_catalog="lake"
    )
    merge = KubernetesPodOperator(
        task_id="merge",
        name="merge-playback",
        namespace="jobs",
        image="registry.example.com/spark-iceberg:4.0.1",
        cmds=["/opt/spark/bin/spark-submit"],
        arguments=[
            "/opt/jobs/merge.py",
            *("--source", capture.output["db.playback"]),
            *("--target", "lake.db.continue_watching"),
        ],
        env_vars={"CAPTURE_ID": capture.output["capture_id"]},
        # A second attempt looks for the pod of the first one by its labels: it must be one of the same capture.
        labels={"ips-capture": capture.output["capture_id"]},
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
