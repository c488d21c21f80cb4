"""A job that reads a fixed name, and takes no argument, setting or environment variable.

A view has that name, and the task of the job makes it point to what its own run has captured, right before the job. So
a person who clears this task alone gets the rows of that run again, or an error once they were removed; a view that
another task had made might be that of a later run by then. `max_active_tis_per_dag=1` keeps a second run from moving
the view while the job reads it. The catalog has to keep views: REST catalogs, Hive, and JDBC with
`jdbc.schema-version=V1` do.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

with DAG(
    "cookbook_fixed_name",
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
    merge = BashOperator(
        task_id="merge",
        bash_command='spark-sql -e "CREATE OR REPLACE VIEW lake.db.playback_new AS SELECT * FROM $SOURCE" && ./job',
        cwd="/opt/jobs",
        env={"SOURCE": capture.output["db.playback"]},
        append_env=True,
        max_active_tis_per_dag=1,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
