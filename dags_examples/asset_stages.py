"""Table changes start DAGs: stage 1 when its source gains rows, stage 2 when stage 1 has written its target.

An event only decides when a run starts. What it reads is decided by its checkpoint and the table, so an event that is
lost, merged with another or repeated costs a wake-up but no row. If you cannot wait for the next append, add a clock,
as the third DAG does.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable

from airflow_provider_ips import IcebergAppendTrigger, IpCaptureOperator, IpCommitOperator, iceberg_asset

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
COMMON = {"max_active_runs": 1, "tags": ["ips", "asset-driven", "demo"]}

appends = IcebergAppendTrigger(table="db.playback", iceberg_conn_id=LAKE, poll_interval=60)
PLAYBACK = iceberg_asset("db.playback", iceberg_conn_id=LAKE, watchers=[AssetWatcher(name="appends", trigger=appends)])
LOG = iceberg_asset("db.playback_log_watched", iceberg_conn_id=LAKE)

with DAG("asset_stages_incremental_1", schedule=[PLAYBACK], doc_md=__doc__, **COMMON):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        follow_params=False,  # a requested run would insert old rows again
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    insert = SparkSubmitOperator(
        task_id="insert",
        application=str(JOBS / "append.py"),
        application_args=["--source", capture.output["db.playback"], "--target", f"{LAKE}.db.playback_log_watched"],
        conf={"spark.sql.iceberg.snapshot-property.ips-capture-id": capture.output["capture_id"]},
    )
    commit = IpCommitOperator(task_id="commit", capture=capture, target_assets=LOG)
    capture >> insert >> commit

with DAG("asset_stages_incremental_2", schedule=[LOG], doc_md=__doc__, **COMMON):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback_log_watched", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    aggregate = SparkSubmitOperator(
        task_id="aggregate",
        application=str(JOBS / "row_filter.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback_log_watched"),
            *("--changes", capture.output["db.playback_log_watched"]),
            *("--target", f"{LAKE}.db.titles_per_day_watched"),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> aggregate >> commit

# At six in any case: an event may have been lost, or the triggerer may have been down.
morning = CronTriggerTimetable("0 6 * * *", timezone="UTC")

with DAG(
    "asset_or_time_incremental",
    schedule=AssetOrTimeSchedule(timetable=morning, assets=[PLAYBACK]),
    catchup=False,
    doc_md=__doc__,
    **COMMON,
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    merge = SparkSubmitOperator(
        task_id="merge",
        application=str(JOBS / "merge.py"),
        application_args=["--source", capture.output["db.playback"], "--target", f"{LAKE}.db.watching_by_event"],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
