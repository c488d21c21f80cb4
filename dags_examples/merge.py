"""Merge: merge what the source gained into the target by key.

The merge keeps the latest event of each key, so it can process the same rows twice, and in any order.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, ips_params

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "merge_incremental",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "merge", "demo"],
    doc_md=__doc__,
    params=ips_params(),  # the trigger form: a full refresh, some partitions, a dry run
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    merge = SparkSubmitOperator(
        task_id="merge",
        application=str(JOBS / "merge.py"),
        application_args=["--source", capture.output["db.playback"], "--target", f"{LAKE}.db.continue_watching"],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
