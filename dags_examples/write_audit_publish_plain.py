"""Write, audit, publish with a lookback: rebuild the last 14 days on a branch, audit and publish them together.

Every audit checks all 14 days, so a single rejected event keeps all of them unpublished, day after day.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
TARGET = "db.playback_audited_plain"

with DAG(
    "write_audit_publish_plain",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "write-audit-publish", "demo"],
    doc_md=__doc__,
    params={"most_minutes": Param(24 * 60, type="number", title="Longest event that may be published, in minutes")},
):
    branch = "audit_{{ ts_nodash }}"
    on_branch = ["--target", f"{LAKE}.{TARGET}", "--branch", branch]
    from_source = ["--source", f"{LAKE}.db.playback", *on_branch, "--since", "{{ macros.ds_add(ds, -13) }}"]
    write = SparkSubmitOperator(
        task_id="write", application=str(JOBS / "write_to_branch.py"), application_args=from_source
    )
    audit = SparkSubmitOperator(
        task_id="audit",
        application=str(JOBS / "audit_branch.py"),
        application_args=[*from_source, "--most-minutes", "{{ params.most_minutes }}"],
    )
    publish = SparkSubmitOperator(
        task_id="publish", application=str(JOBS / "publish_branch.py"), application_args=[*on_branch, "--repeatable"]
    )
    write >> audit >> publish
