"""Freshness: every ten minutes, looks how far each consumer is from the heads of its tables.

It loads each table once, and writes what it saw where pages and `airflow ips lag` show it. A consumer that lags by more
than its `target_lag` is reported once, and once when that is over: give it a notifier of yours. It changes no
checkpoint and no table. It is paused until somebody unpauses it.
"""

from __future__ import annotations

import os

from airflow_provider_ips import ips_watch

# Airflow reads the file for its DAG.
dag = ips_watch(
    iceberg_conn_id=os.environ.get("IPS_EXAMPLES_LAKE", "lake"),
    is_paused_upon_creation=True,  # it may come with Airflow's examples, and would look at all tables
    tags=["ips", "maintenance", "demo"],
    doc_md=__doc__,
)
