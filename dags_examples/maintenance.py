"""Maintenance: the verbs of `airflow ips` as a trigger form, for those who have no command line.

Trigger it and choose a verb. It is a dry run unless you say otherwise, and what changes something wants its name typed
into *confirm*: the consumer's, or for `gc` the ICDC namespace. Results are in the log and in the XCom `return_value`.
Whoever may trigger this DAG may move checkpoints.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol

LAKE = os.environ.get("IPS_EXAMPLES_LAKE", "lake")
VERBS = ["list", "show", "history", "doctor", "seed", "rewind", "reset", "abandon", "replay", "gc", "move"]


def text(title: str, description: str = "", default: str | None = None) -> Param:
    return Param(default, type=["null", "string"], title=title, description=description)


with DAG(
    "ips_maintenance",
    schedule=None,  # only ever by hand
    is_paused_upon_creation=False,  # and at once then
    max_active_runs=1,
    tags=["ips", "example"],
    doc_md=__doc__,
    params={
        "verb": Param("list", type="string", enum=VERBS, title="Verb"),
        "consumer": text("Consumer", "Whose checkpoint; not needed for list, doctor and gc"),
        "dry_run": Param(
            default=True, type="boolean", title="Dry run", description="Show what would be, change nothing"
        ),
        "confirm": text("Confirm", "The consumer's name, or for gc the ICDC namespace, to change something"),
        "conn_id": text("Iceberg connection", default=LAKE),
        "store": Param(None, type=["null", "string"], enum=[None, "variable", "iceberg"], title="Checkpoint store"),
        "table": text("Table", "seed: the source. reset: only this one. rewind to a snapshot or time: in this one"),
        "branch": text("Branch", "seed, reset, rewind", default="main"),
        "snapshot": text("Snapshot", "seed, rewind: the last one that counts as processed"),
        "time": text("Time", "seed, rewind: what was committed up to then counts as processed; ISO 8601 with its zone"),
        "latest": Param(
            default=False, type="boolean", title="Latest", description="seed: all there is counts as processed"
        ),
        "capture_id": text("Capture", "rewind, replay: from history"),
        "run_id": text("Run", "rewind, replay: or the run that committed it"),
        "initial": text("Initial", "replay: as on the capture, if it began there"),
        "namespace": text("ICDC namespace", "replay, gc, doctor: other than configured"),
        "older_than_days": Param(7, type="number", minimum=0, title="Older than days", description="gc"),
        "gone_consumers": Param(default=False, type="boolean", title="Gone consumers", description="gc: theirs too"),
        "to": Param(None, type=["null", "string"], enum=[None, "variable", "iceberg"], title="To", description="move"),
    },
) as dag:

    @task
    def do(params: dict[str, Any], dag_run: DagRunProtocol) -> list[dict[str, Any]]:
        from airflow_provider_ips.maintenance.in_task import run_verb

        options = {name: value for name, value in params.items() if name not in ("verb", "confirm")}
        who = dag_run.triggering_user_name or "unknown"
        rows = run_verb(params["verb"], options, who=who, confirmation=params["confirm"] or "")
        return [dict(row) for row in rows]

    do()
