"""Amazon EMR: a step on a running cluster.

The cluster has the catalog `lake` in its `spark-defaults`. Without `wait_for_completion`, the
operator returns at once.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"

with DAG(
    "cookbook_emr_steps",
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
    merge = EmrAddStepsOperator(
        task_id="merge",
        job_flow_id="j-2AXXXXXXGAPLF",
        steps=[
            {
                "Name": "merge playback",
                "ActionOnFailure": "CONTINUE",
                "HadoopJarStep": {
                    "Jar": "command-runner.jar",
                    "Args": [
                        *("spark-submit", "--deploy-mode", "cluster"),
                        *("--conf", f"{STAMP}={capture.output['capture_id']}"),
                        "s3://my-bucket/jobs/merge.py",
                        *("--source", capture.output["db.playback"]),
                        *("--target", "lake.db.continue_watching"),
                    ],
                },
            }
        ],
        wait_for_completion=True,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
