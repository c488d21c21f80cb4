"""The parts of the demo's Airflow: started and stopped together, and spoken to by its API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx
import psutil

from scripts import local_airflow
from scripts.loopback import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

SECONDS_TO_START: Final = 300
SECONDS_TO_STOP: Final = 20
SECONDS_TO_ANSWER: Final = 120
"""More than a busy machine needs."""
PORT: Final = 8080
"""The same every time, so that bookmarks and an open page stay right."""
HOLDERS: Final = ("ui.py", "demo.py")
"""Programs that start parts over the state of a folder."""


MIGRATE: Final = ("db", "migrate")


class ComponentsFailedError(Exception):
    """Airflow did not come up, or did not stay up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """An Airflow in a folder: what its parts have in common, and where they say what they do."""

    folder: Path
    port: int
    environment: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path, lake: Mapping[str, str], *, port: int, **settings: str) -> Deployment:
        """The same for the demo, the UI and the shell, so that each finds what the others left."""
        home = folder / "airflow"
        (home / "config").mkdir(parents=True, exist_ok=True)
        # Tasks are forked from a process that has imported what captures and commits use.
        (home / "config" / "airflow_local_settings.py").write_text("import airflow_provider_ips.operators.preload\n")
        environment = {
            **local_airflow.environment(home),
            **lake,
            **local_airflow.serving(home, port=port),
            "AIRFLOW__CORE__PARALLELISM": "2",  # each task may bring a Spark of its own
            # Parsing all examples again costs both cores seconds. A file that was edited is read at once all the same.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            **settings,
        }
        return cls(folder=folder, port=port, environment=environment)

    def write(self) -> None:
        """Note the port, for commands that are run beside it."""
        (self.folder / "port").write_text(str(self.port))

    @staticmethod
    def written_port(folder: Path) -> int:
        """The port that was noted, or the usual one."""
        path = folder / "port"
        return int(path.read_text()) if path.exists() else PORT

    @property
    def url(self) -> str:
        """Where the web server answers."""
        return f"http://{HOST}:{self.port}"

    @property
    def login(self) -> tuple[str, str]:
        """User and password; Airflow has made up the password."""
        passwords: dict[str, str] = json.loads((self.folder / "airflow" / "passwords.json").read_text())
        return next(iter(passwords.items()))

    def log(self, part: str) -> Path:
        """What a part says."""
        return self.folder / f"{part}.log"

    def begin(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command of Airflow."""
        with self.log("setup").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", *command],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def run(self, *command: str) -> None:
        """Start a command of Airflow, and wait for it."""
        self.finish(self.begin(*command), command)

    def finish(self, process: subprocess.Popen[bytes], command: Sequence[str]) -> None:
        """Wait for a command that was begun."""
        if process.wait():
            raise ComponentsFailedError(f"`airflow {' '.join(command)}` failed; see {self.log('setup')}")

    def api(self) -> Api:
        """The API, for whoever has the password."""
        user, password = self.login
        client = httpx.Client(base_url=self.url, timeout=SECONDS_TO_ANSWER, trust_env=False)
        answer = client.post("/auth/token", json={"username": user, "password": password})
        answer.raise_for_status()
        client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return Api(client)


class Api:
    """What a click in the UI does."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def knows(self, dag_id: str) -> bool:
        """Whether the DAG's file has been read."""
        return self._client.get(f"/api/v2/dags/{dag_id}").status_code == httpx.codes.OK

    def unpause(self, dag_id: str) -> None:
        """Let its runs start."""
        self._ask("PATCH", f"/dags/{dag_id}", json={"is_paused": False})

    def trigger(self, dag_id: str, run_id: str, logical_date: str) -> None:
        """Start a run."""
        body = {"dag_run_id": run_id, "logical_date": logical_date, "conf": {}}
        self._ask("POST", f"/dags/{dag_id}/dagRuns", json=body)

    def state(self, dag_id: str, run_id: str) -> str:
        """How a run is doing."""
        return str(self._ask("GET", _run(dag_id, run_id))["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """How its tasks are doing."""
        answer = self._ask("GET", f"{_run(dag_id, run_id)}/taskInstances")
        return list(answer["task_instances"])

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any:  # noqa: ANN401 - whatever was pushed
        """What a task has pushed."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/{quote(key, safe='')}"
        return self._ask("GET", path, params={"deserialize": True})["value"]

    def _ask(self, method: str, path: str, **arguments: Any) -> Any:  # noqa: ANN401 - an answer in JSON
        answer = self._client.request(method, f"/api/v2{path}", **arguments)
        if answer.is_error:
            raise ComponentsFailedError(f"{method} {path} was answered with {answer.status_code}: {answer.text[:500]}")
        return answer.json() if answer.content else None


def _run(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"


class Parts:
    """Processes of a deployment that run."""

    def __init__(self, deployment: Deployment, processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
        self._deployment = deployment
        self._processes = processes

    def require_alive(self) -> None:
        """Say which part has ended, if one has."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise ComponentsFailedError(
                    f"{name} ended with exit code {process.returncode}; see {self._deployment.log(name)}"
                )

    def wait_until_ready(self, waiting: Callable[[], None] | None = None) -> None:
        """Return when every part says that it is healthy."""
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            self.require_alive()
            if self._are_healthy():
                return
            if waiting is not None:
                waiting()
            time.sleep(0.5)
        raise ComponentsFailedError(
            f"not all parts were healthy within {SECONDS_TO_START} s; see the logs in {self._deployment.folder}"
        )

    def cpu_seconds(self) -> float:
        """Processor time that these processes and all their descendants have used, those that ended included."""
        total = 0.0
        for process in _family(self._processes.values()):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += sum(process.cpu_times()[:4])
        return total

    def _are_healthy(self) -> bool:
        with suppress(httpx.TransportError, ValueError):
            health = httpx.get(f"{self._deployment.url}/api/v2/monitor/health", timeout=5, trust_env=False).json()
            parts = ["metadatabase", *(name.replace("-", "_") for name in self._processes if name != "api-server")]
            return all((health.get(part) or {}).get("status") == "healthy" for part in parts)
        return False


@contextmanager
def running(deployment: Deployment, parts: Iterable[str] = local_airflow.PARTS) -> Iterator[Parts]:
    """Start parts, and stop them with everything that they have started."""
    # They talk to each other, and this process to them: never by way of a proxy.
    past = ",".join(filter(None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), HOST)))
    environment = {**deployment.environment, "NO_PROXY": past, "no_proxy": past}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in parts:
            log = deployment.log(name)
            log.unlink(missing_ok=True)
            processes[name] = local_airflow.start_part(name, environment=environment, folder=deployment.folder, log=log)
        yield Parts(deployment, processes)
    finally:
        _stop(processes.values())


def stop_by_signal() -> None:
    """Let a signal that ends this process stop the parts first, as Ctrl-C does."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _as_interrupt)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep others from starting parts over the same state: two schedulers would corrupt each other's work."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ui.pid"
    path.write_text(str(os.getpid()))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def holder(folder: Path) -> int | None:
    """Return the process that has parts running over a folder's state, if one has."""
    with suppress(OSError, ValueError, psutil.NoSuchProcess):
        pid = int((folder / "ui.pid").read_text())
        if any(name in " ".join(psutil.Process(pid).cmdline()) for name in HOLDERS):
            return pid
    return None


def _family(processes: Iterable[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    roots = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            roots.append(psutil.Process(process.pid))
    family = list(roots)
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            family.extend(root.children(recursive=True))
    return family


def _stop(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Ask, wait, then insist. Descendants are noted first: an orphan cannot be found by its parent any more."""
    before = {
        ending: signal.signal(ending, signal.SIG_IGN) for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    processes = list(processes)
    family = _family(processes)
    for process in processes:
        if process.poll() is None:
            process.terminate()
    _, alive = psutil.wait_procs(family, timeout=SECONDS_TO_STOP)
    for survivor in alive:
        with suppress(psutil.NoSuchProcess):
            survivor.kill()
    psutil.wait_procs(alive, timeout=SECONDS_TO_STOP)
    for ending, handler in before.items():
        signal.signal(ending, handler)


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
