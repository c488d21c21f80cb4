"""Databricks: a Spark job in a run of its own, on a cluster with Iceberg's runtime.

The catalog is an Iceberg catalog of Spark, set on the cluster. The name is a parameter of the Python file.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

SPARK = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": "https://catalog.example.com/iceberg",
    "spark.sql.catalog.lake.warehouse": "lake",
    "spark.sql.catalog.lake.credential": "{% raw %}{{secrets/lake/credential}}{% endraw %}",
}
STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"

with DAG(
    "cookbook_databricks",
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
    merge = DatabricksSubmitRunOperator(
        task_id="merge",
        tasks=[
            {
                "task_key": "merge",
                "spark_python_task": {
                    "python_file": "s3://my-bucket/jobs/merge.py",
                    "parameters": [
                        *("--source", capture.output["db.playback"]),
                        *("--target", "lake.db.continue_watching"),
                    ],
                },
                "new_cluster": {
                    "spark_version": "16.4.x-scala2.12",
                    "num_workers": 2,
                    "spark_conf": {**SPARK, STAMP: capture.output["capture_id"]},
                },
                "libraries": [{"maven": {"coordinates": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0"}}],
            }
        ],
        wait_for_termination=True,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
