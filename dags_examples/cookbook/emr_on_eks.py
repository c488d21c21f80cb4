"""Amazon EMR on EKS: a job run of a virtual cluster.

The catalog goes into the configuration of the job run.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.amazon.aws.operators.emr import EmrContainerOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

SPARK = {
    "spark.jars": "local:///usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "glue",
    "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "spark.sql.catalog.lake.warehouse": "s3://my-bucket/warehouse",
}
STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"

with DAG(
    "cookbook_emr_on_eks",
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
    merge = EmrContainerOperator(
        task_id="merge",
        name="merge-playback",
        virtual_cluster_id="0example0virtual0cluster",
        execution_role_arn="arn:aws:iam::123456789012:role/emr-on-eks-job",
        release_label="emr-7.9.0-latest",
        job_driver={
            "sparkSubmitJobDriver": {
                "entryPoint": "s3://my-bucket/jobs/merge.py",
                "entryPointArguments": [
                    *("--source", capture.output["db.playback"]),
                    *("--target", "lake.db.continue_watching"),
                ],
            }
        },
        configuration_overrides={
            "applicationConfiguration": [
                {"classification": "spark-defaults", "properties": {**SPARK, STAMP: capture.output["capture_id"]}}
            ]
        },
        wait_for_completion=True,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
