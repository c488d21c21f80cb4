"""Playback by the day, which Airflow's own backfill can process again day by day.

    airflow backfill create --dag-id ips_backfill_by_interval --from-date 2026-10-01 --to-date 2026-10-07

Usual runs take what came since the last one, of whatever day, and compute those days anew. Each run of a backfill takes
the day of its own interval, whether anything came or not, and leaves the checkpoint of the usual runs where it is.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, iceberg_asset

# Spark's name of the catalog, and the Airflow connection to the same one.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
SOURCE, TARGET = "db.playback", "db.playback_by_interval"

with DAG(
    "ips_backfill_by_interval",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2},  # a live run may write the same day at the same time: then one of the two fails
    tags=["ips", "example"],
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
