"""Capture, work, a gate that can be told to fail, and commit; one DAG for each story, with tables of its own."""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, CronPartitionTimetable

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.kit.jobs import append_once, obey


def pipeline(
    dag_id,
    *,
    lake=None,
    schedule=None,
    source=None,
    target=None,
    capture=None,
    commit=None,
    retries=0,
    has_gate=True,
    **options,
):
    """Append what ``db.<dag id>`` gains to ``db.<dag id>_target``."""
    lake = lake or dag_id
    source, target = source or f"db.{dag_id}", target or f"db.{dag_id}_target"
    defaults = {"retries": retries, "retry_delay": timedelta(0)}
    with DAG(dag_id, schedule=schedule, default_args={**defaults, **options.pop("default_args", {})}, **options) as dag:
        captured = IpCaptureOperator(task_id="capture", source_tables=source, iceberg_conn_id=lake, **(capture or {}))
        work = PythonOperator(
            task_id="work",
            python_callable=append_once,
            op_args=[captured.output[source], target, captured.output["capture_id"]],
            op_kwargs={"name": f"{dag_id}.work", "lake": lake},
        )
        committed = IpCommitOperator(task_id="commit", capture=captured, **(commit or {}))
        captured >> work >> committed
        if has_gate:
            gate = PythonOperator(task_id="gate", python_callable=obey, op_args=[f"{dag_id}.gate"])
            work >> gate >> committed
    return dag


killed = pipeline("killed", retries=3, has_gate=False)
cleared = pipeline("cleared")
older = pipeline("older")
marked = pipeline("marked", commit={"verify_target": "db.marked_target"})
trusting = pipeline("trusting")
rivals = pipeline("rivals", has_gate=False)
lagging = pipeline("lagging", capture={"target_lag": timedelta(seconds=2)}, has_gate=False)
patient = pipeline("patient", capture={"on_active_run": "wait"}, has_gate=False)
backfilled = pipeline(
    "backfilled",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    end_date=datetime(2026, 1, 9, tzinfo=UTC),
    max_active_runs=1,
    retries=200,
    has_gate=False,
)
by_interval = pipeline(
    "by_interval",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    end_date=datetime(2026, 1, 9, tzinfo=UTC),
    catchup=False,
    capture={"backfill_partitions": "day = '{{ data_interval_start | ds }}'"},
    has_gate=False,
)
by_partition = pipeline(
    "by_partition",
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    end_date=datetime(2026, 1, 9, tzinfo=UTC),
    catchup=False,
    capture={"backfill_partitions": "day = '{{ partition_key }}'"},
    has_gate=False,
)
sharing_one = pipeline(
    "sharing_one", lake="sharing", source="db.sharing", capture={"consumer": "shared"}, has_gate=False
)
sharing_two = pipeline(
    "sharing_two", lake="sharing", source="db.sharing", capture={"consumer": "shared"}, has_gate=False
)
# The job of the deleted run may still commit at the same moment, and PyIceberg does not try a lost commit again.
reused = pipeline("reused", retries=2, has_gate=False)
depending = pipeline(
    "depending", capture={"on_active_run": "wait"}, default_args={"depends_on_past": True}, has_gate=False
)
