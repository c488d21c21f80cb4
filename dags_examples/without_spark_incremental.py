"""Without Spark: PyIceberg reads the captured rows, PyArrow aggregates, and PyIceberg overwrites the days that changed.

Any client that reads Iceberg works. The snapshots that it writes carry the capture's id, which the commit requires.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_ips import IpCaptureOperator, IpCommitOperator

# The Airflow connection to the catalog.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
DAG_ID = "without_spark_incremental"
COLUMNS = ("event_date", "title_id", "watched_seconds")

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "without-spark", "demo"],
    doc_md=__doc__,
):
    capture = IpCaptureOperator(task_id="capture", source_tables="db.playback", iceberg_conn_id=LAKE)

    @task
    def aggregate(record: dict[str, Any]) -> None:
        """Re-aggregate the days that gained a row, from all their rows. event_date and title_id are NOT NULL."""
        from pyiceberg.expressions import In
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.transforms import IdentityTransform
        from pyiceberg.types import DateType, IntegerType, LongType, NestedField

        from airflow_provider_ips.hooks.ips import IpsHook

        catalog = IpsHook(LAKE).catalog
        new = catalog.load_table(record["sources"][0]["icdc_table"]).scan(selected_fields=("event_date",)).to_arrow()
        touched = In("event_date", new["event_date"].unique().to_pylist())
        rows = catalog.load_table("db.playback").scan(touched, selected_fields=COLUMNS).to_arrow()
        groups = rows.group_by(["event_date", "title_id"]).aggregate([([], "count_all"), ("watched_seconds", "sum")])
        totals = groups.rename_columns(["event_date", "title_id", "events", "watched_seconds"])
        schema = Schema(
            NestedField(1, "event_date", DateType()),
            NestedField(2, "title_id", IntegerType()),
            NestedField(3, "events", LongType()),
            NestedField(4, "watched_seconds", LongType()),
        )
        by_day = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "event_date"))
        target = catalog.create_table_if_not_exists(f"db.{DAG_ID}", schema, partition_spec=by_day)
        target.dynamic_partition_overwrite(
            totals.cast(target.schema().as_arrow()), snapshot_properties={"ips-capture-id": record["capture_id"]}
        )

    aggregated = aggregate(capture.output["capture"])  # type: ignore[arg-type]  # a task output is replaced by its value
    commit = IpCommitOperator(task_id="commit", capture=capture, verify_target=f"db.{DAG_ID}")
    capture >> aggregated >> commit
