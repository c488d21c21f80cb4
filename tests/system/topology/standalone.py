"""A Spark standalone master and worker as processes of this machine, reachable from nowhere else."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from scripts.local_spark import BRIEF_JVM
from scripts.loopback import HOST
from tests.kit.processes import server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.kit.processes import Server

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ANY_FREE_PORT = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """A running master with one registered worker."""

    master_url: str
    status_url: str
    worker_status_url: str

    def applications(self) -> list[dict[str, Any]]:
        """What the master knows of every application it was ever given, running ones first."""
        status = self._status()
        return [*status["activeapps"], *status["completedapps"]]

    def cores_in_use(self) -> int:
        return int(self._status()["coresused"])

    def _status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.status_url}/json/", timeout=10) as answer:  # noqa: S310 - its own
            status: dict[str, Any] = json.load(answer)
        return status


@contextlib.contextmanager
def spark_standalone(folder: Path, *, cores: int = 1, memory: str = "1g") -> Iterator[Standalone]:
    """Start both, wait until the worker has registered, and stop both however the block ends."""
    with contextlib.ExitStack() as running:
        master = running.enter_context(
            _daemon(folder / "master.log", "master.Master", "--port", _ANY_FREE_PORT, "--webui-port", _ANY_FREE_PORT)
        )
        master_url = master.said(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        status_port = master.said(r"Successfully started service 'MasterUI' on port (\d+)")
        size = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"))
        ports = ("--port", _ANY_FREE_PORT, "--webui-port", _ANY_FREE_PORT)
        worker = running.enter_context(_daemon(folder / "worker.log", "worker.Worker", *ports, *size, master_url))
        worker_status_port = worker.said(r"Successfully started service 'WorkerUI' on port (\d+)")
        worker.said(r"(Successfully registered with master)")
        yield Standalone(
            master_url=master_url,
            status_url=f"http://127.0.0.1:{status_port}",
            worker_status_url=f"http://127.0.0.1:{worker_status_port}",
        )


def environment(**more: str) -> dict[str, str]:
    """For every process of the topology, the driver's included: this Python, this pyspark, and loopback only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SPARK", "PYSPARK"))}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        # Status pages too are bound to it; their own default is every interface.
        "SPARK_LOCAL_IP": HOST,
        **more,
    }


def _daemon(log: Path, main_class: str, *arguments: str) -> AbstractContextManager[Server]:
    return server(
        log,
        str(_SPARK_CLASS),
        f"org.apache.spark.deploy.{main_class}",
        "--host",
        HOST,
        *arguments,
        environment=environment(
            SPARK_DAEMON_MEMORY="256m",
            SPARK_DAEMON_JAVA_OPTS=" ".join(BRIEF_JVM),
            # The master's second way in has a fixed port, which another test run may hold.
            SPARK_MASTER_OPTS="-Dspark.master.rest.enabled=false",
        ),
    )
