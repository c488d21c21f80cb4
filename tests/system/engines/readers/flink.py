"""Flink, in batch mode, within this process."""

from __future__ import annotations

import json
import os
from importlib.metadata import version

from pyflink.table import EnvironmentSettings, TableEnvironment

from tests.system.engines.protocol import serve, sql, way

settings = json.loads(os.environ["FLINK_CATALOG"])
tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
tables.get_config().set("parallelism.default", "1")
options = ", ".join(f"'{key}'='{value}'" for key, value in settings.items())
tables.execute_sql(f"CREATE CATALOG lake WITH ({options})")


def answer(question):
    """One statement."""
    namespace, _, name = question["table"]["name"].partition(".")
    hint = way(
        question,
        branch=" /*+ OPTIONS('branch'='{}') */",
        snapshot=" /*+ OPTIONS('snapshot-id'='{}') */",
        range=" /*+ OPTIONS('start-snapshot-id'='{}', 'end-snapshot-id'='{}') */",
    )
    with tables.execute_sql(sql(question, f"lake.`{namespace}`.`{name}`{hint}", quote="`")).collect() as rows:
        return [list(row) for row in rows]


serve(version("apache-flink"), answer, ways=("branch", "snapshot", "range"))
