"""Reads table history and manifests through PyIceberg, writes and drops ICDC tables, without Airflow.

The five functions below are the public ones. They are imported when they are first used, because PyIceberg takes most
of a second to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from airflow_provider_ips.versions import refuse_unsupported

if TYPE_CHECKING:
    from airflow_provider_ips.iceberg.api import capture
    from airflow_provider_ips.iceberg.branches.branch import drop_icdc
    from airflow_provider_ips.iceberg.estimation import estimate
    from airflow_provider_ips.iceberg.icdc.lost_files import find_losses
    from airflow_provider_ips.iceberg.partitions.partition_sets import captured_partitions

__all__ = ["capture", "captured_partitions", "drop_icdc", "estimate", "find_losses"]

_HOMES = {
    "capture": "airflow_provider_ips.iceberg.api",
    "captured_partitions": "airflow_provider_ips.iceberg.partitions.partition_sets",
    "drop_icdc": "airflow_provider_ips.iceberg.branches.branch",
    "estimate": "airflow_provider_ips.iceberg.estimation",
    "find_losses": "airflow_provider_ips.iceberg.icdc.lost_files",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    refuse_unsupported("pyiceberg")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
