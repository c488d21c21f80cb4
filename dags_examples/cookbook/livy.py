"""Apache Livy: a batch on a cluster that has a Livy server.

The operator returns at once unless it has an interval at which it polls.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.apache.livy.operators.livy import LivyOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"

with DAG(
    "cookbook_livy",
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
    merge = LivyOperator(
        task_id="merge",
        file="s3a://my-bucket/jobs/merge.py",
        args=[*("--source", capture.output["db.playback"]), *("--target", "lake.db.continue_watching")],
        conf={STAMP: capture.output["capture_id"]},
        polling_interval=30,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
