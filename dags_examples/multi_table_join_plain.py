"""Multi-table join, plain: all plays are joined with all downloads, and the target is overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

# The name of the catalog in Spark.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "multi_table_join_plain",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "multi-table", "demo"],
    doc_md=__doc__,
):
    join = SparkSubmitOperator(
        task_id="join",
        application=str(JOBS / "multi_table_join.py"),
        application_args=[
            *("--plays", f"{LAKE}.db.playback"),
            *("--new-plays", f"{LAKE}.db.playback"),
            *("--plays-from", ""),
            *("--downloads", f"{LAKE}.db.downloads"),
            *("--new-downloads", f"{LAKE}.db.downloads"),
            *("--downloads-from", ""),
            *("--downloads-to", "main"),
            *("--target", f"{LAKE}.db.downloads_played_plain"),
        ],
    )
