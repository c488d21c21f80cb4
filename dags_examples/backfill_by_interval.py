"""Playback by day: Airflow's own backfill can process it again day by day.

    airflow backfill create --dag-id backfill_by_interval_incremental --from-date 2026-10-01 --to-date 2026-10-07

Usual runs capture what was added since the last one, for any day, and recompute those days. Each run of a backfill
captures the day of its own interval, whether or not anything was added, and leaves the checkpoint of the usual runs
where it is.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, iceberg_asset

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
SOURCE, TARGET = "db.playback", "db.playback_by_interval"

with DAG(
    "backfill_by_interval_incremental",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2},  # if a live run writes the same day at the same time, one of the two fails
    tags=["ips", "backfill", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables=SOURCE,
        backfill_partitions="event_date = '{{ data_interval_start | ds }}'",
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    refill = SparkSubmitOperator(
        task_id="refill",
        application=str(JOBS / "playback_refill.py"),
        application_args=[
            *("--captured", capture.output[SOURCE]),
            *("--source", f"{LAKE}.{SOURCE}"),
            *("--target", f"{LAKE}.{TARGET}"),
        ],
    )
    commit = IpCommitOperator(
        task_id="commit",
        capture=capture,
        target_assets=iceberg_asset(TARGET, iceberg_conn_id=LAKE),
        target_changes=True,
    )
    capture >> refill >> commit
