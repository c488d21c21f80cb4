"""Multi-table join: both sources gain rows, and each new row is joined with all rows of the other that it belongs to.

New plays belong to downloads of any age, and new downloads to plays of any age. So: new plays with the downloads as of
the end of the capture, and the plays as of its start with new downloads. Every pair comes once, whatever is written
meanwhile. A run that failed keeps the next one waiting until it was cleared and has succeeded: that one would insert
the same pairs under an id of its own.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# Spark's name of the catalog, and the Airflow connection to the same one.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"

with DAG(
    "ips_multi_table_join",
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    # Not max_active_runs=1: runs that wait for one that failed are active, and it needs a place to be run again.
    tags=["ips", "example"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(
        task_id="capture",
        source_tables=["db.playback", "db.downloads"],
        follow_params=False,  # rows that came before would be inserted again
        wait_for_downstream=True,  # a run that failed may have inserted, and the next one would do so again
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
