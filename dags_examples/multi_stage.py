"""Multi-stage: the second stage captures what the first one wrote.

Two DAGs, connected by an asset: the commit of the first starts the second. What the second reads is decided by its own
checkpoint, so an event that is lost, merged with another or repeated costs only time.

The first stage only inserts. Downstream of a stage that merges, capture changes, as the changes example does.
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
LOG = iceberg_asset("db.playback_log_staged", iceberg_conn_id=LAKE)
COMMON = {"tags": ["ips", "multi-stage", "demo"]}

with DAG("multi_stage_incremental_1", schedule="@daily", catchup=False, doc_md=__doc__, **COMMON):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.playback",
        follow_params=False,  # a requested run would insert old rows again
        wait_for_downstream=True,  # a failed run may have inserted rows that the next run would insert again
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    insert = SparkSubmitOperator(
        task_id="insert",
        application=str(JOBS / "append.py"),
        application_args=["--source", capture.output["db.playback"], "--target", f"{LAKE}.db.playback_log_staged"],
        conf={"spark.sql.iceberg.snapshot-property.ips-capture-id": capture.output["capture_id"]},
    )
    commit = IpCommitOperator(task_id="commit", capture=capture, target_assets=LOG)
    capture >> insert >> commit

with DAG("multi_stage_incremental_2", schedule=[LOG], max_active_runs=1, doc_md=__doc__, **COMMON):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback_log_staged", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    aggregate = SparkSubmitOperator(
        task_id="aggregate",
        application=str(JOBS / "row_filter.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback_log_staged"),
            *("--changes", capture.output["db.playback_log_staged"]),
            *("--target", f"{LAKE}.db.titles_per_day_staged"),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> aggregate >> commit
