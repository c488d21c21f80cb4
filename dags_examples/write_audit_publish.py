"""Write, audit, publish: rows go to a branch of the target first, and readers see them once they were looked at.

The commit wants to see them published. If the audit fails, the target and the checkpoint stay as they were. A run that
failed, for whatever reason, keeps the next one waiting until it was cleared and has succeeded: it may have published,
and the next one would publish the same rows once more.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# Spark's name of the catalog, and the Airflow connection to the same one.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
TARGET = "db.playback_audited"

with DAG(
    "ips_write_audit_publish",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    # Not max_active_runs=1: runs that wait for one that failed are active, and it needs a place to be run again.
    tags=["ips", "example"],
    doc_md=__doc__,
    params={"most_minutes": Param(24 * 60, type="number", title="Longest event that may be published, in minutes")},
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        follow_params=False,  # rows that came before would be inserted again
        wait_for_downstream=True,  # a run that failed may have inserted, and the next one would do so again
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    # The name says which capture: an old run that is cleared can publish nothing but its own.
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
