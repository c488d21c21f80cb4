"""A DAG as a user would write it, with the trigger form; its job is quick, for what is tested is the UI around it."""

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, ips_params


def add_up(source):
    """Stand in for the Spark job: read what was captured, in place of the whole table."""
    from airflow_provider_ips.hooks.ips import IpsHook

    rows = IpsHook("lake").catalog.load_table(source).scan(selected_fields=("watched_seconds",)).to_arrow()
    print(f"{rows.num_rows:,} rows of {source} were added up")


with DAG("playback_daily", schedule=None, max_active_runs=1, params=ips_params(), tags=["ips"], doc_md=__doc__):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.playback", iceberg_conn_id="lake")
    daily = PythonOperator(task_id="daily", python_callable=add_up, op_args=[capture.output["db.playback"]])
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> daily >> commit
