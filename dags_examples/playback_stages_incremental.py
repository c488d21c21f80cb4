"""Two stages of playback, incremental: merge the new rows, and re-aggregate what the merge changed.

Stage 1 merges, and so writes changes: stage 2 captures all three operations, as two tables. Rows that a correction
moved to another account are in both, so the totals of both accounts are recomputed; an account without any rows left is
deleted.

No task has a window. A row of any day is processed once, in the first run after it arrived.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, iceberg_asset

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "playback_stages_incremental"

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "playback", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        ignore_downstream_trigger_rules=False,  # stage 2 may have to catch up on a day without events
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    daily = SparkSubmitOperator(
        task_id="daily",
        application=str(JOBS / "playback_daily.py"),
        application_args=[
            *("--source", capture.output["db.playback"]),
            *("--target", f"{LAKE}.db.{DAG_ID}"),
        ],
    )
    commit = IpCommitOperator(
        task_id="commit",
        capture=capture,
        target_assets=iceberg_asset(f"db.{DAG_ID}", iceberg_conn_id=LAKE),
        target_changes=True,  # it merges: a downstream stage that captures only appends is refused
    )

    capture_changes = IpCaptureOperator(
        task_id="capture_changes",
        source_tables=f"db.{DAG_ID}",
        data_operations=("append", "overwrite", "delete"),
        on_superset="allow",  # the job uses only the keys of the captured rows
        trigger_rule="none_failed",
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    aggregate = SparkSubmitOperator(
        task_id="aggregate",
        application=str(JOBS / "playback_agg.py"),
        application_args=[
            *("--source", f"{LAKE}.db.{DAG_ID}"),
            *("--target", f"{LAKE}.db.{DAG_ID}_agg"),
            *("--changes", capture_changes.output[f"db.{DAG_ID}"]),
            *("--before", capture_changes.output[f"db.{DAG_ID}.before"]),
        ],
    )
    commit_changes = IpCommitOperator(task_id="commit_changes", capture=capture_changes)

    capture >> daily >> commit >> capture_changes >> aggregate >> commit_changes
