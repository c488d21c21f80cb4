"""AWS Glue: a run of a Spark job.

Glue hands its arguments to the script by name: `getResolvedOptions(sys.argv, ["source", "target"])`, or argparse with
`parse_known_args`, because Glue adds arguments of its own. All of Spark's settings are one argument, `--conf`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

SPARK = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "glue",
    "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "spark.sql.catalog.lake.warehouse": "s3://my-bucket/warehouse",
}
STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"

with DAG(
    "cookbook_glue",
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
    settings = {**SPARK, STAMP: capture.output["capture_id"]}
    merge = GlueJobOperator(
        task_id="merge",
        job_name="merge_playback",
        script_location="s3://my-bucket/jobs/merge.py",
        iam_role_name="glue-job",
        create_job_kwargs={"GlueVersion": "5.0", "NumberOfWorkers": 2, "WorkerType": "G.1X"},
        script_args={
            "--datalake-formats": "iceberg",
            "--conf": " --conf ".join(f"{key}={value}" for key, value in settings.items()),
            "--source": capture.output["db.playback"],
            "--target": "lake.db.continue_watching",
        },
        wait_for_completion=True,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
