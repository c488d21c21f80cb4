"""Memberships: what the table gained is appended to the log, once as long as failed runs are cleared.

The capture's id goes into the snapshot that the insert makes. A second attempt finds it there and leaves the log
alone, of two that overlap one fails, and the commit demands to find it before the checkpoint moves. A run that failed
keeps the next one waiting: that one would cover the same rows under an id of its own.
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
    # Not max_active_runs=1: runs that wait for one that failed are active, and it needs a place to be run again.
    tags=["ips", "example"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.membership",
        follow_params=False,  # rows that came before would be inserted again
        wait_for_downstream=True,  # a run that failed may have inserted, and the next one would do so again
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
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
