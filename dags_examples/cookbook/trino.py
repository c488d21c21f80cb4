"""Trino, or any database with a SQL connection: one statement, into which Airflow puts the name.

`engine_catalog` is the catalog in Trino that shows the same tables as the connection `lake`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

with DAG(
    "cookbook_trino",
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
    merge = SQLExecuteQueryOperator(
        task_id="merge",
        conn_id="trino_default",
        sql=f"""
            MERGE INTO lake.db.continue_watching AS t
            USING (
                SELECT account_id, title_id, max(event_time) AS event_time
                FROM {capture.output["db.playback"]} GROUP BY account_id, title_id
            ) AS s
            ON t.account_id = s.account_id AND t.title_id = s.title_id
            WHEN MATCHED AND s.event_time > t.event_time THEN UPDATE SET event_time = s.event_time
            WHEN NOT MATCHED THEN INSERT (account_id, title_id, event_time)
                VALUES (s.account_id, s.title_id, s.event_time)
            """,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
