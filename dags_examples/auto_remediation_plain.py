"""A pipeline that repairs itself: after a failure, a recovery and a second try of the job, over the whole table."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "auto_remediation_plain"
# The job stops at the events that the recovery looks for: if the two differed, every run would fail.
IMPOSSIBLE = "watched_seconds IS NULL OR watched_seconds NOT BETWEEN 0 AND 86400"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "remediation", "demo"],
    doc_md=__doc__,
):
    daily = SparkSubmitOperator(
        task_id="daily",
        application=str(JOBS / "auto_remediation.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--quarantine", f"{LAKE}.db.{DAG_ID}_quarantine"),
            *("--impossible", IMPOSSIBLE),
        ],
    )
    recover = SparkSubmitOperator(
        task_id="recover",
        application=str(JOBS / "quarantine.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--quarantine", f"{LAKE}.db.{DAG_ID}_quarantine"),
            *("--impossible", IMPOSSIBLE),
        ],
        trigger_rule="one_failed",
    )
    daily_again = SparkSubmitOperator(
        task_id="daily_again",
        application=str(JOBS / "auto_remediation.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--quarantine", f"{LAKE}.db.{DAG_ID}_quarantine"),
            *("--impossible", IMPOSSIBLE),
        ],
    )
    daily >> recover >> daily_again
