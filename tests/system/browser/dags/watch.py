"""The example DAG ips_watch of airflow-provider-ips, unpaused, and only started by hand."""

from airflow_provider_ips import ips_watch

dag = ips_watch(iceberg_conn_id="lake", schedule=None, is_paused_upon_creation=False)
