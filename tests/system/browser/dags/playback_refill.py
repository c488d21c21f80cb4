"""A backfill in chunks, whose job writes the table that the DAG playback_yearly captures."""

from datetime import timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, task_group

from airflow_provider_ips import IpBackfillOperator, IpCaptureOperator, IpCommitOperator, iceberg_asset, ips_params

SOURCE, TARGET = "db.playback", "db.playback_weekly"


def rewrite(source):
    """Stand in for the Spark job: add what was captured to the target."""
    from airflow_provider_ips.hooks.ips import IpsHook

    catalog = IpsHook("lake").catalog
    catalog.load_table(TARGET).append(catalog.load_table(source).scan().to_arrow())


with DAG("playback_refill", schedule=None, params=ips_params(), tags=["ips"]):
    plan = IpBackfillOperator(
        task_id="plan", source_table=SOURCE, iceberg_conn_id="lake", max_partitions=7, target_tables=TARGET
    )

    @task_group
    def chunk(chunk):
        """Capture, process and commit some days."""
        capture = IpCaptureOperator(task_id="capture", source_tables=SOURCE, iceberg_conn_id="lake", chunk=chunk)
        refill = PythonOperator(
            task_id="refill",
            python_callable=rewrite,
            op_args=[capture.output[SOURCE]],
            retries=3,
            retry_delay=timedelta(0),
        )
        commit = IpCommitOperator(
            task_id="commit", capture=capture, target_assets=iceberg_asset(TARGET, iceberg_conn_id="lake")
        )
        capture >> refill >> commit

    chunk.expand(chunk=plan.output)
