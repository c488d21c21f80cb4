"""Google Dataproc Serverless: a batch.

Without `batch_id`, each attempt is a batch of its own. With an id that stays the same, a second attempt finds the batch
of the first one and submits nothing, even if the capture is another one by now.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.google.cloud.operators.dataproc import DataprocCreateBatchOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

SPARK = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": "https://catalog.example.com/iceberg",
    "spark.sql.catalog.lake.warehouse": "lake",
    "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.13:1.10.0",
}
STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"

with DAG(
    "cookbook_dataproc_serverless",
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
    merge = DataprocCreateBatchOperator(
        task_id="merge",
        project_id="my-project",
        region="europe-west1",
        batch={
            "pyspark_batch": {
                "main_python_file_uri": "gs://my-bucket/jobs/merge.py",
                "args": [
                    *("--source", capture.output["db.playback"]),
                    *("--target", "lake.db.continue_watching"),
                ],
            },
            "runtime_config": {"version": "2.3", "properties": {**SPARK, STAMP: capture.output["capture_id"]}},
        },
        asynchronous=False,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
