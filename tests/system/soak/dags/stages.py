"""Two incremental stages: rows are appended to a log, and the log's days are added up."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator
from tests.kit.jobs import append_once
from tests.system.soak.totals import add_up

MODES: dict[str, dict[str, Any]] = {"ICDC": {}, "BRANCH": {"capture_mode": "BRANCH"}, "HELD": {"hold_source": True}}
EVERY = timedelta(seconds=3)
AGAIN = {"retries": 30, "retry_delay": timedelta(0)}
"""A run that is given up may have appended; the next one would append its rows again, under another capture's id."""


def stage(dag_id, source, job, *arguments, target=None, **settings):
    """Capture, job, commit; one run at a time, and soon the next."""
    with DAG(
        dag_id,
        schedule=EVERY,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args=AGAIN,
    ) as dag:
        capture = IpCaptureOperator(task_id="capture", source_tables=source, iceberg_conn_id="lake", **settings)
        work = PythonOperator(
            task_id="work",
            python_callable=job,
            op_args=[capture.output[source], *arguments, capture.output["capture_id"]],
            op_kwargs={"name": f"{dag_id}.work", "lake": "lake"},
        )
        capture >> work >> IpCommitOperator(task_id="commit", capture=capture, verify_target=target)
    return dag


first, second = (MODES[name] for name in os.environ.get("IPS_SOAK_MODES", "ICDC ICDC").split())
one = stage("one", "db.events", append_once, "db.log", target="db.log", **first)
two = stage("two", "db.log", add_up, "db.log", "db.totals", **second)
