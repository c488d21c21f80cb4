"""A rolling week with a lookback: every run rebuilds the sums of the last 14 days."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "range_rolling_plain"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "range", "demo"],
    doc_md=__doc__,
):
    roll = SparkSubmitOperator(
        task_id="roll",
        application=str(JOBS / "range_rolling.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--first", "{{ macros.ds_add(ds, -13) }}"),
            *("--last", "{{ ds }}"),
        ],
    )
