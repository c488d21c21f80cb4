"""Run one example DAG in an Airflow of its own; print, as one line of JSON, how it went and where its checkpoint is."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path

from scripts import local_airflow


def main(home: Path, dag_id: str, consumer: str, logical_date: datetime) -> None:
    """Connections, and where Spark finds its configuration, come with the environment."""
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    local_airflow.enter(local_airflow.environment(home) | connections)
    finished = local_airflow.run(dag_id, logical_date)

    from airflow_provider_ips.checkpoints.variable import ServerVariables, VariableStore

    checkpoint = VariableStore(ServerVariables()).read(consumer)
    report = {
        "state": finished.state,
        "tasks": dict(finished.task_states),
        "checkpoint": None if checkpoint is None else checkpoint.to_text(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], datetime.fromisoformat(sys.argv[4]))
