"""Wrap: a DAG that exists already becomes incremental, and stays as it is.

`wrap_plain` reads the table that its param SOURCE_TABLE names, by default the whole source. `wrap_incremental`
captures, runs it with the ICDC table as SOURCE_TABLE, waits for its end, and commits.

A run of the wrapped DAG has the name of the ICDC table as its id. So a second attempt runs that run again, instead of
starting another one beside it.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
COMMON = {"catchup": False, "tags": ["ips", "wrap", "demo"]}

with DAG("wrap_plain", schedule=None, params={"SOURCE_TABLE": f"{LAKE}.db.playback"}, doc_md=__doc__, **COMMON):
    SparkSubmitOperator(
        task_id="merge",
        application=str(JOBS / "merge.py"),
        application_args=["--source", "{{ params.SOURCE_TABLE }}", "--target", f"{LAKE}.db.continue_watching_wrapped"],
    )

with DAG("wrap_incremental", schedule="@daily", max_active_runs=1, doc_md=__doc__, **COMMON):
    capture = IpCaptureOperator(
        task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE, engine_catalog=LAKE
    )
    run = TriggerDagRunOperator(
        task_id="run",
        trigger_dag_id="wrap_plain",
        trigger_run_id=capture.output["db.playback"],
        conf={"SOURCE_TABLE": capture.output["db.playback"]},
        reset_dag_run=True,
        wait_for_completion=True,
        poke_interval=10,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> run >> commit
