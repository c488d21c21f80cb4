"""Append: insert what the source gained into the target.

The capture's id goes into the target's snapshot, so a second attempt of the insert sees that the first one succeeded
and changes nothing. A failed run blocks the next one until it has been cleared and has succeeded: the next one would
cover the same rows with a different id. Two overlapping attempts may both insert.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "append_incremental",
    schedule="@daily",
    catchup=False,
    # Not max_active_runs=1: runs that wait for a failed one are active, and the failed one could not be rerun.
    tags=["ips", "append", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        follow_params=False,  # a requested run would insert old rows again
        wait_for_downstream=True,  # a failed run may have inserted rows that the next run would insert again
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
