"""A rolling week: late rows change the sums between the captured bounds, and those of the six days after them.

The bounds of partition columns are always pushed. On a day without late rows, two weeks of work become one week.
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
DAG_ID = "range_rolling_incremental"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "range", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        range_columns=["event_date"],  # if they are unknown, the capture fails
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    roll = SparkSubmitOperator(
        task_id="roll",
        application=str(JOBS / "range_rolling.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--first", capture.output["db.playback.lower.event_date"]),
            *("--last", capture.output["db.playback.upper.event_date"]),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> roll >> commit
