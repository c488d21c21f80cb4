"""Incremental Processing Support for Apache Airflow: read only what an Iceberg table gained since the last success.

```python
capture = IpCaptureOperator(task_id="capture", source_tables="db.playback")
commit = IpCommitOperator(task_id="commit", capture=capture)
```

Its rooms and their order are described in `docs/explanation/architecture.md`.

The names below are imported when they are first used: `airflow_provider_ips.core` and `airflow_provider_ips.iceberg`
work where Airflow is not installed, and every Airflow command imports this module for its provider info.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_ips.assets.iceberg import iceberg_asset
    from airflow_provider_ips.core.errors import IpsError
    from airflow_provider_ips.core.settings import SourceTable
    from airflow_provider_ips.core.watching.thresholds import AtLeast
    from airflow_provider_ips.maintenance.watch import ips_watch
    from airflow_provider_ips.operators.backfill import IpBackfillOperator
    from airflow_provider_ips.operators.capture import IpCaptureOperator
    from airflow_provider_ips.operators.commit import IpCommitOperator
    from airflow_provider_ips.params import ips_params
    from airflow_provider_ips.sensors.iceberg_append import IcebergAppendSensor
    from airflow_provider_ips.triggers.iceberg_append import IcebergAppendTrigger

__version__ = "0.1.0"

__all__ = [
    "AtLeast",
    "IcebergAppendSensor",
    "IcebergAppendTrigger",
    "IpBackfillOperator",
    "IpCaptureOperator",
    "IpCommitOperator",
    "IpsError",
    "SourceTable",
    "__version__",
    "iceberg_asset",
    "ips_params",
    "ips_watch",
]

_HOMES = {
    "AtLeast": "airflow_provider_ips.core.watching.thresholds",
    "IcebergAppendSensor": "airflow_provider_ips.sensors.iceberg_append",
    "IcebergAppendTrigger": "airflow_provider_ips.triggers.iceberg_append",
    "IpBackfillOperator": "airflow_provider_ips.operators.backfill",
    "IpCaptureOperator": "airflow_provider_ips.operators.capture",
    "IpCommitOperator": "airflow_provider_ips.operators.commit",
    "IpsError": "airflow_provider_ips.core.errors",
    "SourceTable": "airflow_provider_ips.core.settings",
    "iceberg_asset": "airflow_provider_ips.assets.iceberg",
    "ips_params": "airflow_provider_ips.params",
    "ips_watch": "airflow_provider_ips.maintenance.watch",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
