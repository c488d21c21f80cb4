"""A Spark standalone master and worker as processes of this machine, reachable from nowhere else."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS_TO_START = 90
SECONDS_TO_STOP = 15

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ANY_FREE_PORT = "0"

# A shell that starts a program and ends it, with all its children, when the pipe from whoever started the shell closes:
# by will, or because that process is gone. A test runner that is killed at a time limit runs no `finally`.
_GUARD = ("sh", "-c", '{ "$@" < /dev/null; kill 0; } & read -r _; kill 0', "guard")


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
        master_url = master.wait_for(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        status_port = master.wait_for(r"Successfully started service 'MasterUI' on port (\d+)")
        size = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"))
        ports = ("--port", _ANY_FREE_PORT, "--webui-port", _ANY_FREE_PORT)
        worker = running.enter_context(_daemon(folder / "worker.log", "worker.Worker", *ports, *size, master_url))
        worker_status_port = worker.wait_for(r"Successfully started service 'WorkerUI' on port (\d+)")
        worker.wait_for(r"(Successfully registered with master)")
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
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


@dataclass(frozen=True, slots=True)
class _Daemon:
    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, pattern: str) -> str:
        """Return what the group of the pattern matched in the log, as soon as it stands there."""
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.log.read_text()):
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise TimeoutError(f"{self.log.name} never said {pattern!r}:\n{self.log.read_text()[-4000:]}")


@contextlib.contextmanager
def _daemon(log: Path, main_class: str, *arguments: str) -> Iterator[_Daemon]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_GUARD, str(_SPARK_CLASS), f"org.apache.spark.deploy.{main_class}", "--host", "127.0.0.1", *arguments],
            env=environment(
                SPARK_DAEMON_MEMORY="256m",
                # They live for a minute: the second compiler would not pay for itself.
                SPARK_DAEMON_JAVA_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                # The master's second way in has a fixed port, which another test run may hold.
                SPARK_MASTER_OPTS="-Dspark.master.rest.enabled=false",
            ),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A group of its own, for the guard to end: an executor is the worker's child.
            start_new_session=True,
        )
    try:
        yield _Daemon(process, log)
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS_TO_STOP)
    # What did not listen, and what outlived the guard.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(SECONDS_TO_STOP)
