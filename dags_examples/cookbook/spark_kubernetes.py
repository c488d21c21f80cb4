"""Spark on Kubernetes by its operator: a `SparkApplication`.

The task follows the driver's pod until that has ended.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

SPARK = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": "http://polaris.catalog:8181/api/catalog",
    "spark.sql.catalog.lake.warehouse": "lake",
}
STAMP = "spark.sql.iceberg.snapshot-property.ips-capture-id"

with DAG(
    "cookbook_spark_kubernetes",
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
    merge = SparkKubernetesOperator(
        task_id="merge",
        namespace="spark",
        template_spec={
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": "merge-playback", "namespace": "spark"},
            "spec": {
                "type": "Python",
                "mode": "cluster",
                "sparkVersion": "4.0.1",
                "image": "registry.example.com/spark-iceberg:4.0.1",
                "mainApplicationFile": "local:///opt/jobs/merge.py",
                "arguments": [
                    *("--source", capture.output["db.playback"]),
                    *("--target", "lake.db.continue_watching"),
                ],
                "sparkConf": {**SPARK, STAMP: capture.output["capture_id"]},
                "driver": {"cores": 1, "memory": "2g", "serviceAccount": "spark"},
                "executor": {"cores": 2, "instances": 2, "memory": "4g"},
            },
        },
        # Else a second attempt takes the driver of the first one for its own, whatever that was given.
        reattach_on_restart=False,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> merge >> commit
