"""Cascade: a change in the source flows through three stages in three DAGs, started only by events of tables.

Late rows, corrections and deletions all reach the last stage, because every stage captures changes: the groups of rows
that were added, changed or removed are re-aggregated, and the next stage captures what that changes in the target.

A failed stage catches up by itself: its next run starts where its last success ended. A retry, the next event or the
morning clock starts that run; the clock is there in case an event was lost.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable

from airflow_provider_ips import IcebergAppendTrigger, IpCaptureOperator, IpCommitOperator, iceberg_asset

# The name of the catalog in Spark, and the Airflow connection to it.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
ALL_OPERATIONS = ("append", "overwrite", "delete")

changes = IcebergAppendTrigger(
    table="db.playback", iceberg_conn_id=LAKE, data_operations=ALL_OPERATIONS, poll_interval=60
)
# Not the table's usual asset: the asset-driven example watches that one, and an asset has one set of watchers.
CHANGED = Asset("playback_changes", watchers=[AssetWatcher(name="changes", trigger=changes)])
ACCOUNTS = iceberg_asset("db.cascade_accounts", iceberg_conn_id=LAKE)
TITLES = iceberg_asset("db.cascade_titles", iceberg_conn_id=LAKE)
TOTALS = iceberg_asset("db.cascade_totals", iceberg_conn_id=LAKE)

# Events start the stages; at six they run in any case, in case an event was lost. Not immediately when they are
# unpaused: the event of the upstream stage says that their source exists. Until then a run at six fails.
MORNING = CronTriggerTimetable("0 6 * * *", timezone="UTC", run_immediately=timedelta(0))


def stage(number: int, level: str, *, source: str, woken_by: Asset, target: Asset) -> DAG:
    """Capture all changes of the source, re-aggregate their groups, and send an event for the target."""
    with DAG(
        f"cascade_incremental_{number}",
        schedule=AssetOrTimeSchedule(timetable=MORNING, assets=[woken_by]),
        catchup=False,
        # Two runs of one stage would process the same changes. Events that arrive during a run wait and become one run.
        max_active_runs=1,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
        tags=["ips", "cascade", "demo"],
        doc_md=__doc__,
    ) as dag:
        capture = IpCaptureOperator(
            task_id="capture",
            source_tables=source,
            data_operations=ALL_OPERATIONS,
            on_superset="allow",
            iceberg_conn_id=LAKE,
            engine_catalog=LAKE,
        )
        aggregate = SparkSubmitOperator(
            task_id="aggregate",
            application=str(JOBS / "cascade.py"),
            application_args=[
                *("--level", level),
                *("--source", f"{LAKE}.{source}"),
                *("--changes", capture.output[source]),
                *("--before", capture.output[f"{source}.before"]),
                *("--target", f"{LAKE}.db.cascade_{level}"),
            ],
        )
        commit = IpCommitOperator(task_id="commit", capture=capture, target_assets=target)
        capture >> aggregate >> commit
    return dag


accounts = stage(1, "accounts", source="db.playback", woken_by=CHANGED, target=ACCOUNTS)
titles = stage(2, "titles", source="db.cascade_accounts", woken_by=ACCOUNTS, target=TITLES)
totals = stage(3, "totals", source="db.cascade_titles", woken_by=TITLES, target=TOTALS)
