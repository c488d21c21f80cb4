"""The daily playback job, incremental: it reads what the table gained since the last success.

Lay it beside playback_plain.py: two tasks more, and one argument changed.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# Spark's name of the catalog, and the Airflow connection to the same one.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "playback_incremental"

with DAG(
    DAG_ID,
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["ips", "example"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    daily = SparkSubmitOperator(
        task_id="daily",
        application=str(JOBS / "playback_daily.py"),
        application_args=[
            *("--source", capture.output["db.playback"]),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--since", "{{ macros.ds_add(ds, -13) }}"),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> daily >> commit
