"""What a capture and a commit cost in Airflow, from the start of their tasks to the end, beside an empty task.

    python -m benchmarks.task --publish          # into docs/explanation/speed.md; 5 minutes
    python -m benchmarks.task --delay 0 --runs 3

A whole Airflow with the LocalExecutor runs a DAG of four tasks: an empty PythonOperator, a capture of ten manifests on
S3, an empty job, a commit that drops the ICDC table of the run before. Twice: *cold*, where every task imports what it
uses, and *warm*, where `airflow_local_settings.py` imports `airflow_provider_ips.operators.preload` in the process that
tasks are forked from. It fails if the median of a task exceeds that of the empty one by more than the target.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from benchmarks.generator import snapshot_id
from benchmarks.objects.store import FILE_IOS, WAREHOUSE, far_store
from benchmarks.publish import PAGE, write_section
from benchmarks.shapes import Shape
from tests.kit.deployment import deployed
from tests.kit.rest import DONE, until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.objects.store import FarStore

MANIFESTS: Final = 10
MAX_ADDED_S: Final = 0.5
PATIENCE_S: Final = 300.0
TASKS: Final = ("empty", "job", "capture", "commit")
PROCESSES: Final[Mapping[str, str]] = {"cold": "", "warm": "import airflow_provider_ips.operators.preload"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the tasks of one kind of process took, run by run."""

    kind: str
    seconds: Mapping[str, Sequence[float]]

    def median(self, task: str) -> float:
        """Without the first run, which creates the namespace and the checkpoint."""
        return statistics.median(self.seconds[task][1:])

    def added(self, task: str) -> float:
        """Seconds beside an empty task."""
        return self.median(task) - self.median("empty")

    @property
    def lines(self) -> list[str]:
        """Of the table."""
        return [
            f"| {self.kind} | {task} | {self.median(task):.2f} | {self.added(task):.2f} | "
            f"{min(self.seconds[task][1:]):.2f} to {max(self.seconds[task][1:]):.2f} |"
            for task in TASKS
        ]

    @property
    def lost(self) -> list[str]:
        """What takes longer than it may."""
        return [
            f"LOST: {task}, {self.kind}, takes {self.added(task):.2f} s more than an empty task, not {MAX_ADDED_S} s"
            for task in ("capture", "commit")
            if self.added(task) > MAX_ADDED_S
        ]


def main() -> int:
    """Measure both, print the table, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=30, help="milliseconds a request")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--file-io", default="pyarrow", choices=[*FILE_IOS])
    parser.add_argument("--processes", default=",".join(PROCESSES), help=", ".join(PROCESSES))
    parser.add_argument("--publish", action="store_true", help="write the table into the documentation")
    given = parser.parse_args()
    costs = [measure(kind, given) for kind in given.processes.split(",")]
    header = ["| process | task | seconds | more than empty | from to |", "|---|---|--:|--:|--:|"]
    table = "\n".join([*header, *(line for cost in costs for line in cost.lines)])
    circumstances = (
        f"{MANIFESTS} manifests, {given.delay:g} ms a request, {given.file_io}, medians of {given.runs - 1} runs, "
        f"{time.strftime('%Y-%m-%d')}, load average {os.getloadavg()[1]:.1f}"
    )
    print(f"{table}\n\n{circumstances}")
    if given.publish:
        write_section(PAGE, "tasks", f"{table}\n\n{circumstances}.")
    lost = [line for cost in costs for line in cost.lost]
    print(*lost, sep="\n", file=sys.stderr)
    return 1 if lost else 0


def measure(kind: str, given: argparse.Namespace) -> Cost:
    """Run the DAG again and again: each run captures the next ten snapshots."""
    shape = Shape(files=MANIFESTS * given.runs * 10, snapshots=MANIFESTS * given.runs)
    with tempfile.TemporaryDirectory(prefix="ips-task-") as name, far_store(Path(name), given.delay) as store:
        store.add_table(shape)
        store.catalog(given.file_io)
        dags = Path(name) / "dags"
        dags.mkdir()
        shutil.copy(Path(__file__).with_name("task_dag.py"), dags)
        settings = {
            "AIRFLOW_CONN_FAR": _connection(store, given.file_io),
            "IPS_BENCH_INITIAL": str(snapshot_id(shape.last_before)),
        }
        with deployed(Path(name) / "deployment", dags=dags, settings=settings, preload=PROCESSES[kind]) as airflow:
            airflow.rest.wait_for(lambda: airflow.rest.knows("measured"), "the DAG to be known", 120)
            runs = [_seconds(airflow.rest, f"run-{number}") for number in range(given.runs)]
    return Cost(kind=kind, seconds={task: [run[task] for run in runs] for task in TASKS})


def _connection(store: FarStore, file_io: str) -> str:
    extra = {
        "type": "sql",
        "catalog_name": "lake",
        "uri": f"sqlite:///{store.database}",
        "warehouse": WAREHOUSE,
        "py-io-impl": FILE_IOS[file_io],
        **store.properties,
    }
    return json.dumps({"conn_type": "iceberg", "extra": extra})


def _seconds(rest: Any, run_id: str) -> dict[str, float]:  # noqa: ANN401 - the kit of tests has no types
    rest.trigger("measured", run_id)
    # Seldom: each look is work for the API server that the tasks report to.
    until(  # type: ignore[no-untyped-call]
        lambda: _state(rest, run_id) in DONE, seconds=PATIENCE_S, what=f"{run_id} to end", pause_s=2.0
    )
    if _state(rest, run_id) != "success":
        raise RuntimeError(f"{run_id} ended with {rest.states('measured', run_id)}")
    return {name: task["duration"] for name, task in rest.tasks("measured", run_id).items()}


def _state(rest: Any, run_id: str) -> str:  # noqa: ANN401 - as above
    try:
        return str(rest.run("measured", run_id)["state"])
    except httpx.TransportError:  # the machine is busy
        return ""


if __name__ == "__main__":
    sys.exit(main())
