"""A managed backfill, mapped over the chunks of its plan."""

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, task_group

from airflow_provider_ips import IpBackfillOperator, IpCaptureOperator, IpCommitOperator, ips_params
from tests.kit.jobs import append_once

with DAG("managed", schedule=None, params=ips_params()) as managed:
    plan = IpBackfillOperator(
        task_id="plan", source_table="db.managed", iceberg_conn_id="managed", target_tables="db.managed_target"
    )

    @task_group
    def chunk(chunk):
        """Append what the chunk holds."""
        captured = IpCaptureOperator(
            task_id="capture", source_tables="db.managed", iceberg_conn_id="managed", chunk=chunk
        )
        work = PythonOperator(
            task_id="work",
            python_callable=append_once,
            op_args=[captured.output["db.managed"], "db.managed_target", captured.output["capture_id"]],
            op_kwargs={"name": "managed.work{{ ti.map_index }}", "lake": "managed"},
            max_active_tis_per_dagrun=1,
        )
        captured >> work >> IpCommitOperator(task_id="commit", capture=captured)

    chunk.expand(chunk=plan.output)
