"""Row filter: re-aggregate the groups that gained rows, from all their rows.

The job reads the source itself, and uses the captured rows only to find these groups. If the engine can prune by the
group (here: by partition), it reads only the relevant part of the source.
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

with DAG(
    "row_filter_incremental",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "row-filter", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    aggregate = SparkSubmitOperator(
        task_id="aggregate",
        application=str(JOBS / "row_filter.py"),
        application_args=[
            *("--source", f"{LAKE}.db.playback"),
            *("--changes", capture.output["db.playback"]),
            *("--target", f"{LAKE}.db.titles_per_day"),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> aggregate >> commit
