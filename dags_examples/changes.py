"""Changes: a table that is merged into and deleted from, followed row by row.

The source is what the merge example writes. A capture of all three operations is two tables: the rows that are new or
changed, and what changed rows were before. The job aggregates the groups anew that either of them names.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# Spark's name of the catalog, and the Airflow connection to the same one.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "ips_changes",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["ips", "example"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables="db.continue_watching",
        data_operations=("append", "overwrite", "delete"),
        on_superset="allow",
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    aggregate = SparkSubmitOperator(
        task_id="aggregate",
        application=str(JOBS / "changes.py"),
        application_args=[
            *("--source", f"{LAKE}.db.continue_watching"),
            *("--changes", capture.output["db.continue_watching"]),
            *("--before", capture.output["db.continue_watching.before"]),
            *("--target", f"{LAKE}.db.watching_per_title"),
        ],
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> aggregate >> commit
