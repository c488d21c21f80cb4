"""Google Dataproc: a PySpark job on a running cluster."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.google.cloud.operators.dataproc import DataprocSubmitJobOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

SPARK = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": "https://catalog.example.com/iceberg",
    "spark.sql.catalog.lake.warehouse": "lake",
    "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0",
}
STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"

with DAG(
    "cookbook_dataproc",
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
    merge = DataprocSubmitJobOperator(
        task_id="merge",
        project_id="my-project",
        region="europe-west1",
        job={
            "placement": {"cluster_name": "my-cluster"},
            "pyspark_job": {
                "main_python_file_uri": "gs://my-bucket/jobs/merge.py",
                "args": [
                    *("--source", capture.output["db.playback"]),
                    *("--target", "lake.db.continue_watching"),
                ],
                "properties": {**SPARK, STAMP: capture.output["capture_id"]},
            },
        },
        asynchronous=False,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
