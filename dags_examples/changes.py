"""Changes: follow a table whose rows are merged and deleted.

The source is the table that the merge example writes. A capture of all three operations gives two tables: the new and
changed rows, and the earlier versions of changed rows. The job re-aggregates the groups in either of them.
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
    "changes_incremental",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "changes", "demo"],
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
