"""One capture expanded over three tables inside a task group, and a job for each of them."""

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, TaskGroup

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.components.jobs import append_once, obey

TABLES = ("db.one", "db.two", "db.three")


def append_mine(*, ti):
    """Append what the capture of the same index has taken."""
    source, capture_id = (
        ti.xcom_pull(task_ids="etl.capture", map_indexes=ti.map_index, key=key) for key in ("source", "capture_id")
    )
    append_once(source, f"{TABLES[ti.map_index]}_target", capture_id, name=f"mapped.work{ti.map_index}", lake="mapped")


with DAG("mapped", schedule=None), TaskGroup("etl"):
    capture = IpCaptureOperator.partial(task_id="capture", iceberg_conn_id="mapped").expand(
        source_tables=[{"table": table, "key": "source"} for table in TABLES]
    )
    work = PythonOperator.partial(task_id="work", python_callable=append_mine).expand(op_kwargs=[{} for _ in TABLES])
    gate = PythonOperator(task_id="gate", python_callable=obey, op_args=["mapped.gate"])
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> work >> gate >> commit
