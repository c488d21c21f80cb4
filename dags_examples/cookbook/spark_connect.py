"""Spark Connect: the job is a function, and its Spark is a server elsewhere.

The connection `spark_connect` leads to that server, which has the catalog in its own settings. The task ends when the
function does.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

with DAG(
    "cookbook_spark_connect",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["ips", "cookbook"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id="lake", engine_catalog="lake"
    )

    @task.pyspark(conn_id="spark_connect")
    def merge(source: str, target: str, spark: SparkSession) -> None:
        """Merge the captured rows."""
        spark.sql(
            f"""MERGE INTO {target} AS t
                USING (SELECT account_id, title_id, max(event_time) AS event_time
                       FROM {source} GROUP BY account_id, title_id) AS s
                ON t.account_id = s.account_id AND t.title_id = s.title_id
                WHEN MATCHED AND s.event_time > t.event_time THEN UPDATE SET event_time = s.event_time
                WHEN NOT MATCHED THEN INSERT (account_id, title_id, event_time)
                    VALUES (s.account_id, s.title_id, s.event_time)"""
        )

    merged = merge(capture.output["db.playback"], "lake.db.continue_watching")
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merged >> commit
