"""dbt: models whose `source()` is the captured table.

The macro in dbt/macros/captured_sources.sql does that, given one var. Each model merges by its key, so it can process
the same rows twice. dbt has an environment of its own: set `IPS_EXAMPLES_DBT` to its program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# The Airflow connection to the catalog.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
PROJECT = Path(__file__).parent / "dbt"

with DAG(
    "dbt_incremental",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "dbt", "needs-setup"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE)
    run = BashOperator(
        task_id="run",
        # Without the two paths, dbt would write into the folder of the DAGs; the task has a temporary one.
        bash_command='"$DBT" --log-path "$PWD" run --project-dir "$PROJECT" --profiles-dir "$PROJECT" '
        '--target-path "$PWD" --vars "$VARS"',
        env={
            "DBT": os.environ.get("IPS_EXAMPLES_DBT", "dbt"),
            "PROJECT": str(PROJECT),
            "VARS": json.dumps({"captured_sources": {"db.playback": str(capture.output["db.playback"])}}),
        },
        append_env=True,
    )
    commit = IpCommitOperator(task_id="commit", capture=capture)
    capture >> run >> commit
