"""Process some days of playback again, in chunks, while the usual runs of playback_stages_incremental continue.

Trigger it with *Capture: Some partitions, in full* and, for example, the filter
`event_date between '2026-10-01' and '2026-10-28'`; with a *Dry run* first. Each chunk is an instance of the group:
watch them in the grid, and clear only those that failed.
The second stage is not part of this: its next usual run captures what has really changed.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task_group

from airflow_provider_ips import IpBackfillOperator, IpCaptureOperator, IpCommitOperator, iceberg_asset, ips_params

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
SOURCE, TARGET = "db.playback", "db.playback_stages_incremental"

with DAG(
    "backfill_incremental",
    schedule=None,
    default_args={"retries": 2},  # if a live run writes the same day at the same time, one of the two fails
    params=ips_params(),
    tags=["ips", "backfill", "demo"],
    doc_md=__doc__,
):
    plan = IpBackfillOperator(
        task_id="plan",
        source_table=SOURCE,
        iceberg_conn_id=LAKE,
        max_partitions=7,  # a week at a time
        runs=("partitions", "full"),  # the job rewrites whole days
        target_tables=TARGET,
        stages=[TARGET, f"{TARGET}_agg"],
    )

    @task_group
    def chunk(chunk: dict[str, object]) -> None:
        """Capture, process and commit some days; the checkpoint of the usual runs stays where it is."""
        capture = IpCaptureOperator(
            task_id="capture", source_tables=SOURCE, iceberg_conn_id=LAKE, engine_catalog=LAKE, chunk=chunk
        )
        refill = SparkSubmitOperator(
            task_id="refill",
            application=str(JOBS / "playback_refill.py"),
            application_args=[
                *("--captured", capture.output[SOURCE]),
                *("--source", f"{LAKE}.{SOURCE}"),  # as it is by then: live runs continue
                *("--target", f"{LAKE}.{TARGET}"),
            ],
            max_active_tis_per_dagrun=2,  # how many chunks are processed at a time
        )
        commit = IpCommitOperator(
            task_id="commit",
            capture=capture,
            # Starts the stages that are scheduled on the target; others follow with their next scheduled run.
            target_assets=iceberg_asset(TARGET, iceberg_conn_id=LAKE),
        )
        capture >> refill >> commit

    chunk.expand(chunk=plan.output)
