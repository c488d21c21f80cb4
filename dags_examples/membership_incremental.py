"""Memberships: append what the table gained to the log, exactly once as long as failed runs are cleared.

The capture's id goes into the snapshot of the insert. A second attempt finds it there and changes nothing, one of two
overlapping attempts fails, and the commit requires the id before the checkpoint moves. A failed run blocks the next
one, which would cover the same rows with a different id.
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
DAG_ID = "membership_incremental"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    # Not max_active_runs=1: runs that wait for a failed one are active, and the failed one could not be rerun.
    tags=["ips", "membership", "needs-setup"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.membership",
        follow_params=False,  # a requested run would insert old rows again
        wait_for_downstream=True,  # a failed run may have inserted rows that the next run would insert again
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
