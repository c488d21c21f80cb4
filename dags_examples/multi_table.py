"""Multi-table: one capture over two sources of the same kind of event, committed together.

Both positions move in one write, or neither does. Merging each event by key is right whatever the two captures contain.
A join of two sources that both gain rows has to join the new rows of each with old rows of the other, as the example
multi_table_join does.
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
    "multi_table_incremental",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "multi-table", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables=["db.playback", "db.downloads"],
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    merge = SparkSubmitOperator(
        task_id="merge",
        application=str(JOBS / "multi_table.py"),
        application_args=[
            *("--source", capture.output["db.playback"]),
            *("--source", capture.output["db.downloads"]),
            *("--target", f"{LAKE}.db.viewing"),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
