"""A pipeline that repairs itself: after a failure, a recovery and a second try of the job, in the same run.

The second try reads the same ICDC table as the first, so it covers the range that failed, including days that were
already written. The commit requires the success of one of the two. If the recovery fails, so does the run: the
checkpoint stays where it is, and the next run covers the range.
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
DAG_ID = "auto_remediation_incremental"
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
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    daily = SparkSubmitOperator(
        task_id="daily",
        application=str(JOBS / "auto_remediation.py"),
        application_args=[
            *("--source", capture.output["db.playback"]),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--quarantine", f"{LAKE}.db.{DAG_ID}_quarantine"),
            *("--impossible", IMPOSSIBLE),
        ],
    )
    recover = SparkSubmitOperator(
        task_id="recover",
        application=str(JOBS / "quarantine.py"),
        application_args=[
            *("--source", capture.output["db.playback"]),
            *("--quarantine", f"{LAKE}.db.{DAG_ID}_quarantine"),
            *("--impossible", IMPOSSIBLE),
        ],
        trigger_rule="one_failed",
    )
    daily_again = SparkSubmitOperator(
        task_id="daily_again",
        application=str(JOBS / "auto_remediation.py"),
        application_args=[
            *("--source", capture.output["db.playback"]),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
            *("--quarantine", f"{LAKE}.db.{DAG_ID}_quarantine"),
            *("--impossible", IMPOSSIBLE),
        ],
    )
    commit = IpCommitOperator(
        task_id="commit",
        capture=capture,
        require=[(daily, daily_again)],
        trigger_rule="all_done",  # it checks by itself which tasks succeeded
    )
    capture >> daily >> recover >> daily_again >> commit
    daily >> commit
