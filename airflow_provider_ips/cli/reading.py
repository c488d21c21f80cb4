"""The commands that only read checkpoints.

They do not import PyIceberg: that takes longer than reading hundreds of Variables.
"""

from __future__ import annotations

from functools import partial

from airflow_provider_ips.cli.terminal import cli_function
from airflow_provider_ips.maintenance import overview
from airflow_provider_ips.maintenance.console import ConsumerOptions, StoreOptions
from airflow_provider_ips.maintenance.server import Server

list_command = cli_function("list", partial(overview.list_consumers, server=Server()), StoreOptions)
show_command = cli_function("show", overview.show, ConsumerOptions)
history_command = cli_function("history", overview.history, ConsumerOptions)
