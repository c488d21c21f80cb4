"""A DAG that reads the table that a param names, and one that runs it between capture and commit."""

from datetime import timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.kit.jobs import obey


def merge(source, target):
    """Append the ids that the target does not have."""
    from airflow_provider_ips.hooks.ips import IpsHook

    obey("wrapping.merge")
    catalog = IpsHook("wrapping").catalog
    table = catalog.load_table(target)
    known = table.scan().to_arrow()["id"].to_pylist()
    found = catalog.load_table(source).scan().to_arrow()
    table.append(found.filter([number not in known for number in found["id"].to_pylist()]))


with DAG("wrapped", schedule=None, params={"SOURCE_TABLE": "db.wrapping"}):
    work = PythonOperator(
        task_id="work", python_callable=merge, op_args=["{{ params.SOURCE_TABLE }}", "db.wrapping_target"]
    )
    work >> PythonOperator(task_id="check", python_callable=obey, op_args=["wrapping.check"])

with DAG("wrapping", schedule=None):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.wrapping", iceberg_conn_id="wrapping")
    run = TriggerDagRunOperator(
        task_id="run",
        trigger_dag_id="wrapped",
        trigger_run_id=capture.output["db.wrapping"],  # type: ignore[arg-type]  # an output is replaced by its value
        conf={"SOURCE_TABLE": capture.output["db.wrapping"]},
        reset_dag_run=True,
        wait_for_completion=True,
        poke_interval=1,
        retries=1,
        retry_delay=timedelta(0),
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> run >> commit
