"""Maintenance: the commands of `airflow ips` as a trigger form, for people who have no command line.

Trigger the DAG and choose a command. It is a dry run unless you untick that, and to change something you have to type
a name into *Confirm*: the consumer's, or for `gc` the ICDC namespace. Results are in the log and in the XCom
`return_value`.

This DAG is for the people who operate the incremental DAGs of this Airflow, and its power reaches all of them: everyone
who may trigger it may move or remove the checkpoint of any consumer, and drop ICDC tables. It is paused until one of
them unpauses it. Give the right to trigger it to them alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol

LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
COMMANDS = [
    "list",
    "show",
    "history",
    "lag",
    "doctor",
    "estimate",
    "seed",
    "rewind",
    "reset",
    "abandon",
    "replay",
    "gc",
    "move",
]


def text(title: str, description: str = "", default: str | None = None) -> Param:
    return Param(default, type=["null", "string"], title=title, description=description)


with DAG(
    "ips_maintenance",
    schedule=None,  # only ever by hand
    is_paused_upon_creation=True,  # it may come with Airflow's examples, and has power over all checkpoints
    max_active_runs=1,
    tags=["ips", "maintenance", "demo"],
    doc_md=__doc__,
    params={
        "command": Param("list", type="string", enum=COMMANDS, title="Command"),
        "consumer": text("Consumer", "Not needed for list, lag, doctor, estimate and gc"),
        "look": Param(
            default=False, type="boolean", title="Look", description="lag: look at the tables now, and store it"
        ),
        "dry_run": Param(
            default=True, type="boolean", title="Dry run", description="Show what would change, write nothing"
        ),
        "confirm": text("Confirm", "To change something: the consumer's name, or for gc the ICDC namespace"),
        "conn_id": text("Iceberg connection", default=LAKE),
        "store": Param(None, type=["null", "string"], enum=[None, "variable", "iceberg"], title="Checkpoint store"),
        "table": text(
            "Table", "seed, estimate: the source. reset: only this one. rewind to a snapshot or time: in this one"
        ),
        "branch": text("Branch", "seed, reset, rewind, estimate", default="main"),
        "lookback": text("Lookback", "estimate: the days that the job reads again in every run", default="14d"),
        "column": text("Column", "estimate: the column that the job filters by, if the table is not partitioned by it"),
        "runs": text("Runs", "estimate: how many days back to look", default="30d"),
        "snapshot": text("Snapshot", "seed, rewind: the last one that counts as processed"),
        "time": text("Time", "seed, rewind: commits up to then count as processed; ISO 8601 with a time zone"),
        "latest": Param(
            default=False, type="boolean", title="Latest", description="seed: everything counts as processed"
        ),
        "capture_id": text("Capture", "rewind, replay: the capture's id, from history"),
        "run_id": text("Run", "rewind, replay: the run that committed the capture"),
        "initial": text("Initial", "replay: the capture's initial, if its range began there"),
        "namespace": text("ICDC namespace", "replay, gc, doctor: if not the configured one"),
        "older_than_days": Param(7, type="number", minimum=0, title="Older than days", description="gc"),
        "without_checkpoint": Param(
            default=False,
            type="boolean",
            title="Without checkpoint",
            description="gc: also tables of consumers without a checkpoint",
        ),
        "wrote_nothing": Param(
            default=False,
            type="boolean",
            title="Wrote nothing",
            description="abandon: also forget what the job may have written; only if it wrote nothing",
        ),
        "to": Param(None, type=["null", "string"], enum=[None, "variable", "iceberg"], title="To", description="move"),
    },
) as dag:

    @task
    def do(params: dict[str, Any], dag_run: DagRunProtocol) -> list[dict[str, Any]]:
        from airflow_provider_ips.maintenance.task import run_command

        options = {name: value for name, value in params.items() if name not in ("command", "confirm")}
        user = dag_run.triggering_user_name or "unknown"
        rows = run_command(params["command"], options, user=user, confirmation=params["confirm"] or "")
        return [dict(row) for row in rows]

    do()
