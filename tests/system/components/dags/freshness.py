"""The DAG that looks at all consumers."""

from datetime import timedelta

from airflow_provider_ips import ips_watch


def note(context):
    """Keep what a person would be notified of in the run that notified."""
    context["ti"].xcom_push(key=context["ips"]["consumer"], value=context["ips"]["message"])


# Paused until its story: it looks at the consumers of all others, too.
watch = ips_watch(
    schedule=timedelta(seconds=5),
    iceberg_conn_id="lagging",
    on_breach_callback=note,
    on_recovery_callback=note,
    is_paused_upon_creation=True,
)
