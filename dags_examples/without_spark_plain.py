"""Without Spark: PyIceberg reads the whole table, PyArrow aggregates, and PyIceberg overwrites every day."""

from __future__ import annotations

import os

from airflow.sdk import DAG, task

# The Airflow connection to the catalog.
LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
DAG_ID = "without_spark_plain"
COLUMNS = ("event_date", "title_id", "watched_seconds")

with DAG(
    DAG_ID,
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["ips", "without-spark", "demo"],
    doc_md=__doc__,
):

    @task
    def aggregate() -> None:
        """Aggregate every day."""
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.transforms import IdentityTransform
        from pyiceberg.types import DateType, IntegerType, LongType, NestedField

        from airflow_provider_ips.hooks.ips import IpsHook

        catalog = IpsHook(LAKE).catalog
        rows = catalog.load_table("db.playback").scan(selected_fields=COLUMNS).to_arrow()
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
        target.dynamic_partition_overwrite(totals.cast(target.schema().as_arrow()))

    aggregate()
