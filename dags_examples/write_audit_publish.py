"""Write, audit, publish: rows go to a branch of the target first, and readers see them after they have been checked.

The commit requires that they are published. If the audit fails, the target and the checkpoint stay as they were. A run
that failed, for whatever reason, blocks the next one until it has been cleared and has succeeded: it may have published
its rows, and the next one would publish the same rows again.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
TARGET = "db.playback_audited"

with DAG(
    "write_audit_publish_incremental",
    schedule="@daily",
    catchup=False,
    # Not max_active_runs=1: runs that wait for a failed one are active, and the failed one could not be rerun.
    tags=["ips", "write-audit-publish", "demo"],
    doc_md=__doc__,
    params={"most_minutes": Param(24 * 60, type="number", title="Longest event that may be published, in minutes")},
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        follow_params=False,  # a requested run would insert old rows again
        wait_for_downstream=True,  # a failed run may have inserted rows that the next run would insert again
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    # The name contains the capture's id: an old run that is cleared can publish only its own rows.
    branch = f"audit_{capture.output['capture_id']}"
    stamp = {"spark.sql.iceberg.snapshot-property.ips-capture-id": capture.output["capture_id"]}
    on_branch = ["--target", f"{LAKE}.{TARGET}", "--branch", branch]
    from_source = ["--source", capture.output["db.playback"], *on_branch]
    write = SparkSubmitOperator(
        task_id="write", application=str(JOBS / "write_to_branch.py"), application_args=from_source, conf=stamp
    )
    audit = SparkSubmitOperator(
        task_id="audit",
        application=str(JOBS / "audit_branch.py"),
        application_args=[*from_source, "--most-minutes", "{{ params.most_minutes }}"],
        conf=stamp,
    )
    publish = SparkSubmitOperator(
        task_id="publish", application=str(JOBS / "publish_branch.py"), application_args=on_branch, conf=stamp
    )
    commit = IpCommitOperator(task_id="commit", capture=capture, verify_target=TARGET)
    capture >> write >> audit >> publish >> commit
