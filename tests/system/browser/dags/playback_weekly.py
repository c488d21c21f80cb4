"""Two stages that nobody has run yet: what one declares as its target, the other captures."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator, iceberg_asset


def stage(dag_id, source, target):
    """Capture from a source, and declare a target."""
    with DAG(dag_id, schedule=None, tags=["ips"]) as dag:
        capture = IpCaptureOperator(task_id="capture", source_tables=source, iceberg_conn_id="lake")
        commit = IpCommitOperator(
            task_id="commit", capture=capture, target_assets=iceberg_asset(target, iceberg_conn_id="lake")
        )
        capture >> EmptyOperator(task_id="work") >> commit
    return dag


weekly = stage("playback_weekly", "db.playback", "db.playback_weekly")
yearly = stage("playback_yearly", "db.playback_weekly", "db.playback_yearly")
