"""Two stages that an asset starts: one by its events alone, one also by a clock."""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, DeltaTriggerTimetable

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.kit.jobs import obey

CLOCK = DeltaTriggerTimetable(timedelta(seconds=3))


def stage(dag_id, schedule):
    """Capture, a job that does as it is told, commit."""
    with DAG(
        dag_id,
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=True,
    ) as dag:
        capture = IpCaptureOperator(task_id="capture", source_tables=f"db.{dag_id}", iceberg_conn_id="lake")
        work = PythonOperator(task_id="work", python_callable=obey, op_args=[f"{dag_id}.work"])
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture)
    return dag


eventful = stage("eventful", [Asset("eventful")])
netted = stage("netted", AssetOrTimeSchedule(timetable=CLOCK, assets=[Asset("netted")]))
