"""Memberships with a lookback: every run rebuilds the last 14 days of the log."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "membership_plain"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "membership", "needs-setup"],
    doc_md=__doc__,
):
    load = SparkSubmitOperator(
        task_id="load",
        application=str(JOBS / "membership.py"),
        application_args=[
            *("--source", f"{LAKE}.db.membership"),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--since", "{{ macros.ds_add(ds, -13) }}"),
        ],
    )
