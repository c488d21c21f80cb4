"""Append: what the source gained is inserted into the target.

The capture's id goes into the target's snapshot, so that a second attempt of the insert finds that the first one got
through and leaves the target alone. A run that failed keeps the next one waiting until it was cleared and has
succeeded: that one would cover the same rows under an id of its own. Two attempts that overlap may both insert.
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

with DAG(
    "ips_append",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    # Not max_active_runs=1: runs that wait for one that failed are active, and it needs a place to be run again.
    tags=["ips", "example"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        follow_params=False,  # rows that came before would be inserted again
        wait_for_downstream=True,  # a run that failed may have inserted, and the next one would do so again
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    insert = SparkSubmitOperator(
        task_id="insert",
        application=str(JOBS / "append.py"),
        application_args=["--source", capture.output["db.playback"], "--target", f"{LAKE}.db.playback_log"],
        conf={"spark.sql.iceberg.snapshot-property.ips-capture-id": capture.output["capture_id"]},
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> insert >> commit
