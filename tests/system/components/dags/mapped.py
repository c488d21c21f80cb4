"""A task group of capture, job and commit, expanded over three tables."""

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, task_group

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.kit.jobs import append_once, obey

TABLES = ("db.one", "db.two", "db.three")


def append_mine(*, ti):
    """Append what the capture of the same index has taken."""
    source, capture_id = (
        ti.xcom_pull(task_ids="etl.capture", map_indexes=ti.map_index, key=key) for key in ("source", "capture_id")
    )
    append_once(source, f"{TABLES[ti.map_index]}_target", capture_id, name=f"mapped.work{ti.map_index}", lake="mapped")


with DAG("mapped", schedule=None):

    @task_group
    def etl(entry):
        """Capture, job and commit of one table."""
        capture = IpCaptureOperator(task_id="capture", iceberg_conn_id="mapped", source_tables=entry)
        work = PythonOperator(task_id="work", python_callable=append_mine)
        gate = PythonOperator(task_id="gate", python_callable=obey, op_args=["mapped.gate"])
        capture >> work >> gate >> IpCommitOperator(task_id="commit", capture=capture)

    etl.expand(entry=[{"table": table, "key": "source"} for table in TABLES])
