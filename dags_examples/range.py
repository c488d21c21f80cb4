"""Range: the old query over the source, with the bounds of the captured rows.

The bounds are read from Iceberg's metadata; no data file is opened for them. A file without bounds makes them unknown,
and the job then fails on the missing value instead of reading too little.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "range_incremental",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "range", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        range_columns=["event_time"],
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    overwrite = SparkSubmitOperator(
        task_id="overwrite",
        application=str(JOBS / "range.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--target", f"{LAKE}.db.hours_per_day"),
            *("--start", capture.output["db.playback.lower.event_time"]),
            *("--end", capture.output["db.playback.upper.event_time"]),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> overwrite >> commit
