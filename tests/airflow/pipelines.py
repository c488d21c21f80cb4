"""DAGs of capture, work and commit, whose work is to note what it could read."""

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.airflow.tables import reader


def incremental(dag_id, lake, source, seen, *, capture=None, commit=None):
    """One source, one job that appends the ids it reads to ``seen``."""
    read = reader(lake)
    with DAG(dag_id, schedule=None) as dag:
        captured = IpCaptureOperator(task_id="capture", source_tables=source, iceberg_conn_id="lake", **(capture or {}))
        work = PythonOperator(
            task_id="work", python_callable=lambda name: seen.append(read(name)), op_args=[captured.output[source]]
        )
        committed = IpCommitOperator(task_id="commit", capture=captured, **(commit or {}))
        captured >> work >> committed
    return dag
