"""The daily playback job, incremental: it reads what the table gained since the last success.

Compare it with playback_plain.py: two more tasks, one changed argument, the trigger form, and no window. A captured row
may be older than any window, because it came late or the DAG was paused, and no later run gets it.
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
DAG_ID = "playback_incremental"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    params=ips_params(),  # the trigger form: a dry run, some partitions, a full refresh
    tags=["ips", "playback", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    daily = SparkSubmitOperator(
        task_id="daily",
        application=str(JOBS / "playback_quality.py"),
        application_args=[
            *("--source", capture.output["db.playback"]),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> daily >> commit
