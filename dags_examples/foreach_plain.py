"""Foreach with a lookback: one mapped Spark task for each of the last 14 days, in every run."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "foreach_plain"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "foreach", "demo"],
    doc_md=__doc__,
):

    @task
    def arguments(newest: str) -> list[list[str]]:
        """Return the arguments of each mapped task: one day of the window."""
        days = [(date.fromisoformat(newest) - timedelta(days=ago)).isoformat() for ago in range(14)]
        names = ["--source", f"{LAKE}.db.playback", "--target", f"{LAKE}.db.{DAG_ID}", "--days"]
        return [[*names, day] for day in days]

    shares = arguments("{{ ds }}")
    redo = SparkSubmitOperator.partial(task_id="redo", application=str(JOBS / "foreach.py")).expand(
        application_args=shares
    )
