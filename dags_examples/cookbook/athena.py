"""Amazon Athena: SQL over tables of the Glue Data Catalog.

The statement is a template, into which Airflow puts the name. The operator polls until the query has ended.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.amazon.aws.operators.athena import AthenaOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

with DAG(
    "cookbook_athena",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["ips", "cookbook"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id="lake", engine_catalog="awsdatacatalog"
    )
    merge = AthenaOperator(
        task_id="merge",
        database="db",
        workgroup="primary",
        output_location="s3://my-bucket/athena-results/",
        query=f"""
            MERGE INTO awsdatacatalog.db.continue_watching AS t
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
