"""Memberships: what the table gained is appended to the log, exactly once.

The capture's id goes into the snapshot that the insert makes. A second attempt finds it there and leaves the log
alone, and the commit demands to find it before the checkpoint moves.
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
DAG_ID = "membership_incremental"

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
        task_id="capture", source_tables="db.membership", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    load = SparkSubmitOperator(
        task_id="load",
        application=str(JOBS / "membership.py"),
        application_args=[
            *("--source", capture.output["db.membership"]),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
        ],
        conf={"spark.sql.iceberg.snapshot-property.ips-capture-id": capture.output["capture_id"]},
    )
    commit = IpCommitOperator(task_id="commit", capture=capture, verify_target=f"db.{DAG_ID}")
    capture >> load >> commit
