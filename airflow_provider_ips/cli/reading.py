"""The commands that only read checkpoints and what was seen.

They do not import PyIceberg: that takes longer than reading hundreds of Variables.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_ips import compat
from airflow_provider_ips.cli.terminal import cli_function
from airflow_provider_ips.maintenance import overview
from airflow_provider_ips.maintenance.console import ConsumerOptions, StoreOptions
from airflow_provider_ips.maintenance.server import Server

if TYPE_CHECKING:
    from airflow_provider_ips.maintenance.console import Console

list_command = cli_function("list", partial(overview.list_consumers, server=Server()), StoreOptions)
show_command = cli_function("show", overview.show, ConsumerOptions)
history_command = cli_function("history", overview.history, ConsumerOptions)


def _lag(console: Console, options: overview.LagOptions) -> None:
    compat.start_stats()  # what is seen now is measured, and a command is not a task
    if code := overview.lag(console, options, server=Server()):
        raise SystemExit(code)


lag_command = cli_function("lag", _lag, overview.LagOptions)
