"""ICDC tables of a plan that a test has made itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ips.iceberg.icdc.tables import prepare_icdc

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_provider_ips.core.history.selections import CapturePlan
    from airflow_provider_ips.core.results.capture_record import SourceRecord
    from airflow_provider_ips.iceberg.source.iceberg_source import IcebergSource


def build_icdc(
    catalog: Catalog,
    source: IcebergSource,
    plan: CapturePlan,
    *,
    icdc_table: str,
    before_table: str | None = None,
    **given: Any,
) -> SourceRecord:
    """Make the tables of a plan and return their record. An empty plan makes no table."""
    names = (None, None) if plan.is_empty else (icdc_table, before_table)
    return prepare_icdc(catalog, source, plan, icdc_table=names[0], before_table=names[1], **given).publish()
