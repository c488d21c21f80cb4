"""A shell command: spark-submit, or any other program that takes a name.

The name comes by the environment, so the shell never takes it for anything else. The command has to wait for the job:
in cluster mode, spark-submit does so unless `spark.yarn.submit.waitAppCompletion`, or
`spark.kubernetes.submission.waitAppCompletion`, is set to false.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

with DAG(
    "cookbook_bash",
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
        bash_command='spark-submit --conf "$STAMP=$CAPTURE_ID" merge.py --source "$SOURCE" --target "$TARGET"',
        cwd="/opt/jobs",
        env={
            "SOURCE": capture.output["db.playback"],
            "TARGET": "lake.db.continue_watching",
            "STAMP": "spark.sql.iceberg.snapshot-property.ips-capture-id",
            "CAPTURE_ID": capture.output["capture_id"],
        },
        append_env=True,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
