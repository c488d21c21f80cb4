"""Multi-table join: both sources gain rows, and each new row is joined with all matching rows of the other.

New plays match downloads of any age, and new downloads match plays of any age. So the job joins new plays with the
downloads as of the end of the capture, and the plays as of its start with new downloads. Every pair is produced once,
whatever is written in the meantime. A failed run blocks the next one until it has been cleared and has succeeded: the
next one would insert the same pairs with a different id.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "multi_table_join_incremental",
    schedule="@daily",
    catchup=False,
    # Not max_active_runs=1: runs that wait for a failed one are active, and the failed one could not be rerun.
    tags=["ips", "multi-table", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables=["db.playback", "db.downloads"],
        follow_params=False,  # a requested run would insert old rows again
        wait_for_downstream=True,  # a failed run may have inserted rows that the next run would insert again
        iceberg_conn_id=LAKE,
        engine_catalog=LAKE,
    )
    join = SparkSubmitOperator(
        task_id="join",
        application=str(JOBS / "multi_table_join.py"),
        application_args=[
            *("--plays", f"{LAKE}.db.playback"),
            *("--new-plays", capture.output["db.playback"]),
            *("--plays-from", capture.output["db.playback.from"]),
            *("--downloads", f"{LAKE}.db.downloads"),
            *("--new-downloads", capture.output["db.downloads"]),
            *("--downloads-from", capture.output["db.downloads.from"]),
            *("--downloads-to", capture.output["db.downloads.to"]),
            *("--target", f"{LAKE}.db.downloads_played"),
        ],
        conf={"spark.sql.iceberg.snapshot-property.ips-capture-id": capture.output["capture_id"]},
    )
    commit = IpCommitOperator(task_id="commit", capture=capture, verify_target="db.downloads_played")
    capture >> join >> commit
