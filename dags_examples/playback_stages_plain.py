"""Two stages of playback with a lookback: events into a daily table, and that into totals per account and day.

Both stages re-read the last 14 days in every run, because late events and corrections may lie anywhere in them.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "playback_stages_plain"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "playback", "demo"],
    doc_md=__doc__,
):
    daily = SparkSubmitOperator(
        task_id="daily",
        application=str(JOBS / "playback_daily.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--since", "{{ macros.ds_add(ds, -13) }}"),
        ],
    )
    aggregate = SparkSubmitOperator(
        task_id="aggregate",
        application=str(JOBS / "playback_agg.py"),
        application_args=[
            *("--source", f"{LAKE}.db.{DAG_ID}"),
            *("--target", f"{LAKE}.db.{DAG_ID}_agg"),
            *("--changes", f"{LAKE}.db.{DAG_ID}"),
            *("--before", f"{LAKE}.db.{DAG_ID}_agg"),
            *("--since", "{{ macros.ds_add(ds, -13) }}"),
        ],
    )
    daily >> aggregate
