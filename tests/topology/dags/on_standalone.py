"""The append example as a DAG of its own, submitted to whatever master the connection `spark_default` names."""

from __future__ import annotations

from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

JOBS = Path(__file__).parents[3] / "dags_examples" / "jobs"

with DAG(dag_id="on_standalone", schedule=None) as dag:
    SparkSubmitOperator(
        task_id="append",
        name="append",
        application=str(JOBS / "append.py"),
        application_args=["--source", "lake.db.playback", "--target", "lake.db.watched"],
    )

if __name__ == "__main__":
    run = dag.test()
    states = {instance.task_id: str(instance.state) for instance in run.get_task_instances()}
    print(f"{run.state} {states}")
    if run.state != "success":
        raise SystemExit(1)
