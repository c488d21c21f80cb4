"""The daily playback job, plain: it reads 14 days again in every run, because late events may lie anywhere in them.

Compare it with playback_incremental.py, which has two more tasks, one changed argument, the trigger form and no window.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "playback_plain"

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
        application=str(JOBS / "playback_quality.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--since", "{{ macros.ds_add(ds, -13) }}"),
        ],
    )
