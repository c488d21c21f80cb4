"""Airflow as a deployment runs it: PostgreSQL, and its four parts as processes of their own on 127.0.0.1.

``with deployed(folder, dags=…) as airflow`` starts all of it, waits until each part says that it is well, and stops
every process it knows of. ``airflow.kill("scheduler")`` is SIGKILL to it and all that it started; ``airflow.start``
brings it back.
"""

import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from scripts import local_airflow
from tests.components.lake import Lake
from tests.components.rest import Rest, until
from tests.examples.postgres_server import postgres_server

HOST = "127.0.0.1"
USER, PASSWORD = "admin", "only for this test"
SECONDS_TO_START = 180
SECONDS_TO_STOP = 8
PARTS = {
    "api-server": ("api-server", "--host", HOST, "--workers", "1"),
    # Their log servers would listen on all interfaces; here every log is a file that the API server can read.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
QUICK = {
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    # A scheduler that was killed is noticed, and its tasks are taken over, after so many seconds instead of minutes.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "8",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "3",
    # Likewise a task whose supervisor was killed.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "12",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "4",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "2",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__PARALLELISM": "6",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
}


@dataclass
class Deployment:
    """The running parts, where they are, and what they say."""

    folder: Path
    environment: dict[str, str]
    url: str
    lake: Lake
    rest: Rest
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    def start(self, *names):
        """Start parts that are not running, and wait until they say that they are well."""
        for name in names:
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "airflow", *PARTS[name]],
                    env=self.environment,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # A group of its own, so that it is stopped with what it started and nothing else is.
                    start_new_session=True,
                )
        until(lambda: self._are_well(names), seconds=SECONDS_TO_START, what=f"{names} to be well")

    def kill(self, name):
        """SIGKILL a part and everything it started: what a machine does that loses power."""
        family = self.family(name)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.processes[name].wait(SECONDS_TO_STOP)
        psutil.wait_procs(family, timeout=SECONDS_TO_STOP)
        return len(family)

    def family(self, name):
        """A part's process and all that it started, children first known before anything dies."""
        try:
            root = psutil.Process(self.processes[name].pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self):
        """Ask, wait, then insist, on every process that was started."""
        family = [process for name in self.processes for process in self.family(name)]
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(family, timeout=SECONDS_TO_STOP)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=SECONDS_TO_STOP)

    def run(self, *command, timeout=120):
        """Run an ``airflow`` command in this deployment and return what it printed."""
        answer = subprocess.run(
            [sys.executable, "-m", "airflow", *command],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert answer.returncode == 0, f"airflow {' '.join(command)}: {answer.stdout[-3000:]}{answer.stderr[-3000:]}"
        return answer.stdout

    def _are_well(self, names):
        for name, process in self.processes.items():
            assert process.poll() is None, f"{name} ended with {process.returncode}; see {self.folder / name}.log"
        health = self.rest.health()
        wanted = ["metadatabase", *(name.replace("-", "_") for name in names if name != "api-server")]
        return all((health.get(part) or {}).get("status") == "healthy" for part in wanted)


@contextmanager
def deployed(folder, *, dags, settings=None):
    """Start everything in ``folder``, whose logs stay there; DAG files come from ``dags``."""
    with postgres_server(password="postgres") as server:  # noqa: S106 - on a socket that only this machine reaches
        for database in ("airflow", "lake"):
            _create_database(server, database)
        deployment = _prepare(Path(folder), Path(dags), server.rpartition("/")[0], settings or {})
        deployment.run("db", "migrate", timeout=SECONDS_TO_START)
        try:
            deployment.start(*PARTS)
            deployment.rest.log_in(USER, PASSWORD)
            yield deployment
        finally:
            deployment.stop()


def _prepare(folder, dags, server, settings):
    port = _free_port()
    url = f"http://{HOST}:{port}"
    home = folder / "airflow"
    for part in (home / "logs", folder / "control", folder / "warehouse"):
        part.mkdir(parents=True)
    (home / "passwords.json").write_text(json.dumps({USER: PASSWORD}))
    database = f"postgresql+psycopg2://postgres:postgres@{server}"
    environment = {
        **local_airflow.environment(home, dags=dags),
        **QUICK,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"{database}/airflow",
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        # The parts talk to each other: never by way of a proxy.
        "NO_PROXY": HOST,
        "no_proxy": HOST,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "IPS_CONTROL": str(folder / "control"),
        **settings,
    }
    lake = Lake(uri=f"{database}/lake", warehouse=folder / "warehouse")
    environment["AIRFLOW_CONN_LAKE"] = lake.connection()
    return Deployment(folder=folder, environment=environment, url=url, lake=lake, rest=Rest(url))


def _create_database(server, name):
    from sqlalchemy import create_engine, text

    engine = create_engine(f"postgresql+psycopg2://postgres:postgres@{server}", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()


def _free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]
