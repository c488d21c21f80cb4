"""Cascade: a change in the source flows through three stages in three DAGs, started by events of tables alone.

Late rows, corrections and deletions all arrive at the last stage, for every stage captures changes: the keys of rows
that came, changed or went are aggregated anew, and so its target changes in a way that the next stage captures.

A stage that failed catches up by itself: its next run begins where its last success ended. That run is started by a
retry, by the next event, or in the morning, by the clock that makes up for events that were lost.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable

from airflow_provider_ips import IcebergAppendTrigger, IpCaptureOperator, IpCommitOperator, iceberg_asset

# Spark's name of the catalog, and the Airflow connection to the same one.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
JOBS = Path(__file__).parent / "jobs"
ALL_OPERATIONS = ("append", "overwrite", "delete")

changes = IcebergAppendTrigger(
    table="db.playback", iceberg_conn_id=LAKE, data_operations=ALL_OPERATIONS, poll_interval=60
)
# Not the table's own asset: that of the asset-driven example is woken by appends, and an asset has one set of watchers.
CHANGED = Asset("playback_changes", watchers=[AssetWatcher(name="changes", trigger=changes)])
ACCOUNTS = iceberg_asset("db.cascade_accounts", iceberg_conn_id=LAKE)
TITLES = iceberg_asset("db.cascade_titles", iceberg_conn_id=LAKE)
TOTALS = iceberg_asset("db.cascade_totals", iceberg_conn_id=LAKE)

# Events start the stages; at six they run in any case, and find out whether an event was lost. Not at once when they
# are unpaused: the event of the stage before tells that it has made the source. Until then a run at six fails.
MORNING = CronTriggerTimetable("0 6 * * *", timezone="UTC", run_immediately=timedelta(0))


def stage(number: int, level: str, *, source: str, woken_by: Asset, target: Asset) -> DAG:
    """Capture all changes of the source, aggregate their groups anew, and tell of the target."""
    with DAG(
        f"ips_cascade_{number}",
        schedule=AssetOrTimeSchedule(timetable=MORNING, assets=[woken_by]),
        catchup=False,
        # Two runs of one stage would process the same changes. Events that come meanwhile wait, and become one run.
        max_active_runs=1,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
        tags=["ips", "example"],
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
