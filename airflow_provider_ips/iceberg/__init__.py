"""Reads table history and manifests through PyIceberg, writes and drops ICDC tables. Imports no Airflow."""

from airflow_provider_ips.iceberg.api import capture
from airflow_provider_ips.iceberg.captured import captured_partitions
from airflow_provider_ips.iceberg.dropping import drop_icdc
from airflow_provider_ips.iceberg.icdc import PreparedIcdc, build_icdc, prepare_icdc
from airflow_provider_ips.iceberg.places import check_icdc_namespace
from airflow_provider_ips.iceberg.source import IcebergSource, open_source, position_at
from airflow_provider_ips.iceberg.survival import find_losses

__all__ = [
    "IcebergSource",
    "PreparedIcdc",
    "build_icdc",
    "capture",
    "captured_partitions",
    "check_icdc_namespace",
    "drop_icdc",
    "find_losses",
    "open_source",
    "position_at",
    "prepare_icdc",
]
