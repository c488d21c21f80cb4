"""Foreach: one mapped Spark task for each partition with captured rows; no other partition is computed.

Airflow maps at most `[core] max_map_length` tasks. If more than `MOST_TASKS` days have captured rows, each task
processes several of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
DAG_ID = "foreach_incremental"
MOST_TASKS = 64

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "foreach", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )

    @task
    def arguments(record: dict[str, Any]) -> list[list[str]]:
        """Return the arguments of each mapped task: one day with captured rows, or its share of very many."""
        from airflow_provider_ips.hooks.ips import IpsHook
        from airflow_provider_ips.iceberg import captured_partitions

        (source,) = record["sources"]
        partitions = captured_partitions(IpsHook(LAKE).catalog, source["icdc_table"])
        days = [partition["event_date"] for partition in partitions]
        names = ["--source", f"{LAKE}.db.playback", "--target", f"{LAKE}.db.{DAG_ID}", "--days"]
        return [[*names, *days[nth::MOST_TASKS]] for nth in range(min(len(days), MOST_TASKS))]

    shares = arguments(capture.output["capture"])  # type: ignore[arg-type]  # a task output is replaced by its value
    redo = SparkSubmitOperator.partial(task_id="redo", application=str(JOBS / "foreach.py")).expand(
        application_args=shares
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    redo >> commit
