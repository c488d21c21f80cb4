"""Databricks SQL: a statement on a SQL warehouse.

The ICDC table is read through a foreign catalog, such as Glue's or a Hive Metastore's by Lakehouse Federation. The
target is a table of Unity Catalog, because foreign tables are read-only.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.databricks.operators.databricks_sql import DatabricksSqlOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

with DAG(
    "cookbook_databricks_sql",
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
    merge = DatabricksSqlOperator(
        task_id="merge",
        http_path="/sql/1.0/warehouses/0123456789abcdef",
        sql=f"""
            MERGE INTO main.db.continue_watching AS t
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
