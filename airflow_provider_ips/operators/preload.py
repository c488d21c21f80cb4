"""Imports what captures and commits use, in a process from which Airflow forks tasks: a task then need not wait for it.

For ``airflow_local_settings.py``, where it is worth the memory: in schedulers with the LocalExecutor, and in workers of
Celery.
"""

from __future__ import annotations

from importlib import import_module

from airflow_provider_ips.hooks.ips import import_arrow
from airflow_provider_ips.iceberg.branches import branch, captures
from airflow_provider_ips.runs import capture, commit, measures, reports

import_arrow()
import_module("pyiceberg.io.pyarrow")

__all__ = ["branch", "capture", "captures", "commit", "measures", "reports"]
