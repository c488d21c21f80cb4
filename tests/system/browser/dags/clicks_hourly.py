"""A DAG on whose checkpoint people act from the page Incremental. Its job fails if the run's conf says so."""

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, ips_params


def do_count(dag_run):
    """Stand in for the job."""
    if (dag_run.conf or {}).get("fails"):
        raise RuntimeError("the job failed, as the test wants it")


with DAG("clicks_hourly", schedule=None, max_active_runs=1, params=ips_params(), tags=["ips"]):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.clicks", iceberg_conn_id="lake")
    count = PythonOperator(task_id="count", python_callable=do_count)
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> count >> commit
